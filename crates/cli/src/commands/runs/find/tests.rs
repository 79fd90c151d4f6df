use super::*;

#[test]
fn only_full_length_ids_are_exact() {
    assert!(parse_full_id("380639183661694976").is_some());
    assert!(parse_full_id("1380639183661694976").is_some());
    assert!(parse_full_id("80639183661694976").is_none(), "17 digits");
    assert!(parse_full_id("0639183661694976").is_none(), "16 digits");
    assert!(parse_full_id("last").is_none());
}
