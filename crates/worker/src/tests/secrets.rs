//! Secrets reach the tools but no report.

use noetl_api::command::CommandReport;
use noetl_api::credential::CredentialView;
use noetl_types::{CredentialId, Json, TaskErrorKind, Timestamp};

use super::TestWorker;
use super::fake::leased_command;

fn credential_view(name: &str, kind: &str, data: &str) -> (String, CredentialView) {
    let now = Timestamp::from_unix_ms(0).unwrap();
    let view = CredentialView {
        id: CredentialId::new(1).unwrap(),
        name: name.into(),
        kind: kind.into(),
        meta: None,
        tags: Vec::new(),
        description: None,
        created_at: now,
        updated_at: now,
        data: Some(noetl_types::json::parse(data.as_bytes()).unwrap()),
    };
    (name.to_owned(), view)
}

pub(super) fn worker_with_credentials() -> TestWorker {
    let worker = TestWorker::with_concurrency(1);
    worker.server.with_state(|state| {
        state.credentials.extend([
            credential_view("api_main", "bearer", r#"{"token":"sesame-opens-42"}"#),
            credential_view(
                "db_main",
                "postgres",
                r#"{"db_user":"ada-lovelace","db_password":"pass/word 1815"}"#,
            ),
        ]);
    });
    worker
}

fn report_text(report: &CommandReport) -> String {
    format!("{report:?}")
}

#[tokio::test(start_paused = true)]
async fn secrets_in_result_are_redacted() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(4, "leak")]);
    worker.wait_for_reports(1).await;
    let report = worker.server.final_reports().remove(0);
    assert_eq!(report.error, None);
    let reported = report_text(&report);
    for secret in ["sesame-opens-42", "SESAME-OPENS-42", "ada-lovelace", "pass/word 1815"] {
        assert!(!reported.contains(secret), "{secret} in {reported}");
    }
    // The tool received the secrets: every occurrence is redacted.
    let received = report.result.unwrap();
    assert_eq!(
        received.get("auth").unwrap().to_string(),
        r#"{"db_password":"[REDACTED]","db_user":"[REDACTED]","type":"postgres"}"#
    );
    assert_eq!(received.get("seen").unwrap().as_str().unwrap().matches("[REDACTED]").count(), 4);
    assert_eq!(report.set.get("ctx.t"), Some(&Json::from("[REDACTED]")));
    // Each credential was requested once for this run.
    let requested = worker.server.with_state(|state| {
        let names = state.credential_requests.iter().map(|request| request.name.to_string());
        names.collect::<Vec<_>>()
    });
    assert_eq!(requested.len(), 2, "{requested:?}");
}

#[tokio::test(start_paused = true)]
async fn static_entry_has_token_and_data() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(4, "leak_fixed")]);
    worker.wait_for_reports(1).await;
    let received = worker.server.final_reports().remove(0).result.unwrap();
    let seen = received.get("seen").unwrap().to_string();
    assert_eq!(seen.matches("[REDACTED]").count(), 2, "{seen}");
}

#[tokio::test(start_paused = true)]
async fn duckdb_resolves_each_named_credential() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(4, "leak_members")]);
    worker.wait_for_reports(1).await;
    let received = worker.server.final_reports().remove(0).result.unwrap();
    let auth = |name: &str| received.get("auth").unwrap().get(name).unwrap().to_string();
    assert_eq!(auth("api"), r#"{"token":"[REDACTED]","type":"bearer"}"#);
    assert_eq!(
        auth("pg"),
        r#"{"db_password":"[REDACTED]","db_user":"ada-lovelace","type":"postgres"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn transfer_resolves_credentials_of_both_sides() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(4, "leak_sides")]);
    worker.wait_for_reports(1).await;
    let report = worker.server.final_reports().remove(0);
    assert_eq!(report.error, None);
    let reported = report_text(&report);
    for secret in ["sesame-opens-42", "pass/word 1815"] {
        assert!(!reported.contains(secret), "{secret} in {reported}");
    }
    let received = report.result.unwrap();
    let auth = |side: &str| received.get(side).unwrap().get("auth").unwrap().to_string();
    assert_eq!(auth("source"), r#"{"token":"[REDACTED]","type":"bearer"}"#);
    assert_eq!(
        auth("target"),
        r#"{"db_password":"[REDACTED]","db_user":"ada-lovelace","type":"postgres"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn missing_transfer_credential_fails_task() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(4, "leak_sides")]);
    worker.wait_for_reports(1).await;
    let error = worker.server.final_reports().remove(0).error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Auth);
    let message = &error.message;
    assert!(message.contains("noetl secret set api_main"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn secrets_in_error_are_redacted() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(4, "leak_and_fail")]);
    worker.wait_for_reports(1).await;
    let report = worker.server.final_reports().remove(0);
    assert!(report_text(&report).contains("cannot log in with"));
    assert!(!report_text(&report).contains("pass/word 1815"), "{}", report_text(&report));
}

#[tokio::test(start_paused = true)]
async fn missing_credential_fails_task() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(4, "leak_and_fail")]);
    worker.wait_for_reports(1).await;
    let error = worker.server.final_reports().remove(0).error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Auth);
    assert!(error.message.contains("noetl secret set db_main"), "{}", error.message);
}
