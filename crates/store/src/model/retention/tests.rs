use super::*;

#[test]
fn retention_window_never_wraps() {
    let now = Timestamp::parse("2026-11-05T12:00:00Z").unwrap();
    for skipped in [0, -1, i64::MIN] {
        assert_eq!(retention_cutoff(now, skipped), Ok(None));
    }
    for wrong in [36_501, 4_294_967_295, i64::MAX] {
        assert_eq!(retention_cutoff(now, wrong), Err(WindowTooLong(wrong)));
    }
    let week = retention_cutoff(now, 7).unwrap().unwrap();
    assert_eq!(week.to_string(), "2026-10-29T12:00:00Z");
    assert!(retention_cutoff(now, MAX_RETENTION_DAYS).unwrap().unwrap() < now);
}

#[test]
fn partitions_are_months() {
    let november = LogPartition::for_month(Month::new(2026, 11).unwrap());
    assert_eq!(november.name, "event_y2026m11");
    let october = LogPartition::for_month(Month::new(2026, 10).unwrap());
    assert_eq!(october.end_id, november.first_id);
    assert_eq!(LogPartition::for_month(Month::new(2024, 1).unwrap()).first_id, 0);
}
