use super::*;

fn new_payload(content: Json) -> NewPayload {
    let execution_id = ExecutionId::new(7).unwrap();
    let name = StepName::new("load").unwrap();
    let result_id = ResultId::new(9).unwrap();
    NewPayload::new(execution_id, name, result_id, content, &ExtractionRules::default())
}

#[test]
fn reference_has_uri_size_digest_and_small_parts() {
    let payload = new_payload(Json::object([
        ("rows", Json::list((0..1000).map(Json::from))),
        ("count", Json::from(1000)),
    ]));
    let reference = payload.reference.as_json();
    assert_eq!(payload.reference.uri(), "noetl://execution/7/result/load/9");
    assert_eq!(reference.get("bytes"), Some(&Json::from(payload.bytes.len())));
    assert_eq!(reference.get("store").and_then(Json::as_str), Some("kv"));
    assert_eq!(reference.get("extracted"), Some(&Json::object([("count", Json::from(1000))])));
}

#[test]
fn extracted_parts_are_limited_in_size() {
    let keys = (0..100).map(|key| (format!("key{key:03}"), Json::from("x".repeat(200))));
    let payload = new_payload(Json::object(keys.map(|(key, value)| (Arc::from(key), value))));
    let extracted = payload.reference.as_json().get("extracted").unwrap();
    assert!(to_canonical(extracted).len() <= MAX_EXTRACTED_BYTES);
    assert!(extracted.as_map().unwrap().len() > 10);
}

#[test]
fn selected_parts_are_extracted_first() {
    let number_list = |size: usize| Json::list((0..size).map(Json::from));
    let keys = (0..100).map(|key| (format!("a{key:03}"), Json::from("x".repeat(200))));
    let keys = keys
        .chain([("z_rows".to_owned(), number_list(300)), ("z_all".to_owned(), number_list(5000))]);
    let content = Json::object(keys.map(|(key, value)| (Arc::from(key), value)));
    let names = |content: &Json, rules: &ExtractionRules| -> Vec<Arc<str>> {
        let extracted = rules.extract_parts(content);
        assert!(to_canonical(&extracted).len() <= MAX_EXTRACTED_BYTES);
        extracted.as_map().unwrap().keys().cloned().collect()
    };
    let plain = names(&content, &ExtractionRules::default());
    assert!(!plain.contains(&"z_rows".into()), "{plain:?}");
    let spec = |select| OutputSpec { output_select: Some(select), ..OutputSpec::default() };
    let named = OutputSelect::Names(vec!["z_rows".into(), "z_all".into(), "gone".into()]);
    let named = names(&content, &ExtractionRules::from_outputs([spec(named)].iter()));
    assert!(named.contains(&"z_rows".into()), "{named:?}");
    assert!(!named.contains(&"z_all".into()), "it is too large");
    let content = Json::object([("rows", number_list(300)), ("all", number_list(5000))]);
    let threshold =
        OutputSelect::Threshold { strategy: "size_threshold".into(), threshold_kb: Some(2) };
    let fitting = names(&content, &ExtractionRules::from_outputs([spec(threshold)].iter()));
    assert_eq!(fitting, [Arc::from("rows")]);
}

#[test]
fn rejects_reference_without_uri() {
    assert!(Reference::new(Json::object([("ref", Json::from("x"))])).is_ok());
    assert_eq!(Reference::new(Json::Null), Err(InvalidReference));
    assert_eq!(Reference::new(Json::object([("ref", Json::from(1))])), Err(InvalidReference));
}
