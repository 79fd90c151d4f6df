use super::*;

#[test]
fn classifies_retention_of_stream() {
    assert_eq!(classify_retention(&Config::default()), MessageRetention::AgeOnly);
    // The broker reports missing limits as -1.
    let unbounded = Config {
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        ..Config::default()
    };
    assert_eq!(classify_retention(&unbounded), MessageRetention::AgeOnly);
    let bounded = Config { max_bytes: 1 << 30, ..unbounded.clone() };
    assert_eq!(classify_retention(&bounded), MessageRetention::Limits);
    let queue = Config { retention: RetentionPolicy::WorkQueue, ..unbounded };
    assert_eq!(classify_retention(&queue), MessageRetention::Consumption);
}

#[test]
fn pattern_covers_subject() {
    for (pattern, subject) in
        [("a.b", "a.b"), ("a.>", "a.b.>"), (">", "a"), ("a.*", "a.b"), ("a.*.c", "a.*.c")]
    {
        assert!(subject_covers(pattern, subject), "{pattern} {subject}");
    }
    for (pattern, subject) in [("a.>", "a"), ("a.*", "a.>"), ("a", "a.b"), ("a.b", "a")] {
        assert!(!subject_covers(pattern, subject), "{pattern} {subject}");
    }
}
