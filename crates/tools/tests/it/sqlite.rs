use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noetl_tools::walls::SandboxMode;
use noetl_tools::{CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{ByteSize, Json, TaskErrorKind};
use tempfile::TempDir;

use crate::database::{fault, query, rows, sqlite, with};
use crate::support::{call, data, error, run, settings, toolbox, until, value};

/// A query that has work for hours.
const ENDLESS: &str =
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";

fn file() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db").display().to_string();
    (folder, file)
}

#[tokio::test]
async fn values_there_and_back() {
    let toolbox = toolbox();
    for (param, expected) in [
        ("null", "null"),
        ("true", "1"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.5", "1.5"),
        ("\"grüße\"", "\"grüße\""),
        ("[1,2]", "\"[1,2]\""),
        ("{\"base64\":\"AP8=\"}", "\"AP8=\""),
        ("18446744073709551615", "\"18446744073709551615\""),
    ] {
        let found = rows(
            &toolbox,
            sqlite(":memory:", &with("SELECT ? AS v", &format!("[{param}]"))),
        );
        assert_eq!(found.await, format!("[{{\"v\":{expected}}}]"), "{param}");
    }
    for (expression, expected) in [
        ("x'00ff'", "\"AP8=\""),
        ("9e999", "\"Infinity\""),
        ("-9e999", "\"-Infinity\""),
        ("2.0", "2"),
        ("CAST(x'ff41' AS TEXT)", "\"\u{FFFD}A\""),
    ] {
        let text = format!("SELECT {expression} AS v");
        let found = rows(&toolbox, sqlite(":memory:", &query(&text))).await;
        assert_eq!(found, format!("[{{\"v\":{expected}}}]"), "{expression}");
    }
}

#[tokio::test]
async fn parameters_of_each_form() {
    let toolbox = toolbox();
    for (text, params) in [
        ("SELECT ? AS a, ? AS b", "[1,2]"),
        ("SELECT ?1 AS a, ?2 AS b", "[1,2]"),
        ("SELECT $1 AS a, $2 AS b", "[1,2]"),
        ("SELECT $2 AS a, $1 AS b", "[2,1]"),
        ("SELECT :x AS a, @y AS b", "{\"x\":1,\"y\":2}"),
        ("SELECT $x AS a, :y AS b", "{\"x\":1,\"y\":2,\"unused\":3}"),
    ] {
        let found = rows(&toolbox, sqlite(":memory:", &with(text, params))).await;
        assert_eq!(found, r#"[{"a":1,"b":2}]"#, "{text}");
    }
    for (text, params, kind) in [
        ("SELECT ?, ?", "[1]", TaskErrorKind::Schema),
        ("SELECT :x", "{\"y\":1}", TaskErrorKind::Schema),
        ("SELECT :x", "[1]", TaskErrorKind::Schema),
        ("SELECT 1; SELECT ?", "[1]", TaskErrorKind::Schema),
        ("SELECT ?", "7", TaskErrorKind::Schema),
    ] {
        let error = fault(&toolbox, sqlite(":memory:", &with(text, params))).await;
        assert_eq!(error.kind, kind, "{text}: {}", error.message);
    }
}

#[tokio::test]
async fn the_shape_is_that_of_postgres() {
    let (_folder, file) = file();
    let toolbox = toolbox();
    let keys = r#"{"commands": ["CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO t VALUES (1, 'a;'), (2, NULL)",
        "UPDATE t SET name = 'b' WHERE id = 2 RETURNING *"]}"#;
    assert_eq!(
        data(&toolbox, sqlite(&file, keys)).await,
        r#"{"columns":["id","name"],"command_0":{"affected_rows":0,"columns":[],"message":"0 rows affected","row_count":0,"rows":[],"status":"success"},"command_1":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_2":{"columns":["id","name"],"message":"1 row returned","row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"},"row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"}"#
    );
    let lists = r#"{"query": "SELECT id, id FROM t", "as_objects": false}"#;
    assert_eq!(rows(&toolbox, sqlite(&file, lists)).await, "[[1,1],[2,2]]");
    // A body of a trigger holds semicolons of its own.
    let trigger = query(
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET name = 'x' WHERE id = new.id; END; \
         INSERT INTO t VALUES (3, 'y'); SELECT name FROM t WHERE id = 3",
    );
    assert_eq!(
        rows(&toolbox, sqlite(&file, &trigger)).await,
        r#"[{"name":"x"}]"#
    );
}

