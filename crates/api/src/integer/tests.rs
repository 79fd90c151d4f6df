use super::*;

fn clamp(text: &str) -> Result<Option<i64>, serde_json::Error> {
    clamp_to_i64(&mut serde_json::Deserializer::from_str(text))
}

#[test]
fn clamps_integers_above_i64() {
    for (text, expected) in [
        ("null", None),
        ("300", Some(300)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", Some(i64::MAX)),
        ("18446744073709551616", Some(i64::MAX)),
        ("1e300", Some(i64::MAX)),
    ] {
        assert_eq!(clamp(text).unwrap(), expected, "{text}");
    }
    for text in ["1.5", "300.0", "-9223372036854775809", "\"300\"", "[]"] {
        assert!(clamp(text).is_err(), "{text}");
    }
}
