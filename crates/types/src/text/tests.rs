use super::*;

#[test]
fn nul_is_rejected_or_replaced() {
    assert_eq!(Text::new("a\0b"), Err(ContainsNul));
    assert_eq!(Text::from_lossy("a\0b"), "a\u{FFFD}b");
    assert!(serde_json::from_str::<Text>(r#""a\u0000b""#).is_err());
}

#[test]
fn json_is_the_plain_text() {
    let text: Text = serde_json::from_str(r#""söm€""#).unwrap();
    assert_eq!(text, "söm€");
    assert_eq!(serde_json::to_string(&text).unwrap(), r#""söm€""#);
}

#[test]
fn excerpt_is_cut_at_character_boundary() {
    assert_eq!(excerpt("short"), "short");
    let shortened = excerpt(&"ü".repeat(100));
    assert_eq!(shortened, format!("{}…", "ü".repeat(64)));
}
