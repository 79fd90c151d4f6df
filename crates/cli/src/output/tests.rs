use super::*;

#[test]
fn ago_uses_one_unit() {
    let now = Timestamp::parse("2026-01-10T00:00:00Z").unwrap();
    let text_for = |text| relative_time(Timestamp::parse(text).unwrap(), now);
    assert_eq!(text_for("2026-01-09T23:59:59Z"), "1 s ago");
    assert_eq!(text_for("2026-01-09T23:57:01Z"), "2 min ago");
    assert_eq!(text_for("2026-01-09T20:00:00Z"), "4 h ago");
    assert_eq!(text_for("2026-01-01T00:00:00Z"), "9 d ago");
    assert_eq!(text_for("2026-01-10T00:05:00Z"), "in 5 min");
}
