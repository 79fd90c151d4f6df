use super::*;

#[test]
fn long_key_is_hashed() {
    let short = Text::from("order-7");
    assert_eq!(MatchKey::from_text(&short).as_str(), "order-7");
    let edge = Text::from("x".repeat(MatchKey::MAX_PLAIN_BYTES));
    assert_eq!(MatchKey::from_text(&edge).as_str(), edge.as_str());
    let long = Text::from("x".repeat(MatchKey::MAX_PLAIN_BYTES + 1));
    let hashed = MatchKey::from_text(&long);
    assert_eq!(hashed.as_str().len(), 71);
    // A caller that sends the digest itself does not match the hashed text.
    assert_ne!(MatchKey::from_text(&Text::from(hashed.as_str())), hashed);
}

#[test]
fn truncation_keeps_characters_whole() {
    assert_eq!(truncate_text(&Text::from("aüb"), 2), "a");
    assert_eq!(truncate_text(&Text::from("aüb"), 3), "aü");
    assert_eq!(truncate_text(&Text::from("ab"), 9), "ab");
}
