use super::*;

#[test]
fn resolves_scalars_by_core_schema() {
    let text = |source: &str| resolve_plain_scalar(source).unwrap().is_none();
    for source in [
        "yes", "on", "off", "no", "1_000", "0b11", "1:30", "-", "+", ".", "1e", "12abc",
        "2024-01-01", "0o8", "0x",
    ] {
        assert!(text(source), "{source} is text");
    }
    let value = |source: &str| resolve_plain_scalar(source).unwrap().unwrap().to_string();
    for (source, json) in [
        ("~", "null"),
        ("NULL", "null"),
        ("True", "true"),
        ("FALSE", "false"),
        ("0", "0"),
        ("-12", "-12"),
        ("+7", "7"),
        ("0o17", "15"),
        ("0xfF", "255"),
        ("1.0", "1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("1e3", "1000"),
        ("-1.5e-3", "-0.0015"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709552000"),
        ("007", "7"),
    ] {
        assert_eq!(value(source), json, "{source}");
    }
    for source in [".inf", "-.INF", ".nan", "1e999"] {
        assert!(resolve_plain_scalar(source).is_err(), "{source} is rejected");
    }
}
