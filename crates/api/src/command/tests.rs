use noetl_types::json::parse;
use noetl_types::{Millis, TaskErrorKind};

use super::*;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

#[test]
fn report_redacts_values_but_not_names() {
    let report = r#"{"execution_id":"7","command_id":"8","attempt":1,"task_attempt":1,
            "lease_token":"00000000000000000000000000000000","status":"failed",
            "result":{"sesame-1":"<sesame-1>"},"labels":{"a":"sesame-1"},
            "onward":{"to":"sesame-1","task_runs":1,"variables":{"sesame-1":"sesame-1"}},
            "set":{"ctx.sesame-1":["sesame-1"]}}"#;
    let mut report: CommandReport = serde_json::from_str(report).unwrap();
    let error = TaskError {
        code: Some(Json::from("sesame-1")),
        details: Some(parse_json(r#"{"said":"sesame-1"}"#)),
        ..TaskError::new(TaskErrorKind::Auth, "no entry with sesame-1")
    };
    report.error = Some(error.clone());
    report.retries =
        vec![RetriedTask { error: error.clone(), attempt: 1, retry_in_ms: Millis::ZERO, at: None }];
    report.frame = Some(FrameReport {
        rows: 1,
        done: 0,
        failed: 1,
        bytes: 8,
        errors: vec![RowError { row: 0, error }],
    });
    report.tasks = vec![TaskReport {
        label: "sesame-1".into(),
        status: TaskStatus::Error,
        attempts: 1,
        duration_ms: None,
        stdout: Some("it is sesame-1".into()),
        stderr: Some("sesame-1\nno".into()),
    }];
    let mut secrets = SecretSet::default();
    secrets.add_text("sesame-1");
    let redacted = report.redact_secrets(&secrets);
    assert_eq!(redacted.result, Some(parse_json(r#"{"[REDACTED]":"<[REDACTED]>"}"#)));
    assert_eq!(Json::from(redacted.set.clone()), parse_json(r#"{"ctx.sesame-1":["[REDACTED]"]}"#));
    assert_eq!(
        redacted.onward,
        Some(parse_json(
            r#"{"to":"sesame-1","task_runs":1,"variables":{"sesame-1":"[REDACTED]"}}"#
        ))
    );
    let text = serde_json::to_string(&redacted).unwrap();
    // The four remaining occurrences are names.
    assert_eq!(text.matches("sesame-1").count(), 4, "{text}");
}
