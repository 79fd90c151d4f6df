use super::*;

fn split_uri(uri: &str) -> Option<(String, String)> {
    let (token, rest) = split_command_token(&uri.parse().unwrap())?;
    Some((token.expose_secret().to_owned(), rest.to_string()))
}

#[test]
fn splits_command_token_from_api_path() {
    let split = |token: &str, rest: &str| Some((token.to_owned(), rest.to_owned()));
    assert_eq!(split_uri("/w/abc/api/events"), split("abc", "/api/events"));
    assert_eq!(split_uri("/w/abc/api/x?y=%2F&z"), split("abc", "/api/x?y=%2F&z"));
    assert_eq!(split_uri("/w//api/events"), split("", "/api/events"));
    assert_eq!(
        split_uri("http://host:1/w/abc/api/events"),
        split("abc", "http://host:1/api/events")
    );
}

#[test]
fn other_paths_are_unrouted() {
    for rest in ["", "/", "/livez", "/api", "/noetl/events", "/w/x/api/events"] {
        let found = split_uri(&format!("/w/abc{rest}"));
        assert_eq!(found, Some(("abc".to_owned(), UNROUTED_PATH.to_owned())), "{rest}");
    }
    for other in ["/", "/w", "/api/w/abc/api/events", "/wx/abc/api/events"] {
        assert_eq!(split_uri(other), None, "{other}");
    }
}
