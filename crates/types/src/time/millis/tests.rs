use proptest::prelude::*;

use super::*;

#[test]
fn human_text_uses_two_largest_units() {
    for (ms, text) in [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (12_345, "12.3 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (180_000_000, "2 d 2 h"),
    ] {
        assert_eq!(Millis::from_ms(ms).to_human(), text);
    }
}

#[test]
fn parses_durations() {
    for (text, ms) in [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("90", 90_000),
        ("0", 0),
        ("0.5", 500),
        ("1.5h", 5_400_000),
        ("0.0004s", 0),
        ("0.0005s", 1),
        ("0.30000000000000004", 300),
        (" 30s\n", 30_000),
        ("007s", 7000),
    ] {
        assert_eq!(Millis::parse(text), Ok(Millis::from_ms(ms)), "{text}");
    }
}

#[test]
fn rejects_invalid_durations() {
    for text in [
        "", " ", "s", "5 min", "5min", "5 m", "-1s", "+1s", "1h30m", "1e3", "1.", ".5", "1.s",
        "5M", "5sec", "1_000", "٣s",
    ] {
        let error = Millis::parse(text).unwrap_err();
        assert!(matches!(error, DurationTextError::Shape(_)), "{text}: {error}");
    }
    for text in ["99999999999999999999", "99999999999999999999d", "213503982335d"] {
        let error = Millis::parse(text).unwrap_err();
        assert!(matches!(error, DurationTextError::TooLong(_)), "{text}: {error}");
    }
}

#[test]
fn reads_durations_from_json() {
    let read = |text: &str| Millis::from_json(&crate::json::parse(text.as_bytes()).unwrap());
    assert_eq!(read("30"), Ok(Millis::from_secs(30)));
    assert_eq!(read("0.25"), Ok(Millis::from_ms(250)));
    assert_eq!(read("0.3333333333333333"), Ok(Millis::from_ms(333)));
    assert_eq!(read(r#""2h""#), Ok(Millis::from_hours(2)));
    assert_eq!(read("true"), Err(DurationTextError::Type("bool")));
    assert_eq!(read("null"), Err(DurationTextError::Type("null")));
    assert!(matches!(read("-1"), Err(DurationTextError::Shape(_))));
    assert!(matches!(read("-0.5"), Err(DurationTextError::Shape(_))));
    assert!(matches!(read("1e300"), Err(DurationTextError::TooLong(_))));
    assert!(matches!(read("1e17"), Err(DurationTextError::TooLong(_))));
    assert_eq!(read("1e-9"), Ok(Millis::ZERO));
}

#[test]
fn prints_the_largest_exact_unit() {
    for (ms, text) in
        [(0, "0s"), (1500, "1500ms"), (90_000, "90s"), (3_600_000, "1h"), (172_800_000, "2d")]
    {
        assert_eq!(Millis::from_ms(ms).to_string(), text);
    }
}

#[test]
fn serializes_as_text_or_milliseconds() {
    #[derive(Serialize, Deserialize)]
    struct WireDurations {
        timeout: Millis,
        #[serde(with = "as_ms")]
        wait_ms: Millis,
    }
    let form: WireDurations = serde_json::from_str(r#"{"timeout":2.5,"wait_ms":2500}"#).unwrap();
    assert_eq!(form.timeout, form.wait_ms);
    assert_eq!(serde_json::to_string(&form).unwrap(), r#"{"timeout":"2500ms","wait_ms":2500}"#);
}

proptest! {
    #[test]
    fn duration_round_trips(ms: u64, unit in prop::sample::select(vec![1, 1000, 60_000, 86_400_000])) {
        let duration = Millis::from_ms(ms - ms % unit);
        prop_assert_eq!(Millis::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn parsing_duration_never_panics(text in "[0-9.]{0,30}(ms|s|m|h|d|\\PC{0,3})") {
        let _ = Millis::parse(&text);
    }
}
