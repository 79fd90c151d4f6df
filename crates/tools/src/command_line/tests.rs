use noetl_types::json::parse;

use super::*;

fn parse_args(value: &str) -> Result<Vec<String>, String> {
    let config = JsonMap::from([("args".into(), parse(value.as_bytes()).unwrap())]);
    read_args(Config(&config), "args").map_err(|error| error.message.to_string())
}

#[test]
fn parses_all_forms() {
    for (value, expected) in [
        ("null", &[][..]),
        (r#"["a b", 1, true, 1.5]"#, &["a b", "1", "true", "1.5"]),
        (r#""""#, &[]),
        (r#""echo  'a b' \"c \\\" d\" e\\ f ''""#, &["echo", "a b", "c \" d", "e f", ""]),
        (r#""a && b | $c""#, &["a", "&&", "b", "|", "$c"]),
        (
            r#"{"v": true, "q": false, "n": null, "k": [1, "x"], "a": "b c"}"#,
            &["--a", "b c", "--k", "1", "--k", "x", "--v"],
        ),
    ] {
        assert_eq!(parse_args(value).unwrap(), expected, "{value}");
    }
}

#[test]
fn rejects_other_values() {
    for (value, message) in [
        ("5", "'args' must be a list, a text or a map, not number"),
        (r#"["a", [1]]"#, "'args' must be a list of texts and numbers, not list"),
        (r#"{"a": {"b": 1}}"#, "'args.a' must be a list of texts and numbers, not map"),
        (r#""a 'b""#, "'args' contains an unclosed quote"),
    ] {
        assert_eq!(parse_args(value).unwrap_err(), message);
    }
}
