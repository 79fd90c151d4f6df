use proptest::prelude::*;

use super::*;

fn parse_time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

#[test]
fn rejects_times_out_of_range() {
    assert_eq!(Timestamp::MIN.to_string(), "0001-01-01T00:00:00Z");
    assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
    assert_eq!(Timestamp::UNIX_EPOCH.to_string(), "1970-01-01T00:00:00Z");
    let above = Timestamp::MAX.as_micros() + 1;
    let below = Timestamp::MIN.as_micros() - 1;
    for wrong in [above, below, i64::MIN, i64::MAX] {
        assert_eq!(Timestamp::from_micros(wrong), Err(TimestampRangeError));
        assert_eq!(Timestamp::from_unix_ms(wrong), Err(TimestampRangeError));
    }
}

#[test]
fn milliseconds_round_down() {
    assert_eq!(parse_time("1970-01-01T00:00:00.001999Z").as_unix_ms(), 1);
    assert_eq!(parse_time("1969-12-31T23:59:59.999999Z").as_unix_ms(), -1);
}

#[test]
fn arithmetic_stays_in_range() {
    let noon = parse_time("2026-11-05T12:00:00Z");
    assert_eq!(noon.saturating_add(Millis::from_secs(90)), parse_time("2026-11-05T12:01:30Z"));
    assert_eq!(noon.saturating_sub(Millis::from_days(1)), parse_time("2026-11-04T12:00:00Z"));
    let forever = Millis::from_ms(u64::MAX);
    assert_eq!(noon.saturating_add(forever), Timestamp::MAX);
    assert_eq!(noon.saturating_sub(forever), Timestamp::MIN);
    assert_eq!(noon.checked_add(forever), None);
}

#[test]
fn since_is_never_negative() {
    let later = parse_time("2026-11-05T12:00:01.5Z");
    let earlier = parse_time("2026-11-05T12:00:00.000001Z");
    assert_eq!(later.duration_since(earlier), Millis::from_ms(1499));
    assert_eq!(earlier.duration_since(later), Millis::ZERO);
    assert_eq!(Timestamp::MAX.duration_since(Timestamp::MIN).as_ms(), 315_537_897_599_999);
}

proptest! {
    #[test]
    fn timestamp_round_trips(micros in Timestamp::MIN.0..=Timestamp::MAX.0) {
        let time = Timestamp::from_micros(micros).unwrap();
        prop_assert_eq!(time.to_string().parse(), Ok(time));
        let json = serde_json::to_string(&time).unwrap();
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
    }

    #[test]
    fn text_order_is_time_order(a in 0..Timestamp::MAX.0, b in 0..Timestamp::MAX.0) {
        // Whole seconds only, since a zero fraction is omitted.
        let [a, b] = [a, b].map(|micros| {
            Timestamp::from_micros(micros - micros % 1_000_000).unwrap()
        });
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }
}
