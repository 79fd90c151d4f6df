use super::*;

#[test]
fn minimal_body_has_default_scope() {
    let parsed: ResultPutRequest = serde_json::from_str(r#"{"name":"n","data":[1]}"#).unwrap();
    let built = ResultPutRequest::new("n", Json::from(vec![Json::from(1)]));
    assert_eq!(parsed, built);
    assert_eq!(serde_json::to_string(&built).unwrap(), r#"{"name":"n","data":[1]}"#);
}

#[test]
fn stored_result_is_identified_by_ref() {
    let stored: ResultPutResponse = serde_json::from_str(
        r#"{"ref":"noetl://execution/7/result/n/8","store":"kv","scope":"execution",
                "bytes":3,"sha256":"ab","expires_at":null}"#,
    )
    .unwrap();
    assert_eq!(stored.reference, "noetl://execution/7/result/n/8");
    assert_eq!(stored.expires_at, None);
}
