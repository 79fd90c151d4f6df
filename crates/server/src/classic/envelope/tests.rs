use noetl_types::json;

use super::*;

fn open(text: &str) -> ReportedResult {
    ReportedResult::open(json::parse(text.as_bytes()).unwrap())
}

#[test]
fn keeps_data_that_resembles_an_envelope() {
    for text in [
        r#"{"status":"ok","data":[1]}"#,
        r#"{"status":"shipped","context":{"a":1}}"#,
        r#"{"status":"ok","context":{"a":1},"order":7}"#,
        r#"{"ref":"noetl://execution/1/result/a/2","bytes":3}"#,
        r#"{"duration_ms":3,"data":1}"#,
        r#"[{"status":"error"}]"#,
    ] {
        let opened = open(text);
        assert!(!opened.is_enveloped && opened.reference.is_none(), "{text}");
        let result = opened.into_tool_result(None, None);
        assert_eq!((result.data.to_string(), result.error), (sorted(text), None));
    }
}

fn sorted(text: &str) -> String {
    json::parse(text.as_bytes()).unwrap().to_string()
}

#[test]
fn opens_every_form_of_envelope() {
    for text in [
        r#"{"status":"success","context":{"data":{"n":1},"status":"success","duration_ms":3}}"#,
        r#"{"status":"COMPLETED","context":{"data":{"n":1},"status":"success","duration_ms":3,"new":1}}"#,
        r#"{"status":"COMPLETED","context":{"n":1}}"#,
        r#"{"status":"ok","data":{"n":1},"error":null,"stdout":"","exit_code":0,"duration_ms":0.5}"#,
    ] {
        let result = open(text).into_tool_result(None, None);
        assert_eq!((result.data.to_string(), result.error), (r#"{"n":1}"#.into(), None), "{text}");
    }
}

#[test]
fn finds_address_of_stored_data() {
    let uri = "noetl://execution/1/result/a/2";
    for text in [
        r#"{"kind":"ref","ref":"URI"}"#,
        r#"{"kind":"result_ref","uri":"URI","bytes":7}"#,
        r#"{"status":"COMPLETED","reference":"URI"}"#,
        r#"{"status":"COMPLETED","reference":{"store_tier":"kv","logical_uri":"URI"},"context":{"rows":3}}"#,
        r#"{"status":"success","context":{"status":"success","data":{"kind":"ref","ref":"URI"}}}"#,
        r#"{"status":"success","data":{"kind":"ref","ref":"URI"},"duration_ms":7}"#,
    ] {
        let opened = open(&text.replace("URI", uri));
        assert_eq!(opened.stored_data_uri(), Some(uri), "{text}");
        let stored = json::parse(br#"{"status":"success","data":[1],"duration_ms":1}"#).unwrap();
        let result = opened.with_stored_data(stored).into_tool_result(None, None);
        assert_eq!(result.data.to_string(), "[1]", "{text}");
    }
    assert_eq!(open(r#"{"kind":"ref","ref":"gs://b/k"}"#).stored_data_uri(), None);
}

#[test]
fn failure_of_envelope_fails_stored_data() {
    let opened = open(r#"{"status":"error","error":"no","reference":"noetl://x"}"#);
    let result = opened.with_stored_data(Json::from(1)).into_tool_result(None, None);
    assert_eq!(result.error.unwrap().message, "no");
}
