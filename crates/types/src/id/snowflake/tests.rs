use proptest::prelude::*;

use super::*;
use crate::time::Month;

/// Computed by hand: 2026-11-05T14:30:00.123Z is 89821800123 ms after the epoch of ids, so the
/// id is 89821800123 * 2^22 + 5 * 2^12 + 7.
#[test]
fn decodes_known_id() {
    let id = Snowflake::new(376_739_935_543_099_392 + 20_480 + 7).unwrap();
    assert_eq!(id.time().to_string(), "2026-11-05T14:30:00.123Z");
    assert_eq!(id.machine().get(), 5);
    assert_eq!(id.sequence(), 7);
}

#[test]
fn decodes_smallest_and_largest_id() {
    let first = Snowflake::new(1).unwrap();
    assert_eq!(first.time().to_string(), "2024-01-01T00:00:00Z");
    assert_eq!((first.machine().get(), first.sequence()), (0, 1));
    let last = Snowflake::new(i64::MAX).unwrap();
    assert_eq!(last.time().to_string(), "2093-09-06T15:47:35.551Z");
    assert_eq!((last.machine().get(), last.sequence()), (1023, 4095));
}

#[test]
fn parses_texts() {
    assert_eq!(Snowflake::parse("123").unwrap().get(), 123);
    assert_eq!(Snowflake::parse("9223372036854775807").unwrap().get(), i64::MAX);
    for wrong in ["", " 1", "1 ", "+1", "-1", "01", "1.0", "0x1", "1e3", "9223372036854775808", "١"]
    {
        assert_eq!(Snowflake::parse(wrong), Err(IdError::Text(wrong.to_owned())), "{wrong}");
    }
    assert_eq!(Snowflake::parse("0"), Err(IdError::NotPositive(0)));
    assert_eq!(Snowflake::new(-5).unwrap_err().to_string(), "-5 is not an id: ids are positive");
}

#[test]
fn reads_json_values() {
    let read = |text: &str| Snowflake::from_json(&crate::json::parse(text.as_bytes()).unwrap());
    assert_eq!(read("123").unwrap().get(), 123);
    assert_eq!(read("\"123\"").unwrap().get(), 123);
    assert_eq!(read("123.0").unwrap().get(), 123);
    assert_eq!(read("1.5"), Err(IdError::Text("1.5".to_owned())));
    assert_eq!(read("18446744073709551615"), Err(IdError::Text("18446744073709551615".to_owned())));
    assert_eq!(read("-1"), Err(IdError::NotPositive(-1)));
    assert_eq!(read("[1]"), Err(IdError::Type("list")));
    assert_eq!(read("null"), Err(IdError::Type("null")));
}

#[test]
fn first_id_at_month_boundaries() {
    let november = Month::new(2026, 11).unwrap();
    let bound = first_id_at(november.first_instant().as_unix_ms());
    assert_eq!(Snowflake::new(bound).unwrap().time(), november.first_instant());
    assert!(Snowflake::new(bound - 1).unwrap().time() < november.first_instant());
    assert_eq!(first_id_at(EPOCH_UNIX_MS), 0);
    assert_eq!(first_id_at(i64::MIN), 0);
    assert_eq!(first_id_at(i64::MAX), i64::MAX);
}

proptest! {
    #[test]
    fn id_is_in_range_of_its_time(number in 1..=i64::MAX) {
        let id = Snowflake::new(number).unwrap();
        prop_assert!(first_id_at(id.unix_ms()) <= number);
        prop_assert!(number <= first_id_at(id.unix_ms() + 1));
        prop_assert_eq!(Snowflake::parse(&id.to_string()), Ok(id));
        let rebuilt = Snowflake::from_parts(id.unix_ms() - EPOCH_UNIX_MS, id.machine(), id.sequence());
        prop_assert_eq!(rebuilt, Ok(id));
    }
}
