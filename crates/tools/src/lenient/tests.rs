use super::*;

#[test]
fn replaces_text_that_log_rejects() {
    let read = |text: &str| lenient_json(text.as_bytes()).map(|value| value.to_string());
    assert_eq!(read(r#"{"a":"x\u0000y","b":1,"b":2}"#).unwrap(), "{\"a\":\"x\u{FFFD}y\",\"b\":2}");
    assert!(read("{").is_err());
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(read(&deep).is_err());
    let shallow = format!("{}\"\\u0000\"{}", "[".repeat(60), "]".repeat(60));
    assert!(read(&shallow).is_ok());
}
