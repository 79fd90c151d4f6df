use super::*;

#[test]
fn token_round_trips_and_is_hidden_in_debug() {
    let token = LeaseToken::from_bytes([7; 16]);
    let text = serde_json::to_string(&token).unwrap();
    assert_eq!(text.len(), 34);
    assert_eq!(serde_json::from_str::<LeaseToken>(&text).unwrap(), token);
    assert_eq!(format!("{token:?}"), "LeaseToken(..)");
}

#[test]
fn rejects_invalid_token() {
    for text in ["\"\"", "\"07\"", "7", "\"+7070707070707070707070707070707\""] {
        assert!(serde_json::from_str::<LeaseToken>(text).is_err(), "{text}");
    }
}
