use noetl_types::json::parse;

use super::*;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn enabled_accumulation(strategy: AccumulateStrategy) -> AccumulateSpec {
    AccumulateSpec { enabled: true, strategy, ..AccumulateSpec::default() }
}

fn accumulate_all(spec: &AccumulateSpec, parts: &[&str]) -> Result<Json, TaskError> {
    let mut accumulated = None;
    for part in parts {
        accumulated = Some(spec.add_part(accumulated, &parse_json(part))?);
    }
    Ok(accumulated.unwrap())
}

#[test]
fn paths_select_in_maps_and_lists() {
    let value = parse_json(r#"{"a": {"b": [10, {"c": 11}]}, "n": null}"#);
    let text_at = |path| value_at_path(&value, path).map(ToString::to_string);
    assert_eq!(text_at("$.a.b[1].c").as_deref(), Some("11"));
    assert_eq!(text_at("a.b[0]").as_deref(), Some("10"));
    assert_eq!(text_at("$.n").as_deref(), Some("null"));
    assert_eq!(text_at("$").as_deref(), Some(&*value.to_string()));
    for path in ["$.x", "$.a.b[2]", "$.a[0]", "$.a.b[x]", "$.a.b[1", "$.n.x"] {
        assert_eq!(text_at(path), None, "{path}");
    }
}

#[test]
fn selected_parts_are_added_to_data() {
    let select_all = |text: &str| {
        let mut data = parse_json(text);
        let part =
            |path: &str, alias: &str| SelectedPath { path: path.into(), alias: alias.into() };
        let parts = [part("$.rows[0].id", "first"), part("$.x", "n"), part("$.y", "z")];
        apply_select(&parts, &mut data);
        data.to_string()
    };
    assert_eq!(
        select_all(r#"{"rows":[{"id":7}],"n":1,"x":2}"#),
        r#"{"first":7,"n":1,"rows":[{"id":7}],"x":2}"#
    );
    assert_eq!(select_all("[1]"), "[1]");
}

#[test]
fn accumulates_by_strategy() {
    let parts = [r#"{"a":{"x":1},"b":[1]}"#, r#"{"a":{"y":2},"b":[2]}"#];
    let accumulate =
        |strategy| accumulate_all(&enabled_accumulation(strategy), &parts).unwrap().to_string();
    let both = format!("[{},{}]", parts[0], parts[1]);
    assert_eq!(accumulate(AccumulateStrategy::Append), both);
    assert_eq!(accumulate(AccumulateStrategy::Concat), both);
    assert_eq!(accumulate(AccumulateStrategy::Replace), parts[1]);
    let merged = r#"{"a":{"x":1,"y":2},"b":[2]}"#;
    assert_eq!(accumulate(AccumulateStrategy::Merge), merged);
}

#[test]
fn merge_path_selects_part() {
    let pages = [r#"{"page":{"items":[1,2]}}"#, "{}", r#"{"page":{"items":[3]}}"#];
    let accumulate = |strategy| {
        let spec = AccumulateSpec {
            merge_path: Some("$.page.items".into()),
            ..enabled_accumulation(strategy)
        };
        accumulate_all(&spec, &pages).unwrap().to_string()
    };
    assert_eq!(accumulate(AccumulateStrategy::Concat), "[1,2,3]");
    assert_eq!(accumulate(AccumulateStrategy::Append), "[[1,2],[3]]");
    assert_eq!(accumulate(AccumulateStrategy::Replace), "[3]");
}

#[test]
fn exceeding_max_items_fails() {
    let spec =
        AccumulateSpec { max_items: Some(2), ..enabled_accumulation(AccumulateStrategy::Concat) };
    assert_eq!(accumulate_all(&spec, &["[1]", "[2]"]).unwrap().to_string(), "[1,2]");
    let error = accumulate_all(&spec, &["[1]", "[2,3]"]).unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::Limit);
}

#[test]
fn named_accumulation_is_stored_in_data() {
    let spec = AccumulateSpec {
        manifest_as: Some("all".into()),
        ..enabled_accumulation(AccumulateStrategy::Append)
    };
    let data = spec.with_accumulated(parse_json(r#"{"n":1}"#), parse_json("[1]"));
    assert_eq!(data.to_string(), r#"{"all":[1],"n":1}"#);
    assert_eq!(spec.accumulated_value(&data), Some(&parse_json("[1]")));
    assert_eq!(
        spec.with_accumulated(parse_json("7"), parse_json("[1]")).to_string(),
        r#"{"all":[1]}"#
    );
}
