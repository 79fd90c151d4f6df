use super::*;

#[test]
fn rejects_numbers_out_of_range() {
    assert_eq!(PageLimit::default().get(), 50);
    assert_eq!(PageLimit::new(500), Ok(PageLimit::MAX));
    for wrong in [0, 501, -1, i64::MIN, i64::MAX] {
        let error = PageLimit::new(wrong).unwrap_err();
        assert_eq!(error.to_string(), format!("limit = {wrong} is out of range 1..500"));
    }
    assert_eq!(Priority::new(-100), Ok(Priority::MIN));
    assert!(Priority::new(101).is_err());
    assert_eq!(DedupWindowSecs::new(30 * 86_400), Ok(DedupWindowSecs::MAX));
}

#[test]
fn clamps_to_nearest_limit() {
    for (requested, expected) in [(i64::MIN, 1), (0, 1), (100, 100), (1000, 1000), (i64::MAX, 1000)]
    {
        assert_eq!(OutboxClaimLimit::clamped(requested).get(), expected);
    }
    assert_eq!(Priority::clamped(-1000), Priority::MIN);
}

#[test]
fn json_values_are_checked() {
    assert_eq!(serde_json::from_str::<LeaseBatchSize>("7").unwrap().get(), 7);
    assert!(serde_json::from_str::<LeaseBatchSize>("101").is_err());
}
