use super::*;

#[test]
fn parses_origins_as_sent_by_browsers() {
    for good in [
        "https://app.example.com", "http://localhost:3000", "http://[::1]:3000",
        "http://a, https://b:8443 ,", "",
    ] {
        assert!(AllowedOrigins::parse_list(good).is_ok(), "{good}");
    }
    assert_eq!(AllowedOrigins::parse_list(" ").unwrap(), AllowedOrigins::default());
    for wrong in [
        "*", "null", "app.example.com", "https://*.example.com", "https://App.example.com",
        "https://app.example.com/", "https://app.example.com:443", "http://app.example.com:80",
        "https://user@app.example.com", "https://", "ftp://app.example.com", "https://a;https://b",
    ] {
        let error = AllowedOrigins::parse_list(wrong).unwrap_err();
        assert!(error.contains(wrong), "{error}");
    }
}
