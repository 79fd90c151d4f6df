use super::*;
use crate::json;

fn parse_error(text: &str) -> TaskError {
    TaskError::from_json(&json::parse(text.as_bytes()).unwrap())
}

#[test]
fn kinds_are_stable() {
    let kind_names = |retryable: bool| -> String {
        let names: Vec<&str> = TaskErrorKind::ALL
            .iter()
            .filter(|kind| kind.is_retryable() == retryable)
            .map(|kind| kind.as_str())
            .collect();
        names.join(" ")
    };
    insta::assert_snapshot!(kind_names(true), @"connection timeout rate_limit server_error db_connection db_deadlock db_timeout lost");
    insta::assert_snapshot!(kind_names(false), @"auth not_found client_error schema parse transform db_constraint db_error storage_quota storage_access template routing limit child cancelled unsupported unknown");
    for kind in TaskErrorKind::ALL {
        assert_eq!(TaskErrorKind::parse(kind.as_str()), Ok(*kind));
    }
}

#[test]
fn http_status_maps_to_kind() {
    for (status, kind) in [
        (200, None),
        (304, None),
        (400, Some(TaskErrorKind::ClientError)),
        (401, Some(TaskErrorKind::Auth)),
        (403, Some(TaskErrorKind::Auth)),
        (404, Some(TaskErrorKind::NotFound)),
        (429, Some(TaskErrorKind::RateLimit)),
        (503, Some(TaskErrorKind::ServerError)),
        (600, None),
    ] {
        assert_eq!(TaskErrorKind::from_http_status(status), kind, "{status}");
    }
}

#[test]
fn task_error_round_trips() {
    let error = TaskError {
        code: Some(Json::from("40P01")),
        status: Some(503),
        details: Some(Json::object([("table", Json::from("orders"))])),
        task: Some("insert".into()),
        attempt: Some(2),
        index: Some(7),
        retryable: false,
        ..TaskError::new(TaskErrorKind::DbDeadlock, "deadlock detected")
    };
    assert_eq!(
        error.to_json().to_string(),
        r#"{"attempt":2,"code":"40P01","details":{"table":"orders"},"index":7,"kind":"db_deadlock","message":"deadlock detected","retryable":false,"status":503,"task":"insert"}"#
    );
    assert_eq!(TaskError::from_json(&error.to_json()), error);

    let bare = TaskError::new(TaskErrorKind::Lost, "worker gone");
    assert_eq!(
        bare.to_json().to_string(),
        r#"{"attempt":null,"code":null,"details":null,"kind":"lost","message":"worker gone","retryable":true,"status":null,"task":null}"#
    );
    let text = serde_json::to_string(&bare).unwrap();
    assert_eq!(serde_json::from_str::<TaskError>(&text).unwrap(), bare);
}

#[test]
fn reads_foreign_error_formats() {
    assert_eq!(parse_error(r#""boom""#), TaskError::new(TaskErrorKind::Unknown, "boom"));
    assert_eq!(parse_error("[1]"), TaskError::new(TaskErrorKind::Unknown, "[1]"));
    assert_eq!(parse_error("{}"), TaskError::new(TaskErrorKind::Unknown, "{}"));

    let foreign = parse_error(r#"{"kind":"ZeroDivisionError","message":"division by zero"}"#);
    assert_eq!(foreign.kind, TaskErrorKind::Unknown);
    assert_eq!(foreign.code, Some(Json::from("ZeroDivisionError")));
    assert_eq!(foreign.message, "division by zero");

    let reported =
        parse_error(r#"{"message":"busy","code":75,"retryable":true,"attempt":-1,"status":"x"}"#);
    assert!(reported.retryable);
    assert_eq!(reported.code, Some(Json::from(75_i64)));
    assert_eq!((reported.attempt, reported.status), (None, None));
}