#[tokio::test]
async fn errors_and_transactions() {
    let (_folder, file) = file();
    let toolbox = toolbox();
    let make = query("CREATE TABLE t (id INTEGER PRIMARY KEY, CHECK (id < 100))");
    data(&toolbox, sqlite(&file, &make)).await;
    let twice = r#"{"command": "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"}"#;
    let outcome = run(&toolbox, sqlite(&file, twice)).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::DbConstraint);
    assert_eq!(error.code, Some(Json::from(1555)));
    assert_eq!(
        error.message,
        "UNIQUE constraint failed: t.id (SQLite code 1555)"
    );
    assert_eq!(
        outcome.data.get("command_0").unwrap().get("status"),
        Some(&Json::from("success"))
    );
    assert_eq!(outcome.data.get("status"), Some(&Json::from("error")));
    let ids = query("SELECT id FROM t");
    assert_eq!(rows(&toolbox, sqlite(&file, &ids)).await, r#"[{"id":1}]"#);

    let all = r#"{"transaction": true, "command": "INSERT INTO t VALUES (5); INSERT INTO t VALUES (100)"}"#;
    assert_eq!(
        fault(&toolbox, sqlite(&file, all)).await.kind,
        TaskErrorKind::DbConstraint
    );
    assert_eq!(rows(&toolbox, sqlite(&file, &ids)).await, r#"[{"id":1}]"#);
    let open = query("BEGIN; INSERT INTO t VALUES (6)");
    data(&toolbox, sqlite(&file, &open)).await;
    assert_eq!(rows(&toolbox, sqlite(&file, &ids)).await, r#"[{"id":1}]"#);
    for text in ["SELEC 1", "SELECT * FROM nowhere"] {
        let error = fault(&toolbox, sqlite(&file, &query(text))).await;
        assert_eq!(error.kind, TaskErrorKind::DbError, "{}", error.message);
    }
}

#[tokio::test]
async fn files_that_are_only_read() {
    let (folder, file) = file();
    let toolbox = toolbox();
    let missing = r#"{"query": "SELECT 1", "readonly": true}"#;
    assert_eq!(
        fault(&toolbox, sqlite(&file, missing)).await.kind,
        TaskErrorKind::NotFound
    );
    data(&toolbox, sqlite(&file, &query("CREATE TABLE t (a)"))).await;
    let write = r#"{"query": "INSERT INTO t VALUES (1)", "readonly": true}"#;
    assert_eq!(
        fault(&toolbox, sqlite(&file, write)).await.kind,
        TaskErrorKind::DbError
    );
    let text = folder.path().join("no.db");
    std::fs::write(
        &text,
        "this is no database, and long enough to be looked at in full",
    )
    .unwrap();
    let error = fault(
        &toolbox,
        sqlite(text.to_str().unwrap(), &query("SELECT * FROM t")),
    )
    .await;
    assert_eq!(error.kind, TaskErrorKind::DbError);
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_given_up() {
    let (_folder, file) = file();
    let toolbox = toolbox();
    data(&toolbox, sqlite(&file, &query("CREATE TABLE t (a)"))).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let write = r#"{"query": "INSERT INTO t VALUES (1)", "busy_timeout": "20ms"}"#;
    let error = fault(&toolbox, sqlite(&file, write)).await;
    assert_eq!(error.kind, TaskErrorKind::DbTimeout);
    assert!(error.retryable);
    // What waits gets its turn.
    let patient = sqlite(&file, &query("INSERT INTO t VALUES (2)"));
    let (outcome, ()) = tokio::join!(run(&toolbox, patient), async {
        tokio::task::spawn_blocking(move || holder.execute_batch("COMMIT").unwrap())
            .await
            .unwrap();
    });
    assert_eq!(outcome.error, None);
}

#[tokio::test]
async fn a_database_in_memory_lives_as_long_as_its_command() {
    let toolbox = toolbox();
    let make = query("CREATE TABLE t AS SELECT 1 AS a");
    data(&toolbox, sqlite(":memory:", &make)).await;
    let look = query("SELECT a FROM t");
    assert_eq!(
        rows(&toolbox, sqlite(":memory:", &look)).await,
        r#"[{"a":1}]"#
    );
    let mut other = sqlite(":memory:", &look);
    other.command = "another".into();
    assert_eq!(fault(&toolbox, other).await.kind, TaskErrorKind::DbError);
    toolbox.forget("7002");
    assert_eq!(
        fault(&toolbox, sqlite(":memory:", &look)).await.kind,
        TaskErrorKind::DbError
    );
}

#[tokio::test]
async fn what_takes_too_long_is_interrupted() {
    let (_folder, file) = file();
    let toolbox = Arc::new(toolbox());
    data(&toolbox, sqlite(&file, &query("CREATE TABLE t (a)"))).await;
    // The statement holds a lock for as long as it runs.
    let mut slow = sqlite(&file, &query(&format!("INSERT INTO t {ENDLESS}")));
    slow.timeout = Duration::from_millis(100);
    let (kind, _) = error(&toolbox, slow).await;
    assert_eq!(kind, TaskErrorKind::Timeout);
    let patient = r#"{"query": "INSERT INTO t VALUES (1)", "busy_timeout": "60s"}"#;
    data(&toolbox, sqlite(&file, patient)).await;

    let cancel = CancellationToken::new();
    let slow = sqlite(
        &file,
        &query(&format!("BEGIN IMMEDIATE; INSERT INTO t {ENDLESS}")),
    );
    let task = {
        let (toolbox, cancel) = (Arc::clone(&toolbox), cancel.clone());
        tokio::spawn(async move { toolbox.call(slow, cancel).await })
    };
    let probe = rusqlite::Connection::open(&file).unwrap();
    probe.busy_timeout(Duration::ZERO).unwrap();
    until("the file is locked", || {
        probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
    })
    .await;
    cancel.cancel();
    assert_eq!(
        task.await.unwrap().error.unwrap().kind,
        TaskErrorKind::Cancelled
    );
    until("the lock is gone", || {
        probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    })
    .await;
}

/// A task that is stopped while it waits for a lock does not write once it gets the lock.
#[tokio::test]
async fn what_is_stopped_does_not_commit() {
    let (_folder, file) = file();
    let toolbox = toolbox();
    data(&toolbox, sqlite(&file, &query("CREATE TABLE t (a)"))).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waits = sqlite(&file, &query("INSERT INTO t VALUES (1)"));
    waits.timeout = Duration::from_millis(50);
    assert_eq!(error(&toolbox, waits).await.0, TaskErrorKind::Timeout);
    holder.execute_batch("ROLLBACK").unwrap();
    // The next writer comes after the one that still waits, if that would write at all.
    let patient = r#"{"query": "INSERT INTO t VALUES (2)", "busy_timeout": "60s"}"#;
    data(&toolbox, sqlite(&file, patient)).await;
    drop(toolbox);
    let count = |wanted: i64| {
        let found = holder.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        found.is_ok_and(|found| found == wanted)
    };
    until("one row is there", || count(1)).await;
}

#[tokio::test]
async fn only_opened_folders_hold_databases() {
    let folder = tempfile::tempdir().unwrap();
    let (open, shut) = (folder.path().join("open"), folder.path().join("shut"));
    for folder in [&open, &shut] {
        std::fs::create_dir(folder).unwrap();
    }
    let settings = Settings {
        file_roots: Some(vec![open.clone()]),
        ..settings()
    };
    let toolbox = Toolbox::new(settings);
    let path = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let inside = path(&open, "a.db");
    let outside = path(&shut, "b.db");
    data(&toolbox, sqlite(&inside, &query("CREATE TABLE t (a)"))).await;
    let denied = async |call| fault(&toolbox, call).await.kind;
    assert_eq!(
        denied(sqlite(&outside, &query("SELECT 1"))).await,
        TaskErrorKind::Auth
    );
    for text in [
        format!("ATTACH '{outside}' AS other"),
        format!("ATTACH '{}' || '' AS other", &outside),
        format!("VACUUM INTO '{outside}'"),
    ] {
        let error = fault(&toolbox, sqlite(&inside, &query(&text))).await;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{text}: {}", error.message);
    }
    let attach = format!(
        "ATTACH '{}' AS other; CREATE TABLE other.t (a)",
        path(&open, "c.db")
    );
    data(&toolbox, sqlite(&inside, &query(&attach))).await;
    assert!(std::fs::read_dir(&shut).unwrap().next().is_none());
}

/// The worker itself opens the file, so the walls around processes do not keep a task from it.
#[tokio::test]
async fn the_platforms_own_database_is_no_business_of_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let own = path("data/noetl.db");
    data(&toolbox(), sqlite(&own, &query("CREATE TABLE t (a)"))).await;
    std::os::unix::fs::symlink(&own, path("link.db")).unwrap();
    for mode in [SandboxMode::Off, SandboxMode::BestEffort] {
        let mut settings = settings();
        settings.sandbox.mode = mode;
        settings.sandbox.hidden = vec![folder.path().join("data")];
        let toolbox = Toolbox::new(settings);
        let mine = path("mine.db");
        data(
            &toolbox,
            sqlite(&mine, &query("CREATE TABLE IF NOT EXISTS t (a)")),
        )
        .await;
        for name in [&own, &path("data/new.db"), &path("link.db")] {
            let error = fault(&toolbox, sqlite(name, &query("SELECT * FROM t"))).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{name}: {}", error.message);
        }
        let escaped = own.replace('/', "%2f");
        for text in [
            format!("ATTACH '{own}' AS other"),
            format!("ATTACH '{}' AS other", path("link.db")),
            format!("ATTACH 'file:{own}' AS other"),
            format!("ATTACH 'file:{escaped}' AS other"),
            format!("ATTACH 'FILE:{escaped}?mode=ro' AS other"),
            format!("VACUUM INTO '{}'", path("data/copy.db")),
        ] {
            let error = fault(&toolbox, sqlite(&mine, &query(&text))).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{text}: {}", error.message);
        }
        // A name that is only known when the statement runs.
        let attach = with("ATTACH ? AS other", &format!("[\"{}\"]", path("b.db")));
        let outcome = run(&toolbox, sqlite(&mine, &attach)).await;
        assert_eq!(outcome.error.is_none(), mode == SandboxMode::Off);
        data(&toolbox, sqlite(&mine, &query("VACUUM"))).await;
    }
    assert_eq!(std::fs::read_dir(path("data")).unwrap().count(), 1);
    let script = format!(r#"{{"script": {{"type": "local", "uri": "{own}"}}}}"#);
    let mut settings = settings();
    settings.sandbox.hidden = vec![folder.path().join("data")];
    let script = call(ToolKind::Script, &value(&script));
    let (kind, message) = error(&Toolbox::new(settings), script).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
}

#[tokio::test]
async fn what_is_in_memory_has_a_bound() {
    let mut settings = settings();
    settings.payload_cap = ByteSize::from_mib(2);
    settings.sandbox.mode = SandboxMode::BestEffort;
    let toolbox = Toolbox::new(settings);
    let mebibyte = "CREATE TABLE t (a); WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL \
        SELECT n + 1 FROM c LIMIT 400) INSERT INTO t SELECT zeroblob(1048576) FROM c";
    for before in [
        "",
        "PRAGMA max_page_count = 1000000;",
        "PRAGMA Page_Size = 65536; VACUUM;",
    ] {
        let many = query(&format!("{before} {mebibyte}"));
        let error = fault(&toolbox, sqlite(":memory:", &many)).await;
        assert_eq!(error.kind, TaskErrorKind::StorageQuota, "{before}");
        toolbox.forget("7002");
    }
    let attach = sqlite(":memory:", &query("ATTACH ':memory:' AS other"));
    assert_eq!(fault(&toolbox, attach).await.kind, TaskErrorKind::Auth);
    let large = sqlite(":memory:", &query("SELECT length(zeroblob(2097153))"));
    assert_eq!(fault(&toolbox, large).await.kind, TaskErrorKind::Limit);
    let fits = sqlite(":memory:", &query("SELECT length(zeroblob(2000000)) AS n"));
    assert_eq!(rows(&toolbox, fits).await, r#"[{"n":2000000}]"#);
}

#[tokio::test]
async fn a_pipe_is_no_database() {
    let (folder, _) = file();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = pipe.display().to_string();
    let error = fault(&toolbox(), sqlite(&pipe, &query("SELECT 1"))).await;
    assert_eq!(error.kind, TaskErrorKind::StorageAccess);
}

#[tokio::test]
async fn rows_have_a_bound() {
    let settings = Settings {
        payload_cap: ByteSize::from_kib(64),
        ..settings()
    };
    let toolbox = Toolbox::new(settings);
    let many =
        query("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c");
    assert_eq!(
        fault(&toolbox, sqlite(":memory:", &many)).await.kind,
        TaskErrorKind::Limit
    );
}

#[tokio::test]
async fn a_cursor_claims_rows_with_the_plain_tool() {
    let (_folder, file) = file();
    let toolbox = toolbox();
    let make = query("CREATE TABLE q (id, state); INSERT INTO q VALUES (1, 0), (2, 0), (3, 0)");
    data(&toolbox, sqlite(&file, &make)).await;
    let keys = Json::object([
        ("database", Json::from(&*file)),
        (
            "command",
            Json::from(
                "UPDATE q SET state = 1 WHERE id IN (SELECT id FROM q WHERE state = 0 LIMIT :rows) \
                 RETURNING id",
            ),
        ),
        ("params", value(r#"{"rows": 2}"#)),
    ]);
    for expected in [2, 1, 0] {
        let outcome = run(&toolbox, call(ToolKind::Sqlite, &keys)).await;
        let rows = outcome.data.get("rows").and_then(Json::as_list).unwrap();
        assert_eq!(rows.len(), expected);
    }
}
