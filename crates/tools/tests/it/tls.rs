//! TLS connections through a proxy that decrypts and forwards to PostgreSQL.

use std::time::Duration;

use noetl_testkit::postgres::{TLS_AUTHORITY_PEM, TestDatabase, start_tls_proxy};
use noetl_tools::ToolKind;
use noetl_types::{Json, TaskErrorKind};

use crate::database::{run_error, run_rows, test_database, wait_for_rows};
use crate::support::{parse_json, run_failing, test_toolbox, tool_call};

/// Starts a TLS proxy for a database, and returns its port.
async fn start_proxy(database: &TestDatabase) -> u16 {
    start_tls_proxy(database).await.unwrap()
}

fn proxied_call(
    database: &TestDatabase,
    host: &str,
    port: u16,
    query: &str,
    keys: &str,
) -> noetl_tools::ToolCall {
    let mut config = parse_json(keys).as_map().unwrap().clone();
    config.insert("query".into(), Json::from(query));
    config.insert("db_host".into(), Json::from(host));
    config.insert("db_port".into(), Json::from(u32::from(port)));
    config.insert("db_user".into(), Json::from("postgres"));
    config.insert("db_name".into(), Json::from(database.name()));
    tool_call(ToolKind::Postgres, &config.into())
}

fn trusting_config(mode: &str) -> String {
    let keys = [("sslmode", Json::from(mode)), ("sslrootcert", Json::from(TLS_AUTHORITY_PEM))];
    Json::object(keys).to_string()
}

#[tokio::test]
async fn sslmode_determines_verification() {
    let database = test_database();
    let toolbox = test_toolbox();
    let port = start_proxy(&database).await;
    let query = "SELECT 1 AS n";
    for mode in ["prefer", "require"] {
        let keys = format!(r#"{{"sslmode": "{mode}"}}"#);
        let call = proxied_call(&database, "127.0.0.1", port, query, &keys);
        assert_eq!(run_rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode}");
    }
    for (mode, host) in
        [("verify-ca", "127.0.0.1"), ("verify-ca", "localhost"), ("verify-full", "localhost")]
    {
        let call = proxied_call(&database, host, port, query, &trusting_config(mode));
        assert_eq!(run_rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode} {host}");
    }
    for (keys, host) in [
        (trusting_config("verify-full"), "127.0.0.1"),
        (r#"{"sslmode": "verify-full"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "verify-ca"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "disable"}"#.to_owned(), "localhost"),
    ] {
        let error = run_error(&toolbox, proxied_call(&database, host, port, query, &keys)).await;
        assert_eq!(error.kind, TaskErrorKind::DbConnection, "{keys}: {}", error.message);
    }
    let broken = r#"{"sslmode": "verify-full", "sslrootcert": "-----BEGIN nothing"}"#;
    let error =
        run_error(&toolbox, proxied_call(&database, "localhost", port, query, broken)).await;
    assert_eq!(error.kind, TaskErrorKind::Parse);
}

#[tokio::test]
async fn cancel_request_is_encrypted() {
    let database = test_database();
    let toolbox = test_toolbox();
    let port = start_proxy(&database).await;
    let keys = trusting_config("verify-full");
    let mut sleeper = proxied_call(&database, "localhost", port, "SELECT pg_sleep(1000)", &keys);
    sleeper.timeout = Duration::from_millis(500);
    assert_eq!(run_failing(&toolbox, sleeper).await.0, TaskErrorKind::Timeout);
    let sleepers = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
         AND state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    wait_for_rows(&database, sleepers, r#"[{"n":0}]"#).await;
}
