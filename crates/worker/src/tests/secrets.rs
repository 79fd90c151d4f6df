//! Secrets reach the tools, and nothing else.

use noetl_api::command::CommandReport;
use noetl_api::credential::CredentialView;
use noetl_types::{CredentialId, Json, TaskErrorKind, Timestamp};

use super::Bench;
use super::fake::command;

fn credential(name: &str, kind: &str, data: &str) -> (String, CredentialView) {
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

fn bench() -> Bench {
    let bench = Bench::of(1);
    bench.server.see(|seen| {
        seen.credentials.extend([
            credential("api_main", "bearer", r#"{"token":"sesame-opens-42"}"#),
            credential(
                "db_main",
                "postgres",
                r#"{"db_user":"ada-lovelace","db_password":"pass/word 1815"}"#,
            ),
        ]);
    });
    bench
}

fn text(report: &CommandReport) -> String {
    format!("{report:?}")
}

#[tokio::test(start_paused = true)]
async fn what_a_careless_tool_tells_is_hidden() {
    let bench = bench();
    bench.server.offer([command(4, "leak")]);
    bench.until_reported(1).await;
    let report = bench.server.taken().remove(0);
    assert_eq!(report.error, None);
    let told = text(&report);
    for secret in [
        "sesame-opens-42",
        "SESAME-OPENS-42",
        "ada-lovelace",
        "pass/word 1815",
    ] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    // It had them: there was something to hide at every place.
    let seen = report.result.unwrap();
    assert_eq!(
        seen.get("auth").unwrap().to_string(),
        r#"{"db_password":"[REDACTED]","db_user":"[REDACTED]","type":"postgres"}"#
    );
    assert_eq!(
        seen.get("seen")
            .unwrap()
            .as_str()
            .unwrap()
            .matches("[REDACTED]")
            .count(),
        4
    );
    assert_eq!(report.set.get("ctx.t"), Some(&Json::from("[REDACTED]")));
    // Each credential was asked for once, for this run.
    let asked = bench.server.see(|seen| {
        let names = seen.wishes.iter().map(|wish| wish.name.to_string());
        names.collect::<Vec<_>>()
    });
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn both_sides_of_a_transfer_have_credentials() {
    let bench = bench();
    bench.server.offer([command(4, "leak_sides")]);
    bench.until_reported(1).await;
    let report = bench.server.taken().remove(0);
    assert_eq!(report.error, None);
    let told = text(&report);
    for secret in ["sesame-opens-42", "pass/word 1815"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let seen = report.result.unwrap();
    let auth = |side: &str| seen.get(side).unwrap().get("auth").unwrap().to_string();
    assert_eq!(auth("source"), r#"{"token":"[REDACTED]","type":"bearer"}"#);
    assert_eq!(
        auth("target"),
        r#"{"db_password":"[REDACTED]","db_user":"ada-lovelace","type":"postgres"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_side_without_its_credential_fails_the_transfer() {
    let bench = Bench::of(1);
    bench.server.offer([command(4, "leak_sides")]);
    bench.until_reported(1).await;
    let error = bench.server.taken().remove(0).error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Auth);
    let message = &error.message;
    assert!(message.contains("noetl secret set api_main"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_tell_either() {
    let bench = bench();
    bench.server.offer([command(4, "leak_and_fail")]);
    bench.until_reported(1).await;
    let report = bench.server.taken().remove(0);
    assert!(text(&report).contains("cannot log in with"));
    assert!(
        !text(&report).contains("pass/word 1815"),
        "{}",
        text(&report)
    );
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_not_there_fails_the_task() {
    let bench = Bench::of(1);
    bench.server.offer([command(4, "leak_and_fail")]);
    bench.until_reported(1).await;
    let error = bench.server.taken().remove(0).error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Auth);
    assert!(
        error.message.contains("noetl secret set db_main"),
        "{}",
        error.message
    );
}
