use super::*;

#[test]
fn deep_merge_merges_nested_maps() {
    let json = |text: &str| noetl_types::json::parse(text.as_bytes()).unwrap();
    let base = json(r#"{"a":{"x":1,"y":[1]},"b":2}"#);
    let overlay = json(r#"{"a":{"y":[2],"z":3},"c":null}"#);
    let expected = json(r#"{"a":{"x":1,"y":[2],"z":3},"b":2,"c":null}"#);
    assert_eq!(deep_merge(&base, &overlay), expected);
}
