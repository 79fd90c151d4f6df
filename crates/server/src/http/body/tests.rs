use super::*;

#[test]
fn recognizes_json_media_types() {
    for json in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=\"utf-8\"; x=1",
        "application/cloudevents+json",
    ] {
        assert!(is_json(json), "{json}");
    }
    for other in [
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "application/jsonl",
    ] {
        assert!(!is_json(other), "{other}");
    }
}

#[test]
fn nesting_depth_ignores_strings() {
    assert_eq!(nesting_depth(br#"{"a":[1,[2]],"b":"[[[[\"[[","c":{}}"#), 3);
    assert_eq!(nesting_depth(b"]]]]["), 1);
}

#[tokio::test]
async fn reads_body_up_to_limit() {
    let max = ByteSize::from_bytes(6);
    let timeout = Duration::from_secs(1);
    assert_eq!(read_body(Body::from("abcdef"), max, timeout).await.unwrap(), "abcdef");
    assert!(read_body(Body::from("abcdefg"), max, timeout).await.is_err());
    assert_eq!(read_body(Body::empty(), max, timeout).await.unwrap(), "");
}
