//! TLS towards a server: a front of the test's own that decrypts and passes on to PostgreSQL.

use std::time::Duration;

use noetl_testkit::postgres::{AUTHORITY, Database, tls_front};
use noetl_tools::ToolKind;
use noetl_types::{Json, TaskErrorKind};

use crate::database::{database, fault, rows, until_rows};
use crate::support::{call, error, toolbox, value};

/// Starts a front for a database; gives its port.
async fn front(database: &Database) -> u16 {
    tls_front(database).await.unwrap()
}

fn through(database: &Database, place: (&str, u16), text: &str, more: &str) -> noetl_tools::Call {
    let mut config = value(more).as_map().unwrap().clone();
    config.insert("query".into(), Json::from(text));
    config.insert("db_host".into(), Json::from(place.0));
    config.insert("db_port".into(), Json::from(u32::from(place.1)));
    config.insert("db_user".into(), Json::from("postgres"));
    config.insert("db_name".into(), Json::from(database.name()));
    call(ToolKind::Postgres, &config.into())
}

fn trusting(mode: &str) -> String {
    let keys = [
        ("sslmode", Json::from(mode)),
        ("sslrootcert", Json::from(AUTHORITY)),
    ];
    Json::object(keys).to_string()
}

#[tokio::test]
async fn as_much_is_verified_as_the_mode_says() {
    let database = database();
    let toolbox = toolbox();
    let port = front(&database).await;
    let one = "SELECT 1 AS n";
    for mode in ["prefer", "require"] {
        let keys = format!(r#"{{"sslmode": "{mode}"}}"#);
        let call = through(&database, ("127.0.0.1", port), one, &keys);
        assert_eq!(rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode}");
    }
    for (mode, host) in [
        ("verify-ca", "127.0.0.1"),
        ("verify-ca", "localhost"),
        ("verify-full", "localhost"),
    ] {
        let call = through(&database, (host, port), one, &trusting(mode));
        assert_eq!(rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode} {host}");
    }
    for (keys, host) in [
        (trusting("verify-full"), "127.0.0.1"),
        (r#"{"sslmode": "verify-full"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "verify-ca"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "disable"}"#.to_owned(), "localhost"),
    ] {
        let error = fault(&toolbox, through(&database, (host, port), one, &keys)).await;
        assert_eq!(
            error.kind,
            TaskErrorKind::DbConnection,
            "{keys}: {}",
            error.message
        );
    }
    let broken = r#"{"sslmode": "verify-full", "sslrootcert": "-----BEGIN nothing"}"#;
    let error = fault(
        &toolbox,
        through(&database, ("localhost", port), one, broken),
    )
    .await;
    assert_eq!(error.kind, TaskErrorKind::Parse);
}

#[tokio::test]
async fn a_cancel_request_is_encrypted_as_well() {
    let database = database();
    let toolbox = toolbox();
    let port = front(&database).await;
    let keys = trusting("verify-full");
    let mut sleeper = through(
        &database,
        ("localhost", port),
        "SELECT pg_sleep(1000)",
        &keys,
    );
    sleeper.timeout = Duration::from_millis(500);
    assert_eq!(error(&toolbox, sleeper).await.0, TaskErrorKind::Timeout);
    let sleepers = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
         AND state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    until_rows(&database, sleepers, r#"[{"n":0}]"#).await;
}
