use super::*;

#[test]
fn splits_names_at_unquoted_dots() {
    let lower = |name: &str| split_name(name, str::to_lowercase);
    assert_eq!(lower("Rate"), ["rate"]);
    assert_eq!(lower("staging . Rate"), ["staging", "rate"]);
    assert_eq!(lower(r#""My.Schema"."a""b""#), ["My.Schema", "a\"b"]);
    assert_eq!(lower(r#""never closed"#), ["never closed"]);
    assert_eq!(lower(""), [""]);
}

#[test]
fn quote_in_name_is_escaped() {
    assert_eq!(quote_name(r#"a"; drop table b; --"#), r#""a""; drop table b; --""#);
}
