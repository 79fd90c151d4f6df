use proptest::prelude::*;

use super::TimestampTextError::*;
use super::*;

fn parse_and_print(text: &str) -> String {
    parse(text).unwrap().to_string()
}

#[test]
fn parses_and_prints_timestamps() {
    for (text, expected) in [
        ("2026-11-05T14:30:00Z", "2026-11-05T14:30:00Z"),
        ("2026-11-05t14:30:00z", "2026-11-05T14:30:00Z"),
        ("2026-11-05 14:30:00Z", "2026-11-05T14:30:00Z"),
        ("2026-11-05T14:30:00+05:30", "2026-11-05T09:00:00Z"),
        ("2026-11-05T23:30:00-05:00", "2026-11-06T04:30:00Z"),
        ("2026-11-05T14:30:00-00:00", "2026-11-05T14:30:00Z"),
        ("2026-11-05T14:30:00.5Z", "2026-11-05T14:30:00.500Z"),
        ("2026-11-05T14:30:00.000100Z", "2026-11-05T14:30:00.000100Z"),
        ("2026-11-05T14:30:00.123456789Z", "2026-11-05T14:30:00.123456Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
    ] {
        assert_eq!(parse_and_print(text), expected, "{text}");
    }
    assert_eq!(parse("2024-01-01T00:00:00Z").unwrap().as_unix_ms(), 1_704_067_200_000);
}

#[test]
fn rejects_invalid_timestamps() {
    for (text, error) in [
        ("", Shape),
        ("yesterday", Shape),
        ("2026-11-05", Shape),
        ("2026-11-05T14:30Z", Shape),
        ("2026-11-05T14:30:00.Z", Shape),
        ("2026-11-05T14:30:00Zulu", Shape),
        ("2026-11-05T14:30:00+0200", Shape),
        ("2026-11-05T14:30:00 02:00", Shape),
        ("26-11-05T14:30:00Z", Shape),
        ("+026-11-05T14:30:00Z", Shape),
        ("2026-11-05T14:30:00", NoZone),
        ("2026-02-30T14:30:00Z", NoSuchTime),
        ("2026-11-05T24:00:00Z", NoSuchTime),
        ("2026-11-05T14:60:00Z", NoSuchTime),
        ("2026-11-05T14:30:61Z", NoSuchTime),
        ("2026-11-05T14:30:00+24:00", NoSuchTime),
        ("2026-11-05T14:30:00+02:60", NoSuchTime),
        ("0000-01-01T00:00:00Z", NoSuchTime),
        ("0001-01-01T00:00:00+01:00", OutOfRange),
        ("9999-12-31T23:59:59-00:01", OutOfRange),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
}

#[test]
fn parses_lenient_forms() {
    for (text, expected) in [
        ("2026-11-05T14:30:00", "2026-11-05T14:30:00Z"),
        ("2026-11-05 14:30:00.25", "2026-11-05T14:30:00.250Z"),
        (" 2026-11-05T14:30:00+05:00\n", "2026-11-05T09:30:00Z"),
        ("2026-11-05 14:30:00+00", "2026-11-05T14:30:00Z"),
        ("2026-11-05 14:30:00-0330", "2026-11-05T18:00:00Z"),
    ] {
        let time = parse_lenient(text).unwrap().unwrap();
        assert_eq!(time.to_string(), expected, "{text}");
    }
    assert_eq!(parse_lenient(""), Ok(None));
    assert_eq!(parse_lenient(" \t"), Ok(None));
    assert_eq!(parse_lenient("soon"), Err(Shape));
    assert_eq!(parse_lenient("2026-11-05"), Err(Shape));
}

proptest! {
    #[test]
    fn parsing_timestamp_never_panics(text in "\\PC{0,40}") {
        let _ = parse(&text);
        let _ = parse_lenient(&text);
    }

    #[test]
    fn parsing_similar_texts_never_panics(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9:]{0,6})?") {
        if let Ok(time) = parse(&text) {
            prop_assert_eq!(parse(&time.to_string()), Ok(time));
            prop_assert_eq!(parse_lenient(&text), Ok(Some(time)));
        }
    }

    #[test]
    fn offset_does_not_change_instant(micros in 0..4_102_444_800_000_000_i64, minutes in -1439..=1439_i64) {
        let time = Timestamp::from_micros(micros).unwrap();
        let local = Timestamp::from_micros(micros + minutes * 60_000_000).unwrap();
        let sign = if minutes < 0 { '-' } else { '+' };
        let text = format!(
            "{}{sign}{:02}:{:02}",
            local.to_string().trim_end_matches('Z'),
            minutes.abs() / 60,
            minutes.abs() % 60,
        );
        prop_assert_eq!(parse(&text), Ok(time));
    }
}
