use noetl_types::json::parse;
use proptest::prelude::*;

use super::*;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn parse_map(text: &str) -> JsonMap {
    parse_json(text).as_map().unwrap().clone()
}

#[test]
fn writes_follow_their_paths() {
    let mut ctx = parse_json(r#"{"a":{"x":1},"n":1}"#);
    write_variables(&mut ctx, &parse_map(r#"{"a.b.c":2,"n":3,"n2.k":4,"dotted\\.key":5}"#));
    assert_eq!(ctx, parse_json(r#"{"a":{"b":{"c":2},"x":1},"dotted.key":5,"n":3,"n2":{"k":4}}"#));
}

#[test]
fn map_is_written_before_its_keys() {
    let mut ctx = Json::empty_map();
    write_variables(&mut ctx, &parse_map(r#"{"a.b":1,"a":{"z":0}}"#));
    assert_eq!(ctx, parse_json(r#"{"a":{"b":1,"z":0}}"#));
}

#[test]
fn path_replaces_non_map_value() {
    let mut ctx = parse_json(r#"{"a":[1]}"#);
    write_variables(&mut ctx, &parse_map(r#"{"a.b":1}"#));
    assert_eq!(ctx, parse_json(r#"{"a":{"b":1}}"#));
}

proptest! {
    #[test]
    fn paths_round_trip(segments in prop::collection::vec("[a-c.\\\\]{0,4}", 1..4)) {
        let text = path_text(&segments);
        let back: Vec<String> = path_segments(&text).iter().map(ToString::to_string).collect();
        prop_assert_eq!(back, segments);
    }
}
