use super::*;

#[test]
fn retry_delay_grows_to_maximum() {
    let max = Millis::from_secs(300);
    for (attempts, seconds) in [(0, 1), (1, 1), (2, 2), (5, 16), (9, 256), (20, 256)] {
        assert_eq!(outbox_retry_delay(attempts, max), Millis::from_secs(seconds));
    }
    assert_eq!(outbox_retry_delay(5, Millis::from_secs(10)), Millis::from_secs(10));
    assert_eq!(outbox_retry_delay(u32::MAX, max), Millis::from_secs(256));
}

#[test]
fn retry_delay_uses_reported_attempts() {
    let outcome = |attempts, max_delay| {
        let failure = OutboxFailure {
            outbox_id: OutboxId::new(1).unwrap(),
            error: Text::from("no"),
            attempts,
            max_delay: Millis::from_secs(max_delay),
            max_attempts: 20,
            now: Timestamp::UNIX_EPOCH,
        };
        failure.to_outcome(5, 0)
    };
    for (attempts, max_delay, seconds) in
        [(None, 300, 16), (None, 10, 10), (Some(0), 300, 1), (Some(5), 300, 16), (Some(2), 300, 2)]
    {
        let delay = Millis::from_secs(seconds);
        let actual = outcome(attempts, max_delay);
        assert_eq!(actual, FailureOutcome::Retry { delay }, "{attempts:?}");
    }
}

#[test]
fn large_published_count_is_estimated() {
    let rows_by_status = |published, estimated_total| {
        let counts = [
            (OutboxStatus::Pending, 5),
            (OutboxStatus::Dead, 0),
            (OutboxStatus::Published, published),
        ];
        OutboxStats::from_counts(counts, estimated_total, None, false).rows
    };
    let expected = |published| {
        BTreeMap::from([(OutboxStatus::Pending, 5), (OutboxStatus::Published, published)])
    };
    let limit = u64::from(MAX_EXACT_PUBLISHED_COUNT);
    assert_eq!(rows_by_status(limit - 1, 1_000_000), expected(limit - 1));
    assert_eq!(rows_by_status(limit, 1_000_000), expected(999_995));
    // The count is at least what was counted, even if the database has no estimate.
    assert_eq!(rows_by_status(limit, 0), expected(limit));
}

#[test]
fn error_truncation_keeps_characters_whole() {
    let mut failure = OutboxFailure {
        outbox_id: OutboxId::new(1).unwrap(),
        error: Text::from("ü".repeat(2_001)),
        attempts: Some(0),
        max_delay: Millis::from_secs(300),
        max_attempts: 20,
        now: Timestamp::UNIX_EPOCH,
    };
    assert_eq!(failure.truncated_error().chars().count(), 2_000);
    failure.error = Text::from("ü".repeat(2_000));
    assert_eq!(failure.truncated_error(), failure.error);
    assert_eq!(failure.required_attempt(), None);
}

#[test]
fn status_names_round_trip() {
    for status in OutboxStatus::ALL {
        assert_eq!(OutboxStatus::parse(status.as_str()), Ok(*status));
    }
    assert!(OutboxStatus::parse("pending").is_err());
}
