use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noetl_tools::sandbox::SandboxMode;
use noetl_tools::{CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{ByteSize, Json, TaskErrorKind};
use tempfile::TempDir;

use crate::database::{query_config, query_config_with_params, run_error, run_rows, sqlite_call};
use crate::support::{
    parse_json, run_call, run_data, run_failing, test_settings, test_toolbox, tool_call, wait_until,
};

/// A query that runs for hours.
const ENDLESS_QUERY: &str =
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";

fn temp_database_file() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db").display().to_string();
    (folder, file)
}

#[tokio::test]
async fn values_round_trip() {
    let toolbox = test_toolbox();
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
        let rows = run_rows(
            &toolbox,
            sqlite_call(
                ":memory:",
                &query_config_with_params("SELECT ? AS v", &format!("[{param}]")),
            ),
        );
        assert_eq!(rows.await, format!("[{{\"v\":{expected}}}]"), "{param}");
    }
    for (expression, expected) in [
        ("x'00ff'", "\"AP8=\""),
        ("9e999", "\"Infinity\""),
        ("-9e999", "\"-Infinity\""),
        ("2.0", "2"),
        ("CAST(x'ff41' AS TEXT)", "\"\u{FFFD}A\""),
    ] {
        let text = format!("SELECT {expression} AS v");
        let rows = run_rows(&toolbox, sqlite_call(":memory:", &query_config(&text))).await;
        assert_eq!(rows, format!("[{{\"v\":{expected}}}]"), "{expression}");
    }
}

#[tokio::test]
async fn binds_parameters_of_each_form() {
    let toolbox = test_toolbox();
    for (text, params) in [
        ("SELECT ? AS a, ? AS b", "[1,2]"),
        ("SELECT ?1 AS a, ?2 AS b", "[1,2]"),
        ("SELECT $1 AS a, $2 AS b", "[1,2]"),
        ("SELECT $2 AS a, $1 AS b", "[2,1]"),
        ("SELECT :x AS a, @y AS b", "{\"x\":1,\"y\":2}"),
        ("SELECT $x AS a, :y AS b", "{\"x\":1,\"y\":2,\"unused\":3}"),
        ("SELECT ?; SELECT ? AS a, ? AS b", "[0,1,2]"),
        ("SELECT $2; SELECT $1 AS a, $2 AS b", "[1,2]"),
        ("SELECT :y; SELECT :x AS a, :y AS b", "{\"x\":1,\"y\":2}"),
    ] {
        let rows =
            run_rows(&toolbox, sqlite_call(":memory:", &query_config_with_params(text, params)))
                .await;
        assert_eq!(rows, r#"[{"a":1,"b":2}]"#, "{text}");
    }
    for (text, params, kind) in [
        ("SELECT ?, ?", "[1]", TaskErrorKind::Schema),
        ("SELECT :x", "{\"y\":1}", TaskErrorKind::Schema),
        ("SELECT :x", "[1]", TaskErrorKind::Schema),
        ("SELECT ?; SELECT ?", "[1]", TaskErrorKind::Schema),
        ("SELECT ?", "7", TaskErrorKind::Schema),
    ] {
        let error =
            run_error(&toolbox, sqlite_call(":memory:", &query_config_with_params(text, params)))
                .await;
        assert_eq!(error.kind, kind, "{text}: {}", error.message);
    }
}

#[tokio::test]
async fn results_have_postgres_shape() {
    let (_folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    let keys = r#"{"commands": ["CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO t VALUES (1, 'a;'), (2, NULL)",
        "UPDATE t SET name = 'b' WHERE id = 2 RETURNING *"]}"#;
    assert_eq!(
        run_data(&toolbox, sqlite_call(&file, keys)).await,
        r#"{"columns":["id","name"],"command_0":{"affected_rows":0,"columns":[],"message":"0 rows affected","row_count":0,"rows":[],"status":"success"},"command_1":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_2":{"columns":["id","name"],"message":"1 row returned","row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"},"row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"}"#
    );
    let lists = r#"{"query": "SELECT id, id FROM t", "as_objects": false}"#;
    assert_eq!(run_rows(&toolbox, sqlite_call(&file, lists)).await, "[[1,1],[2,2]]");
    // The body of a trigger contains semicolons.
    let trigger = query_config(
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET name = 'x' WHERE id = new.id; END; \
         INSERT INTO t VALUES (3, 'y'); SELECT name FROM t WHERE id = 3",
    );
    assert_eq!(run_rows(&toolbox, sqlite_call(&file, &trigger)).await, r#"[{"name":"x"}]"#);
}

#[tokio::test]
async fn reports_errors_and_rolls_back() {
    let (_folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    let setup = query_config("CREATE TABLE t (id INTEGER PRIMARY KEY, CHECK (id < 100))");
    run_data(&toolbox, sqlite_call(&file, &setup)).await;
    let twice = r#"{"command": "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"}"#;
    let outcome = run_call(&toolbox, sqlite_call(&file, twice)).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::DbConstraint);
    assert_eq!(error.code, Some(Json::from(1555)));
    assert_eq!(error.message, "UNIQUE constraint failed: t.id (SQLite code 1555)");
    assert_eq!(outcome.data.get("command_0").unwrap().get("status"), Some(&Json::from("success")));
    assert_eq!(outcome.data.get("status"), Some(&Json::from("error")));
    let ids = query_config("SELECT id FROM t");
    assert_eq!(run_rows(&toolbox, sqlite_call(&file, &ids)).await, r#"[{"id":1}]"#);

    let transaction = r#"{"transaction": true, "command": "INSERT INTO t VALUES (5); INSERT INTO t VALUES (100)"}"#;
    assert_eq!(
        run_error(&toolbox, sqlite_call(&file, transaction)).await.kind,
        TaskErrorKind::DbConstraint
    );
    assert_eq!(run_rows(&toolbox, sqlite_call(&file, &ids)).await, r#"[{"id":1}]"#);
    let unfinished = query_config("BEGIN; INSERT INTO t VALUES (6)");
    run_data(&toolbox, sqlite_call(&file, &unfinished)).await;
    assert_eq!(run_rows(&toolbox, sqlite_call(&file, &ids)).await, r#"[{"id":1}]"#);
    for text in ["SELEC 1", "SELECT * FROM nowhere"] {
        let error = run_error(&toolbox, sqlite_call(&file, &query_config(text))).await;
        assert_eq!(error.kind, TaskErrorKind::DbError, "{}", error.message);
    }
}

#[tokio::test]
async fn opens_read_only_files() {
    let (folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    let missing = r#"{"query": "SELECT 1", "readonly": true}"#;
    assert_eq!(
        run_error(&toolbox, sqlite_call(&file, missing)).await.kind,
        TaskErrorKind::NotFound
    );
    run_data(&toolbox, sqlite_call(&file, &query_config("CREATE TABLE t (a)"))).await;
    let write = r#"{"query": "INSERT INTO t VALUES (1)", "readonly": true}"#;
    assert_eq!(run_error(&toolbox, sqlite_call(&file, write)).await.kind, TaskErrorKind::DbError);
    let text = folder.path().join("no.db");
    std::fs::write(&text, "this is not a database, but it is long enough to be read as one")
        .unwrap();
    let error =
        run_error(&toolbox, sqlite_call(text.to_str().unwrap(), &query_config("SELECT * FROM t")))
            .await;
    assert_eq!(error.kind, TaskErrorKind::DbError);
}

#[tokio::test]
async fn locked_file_is_retried_until_timeout() {
    let (_folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    run_data(&toolbox, sqlite_call(&file, &query_config("CREATE TABLE t (a)"))).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let write = r#"{"query": "INSERT INTO t VALUES (1)", "busy_timeout": "20ms"}"#;
    let error = run_error(&toolbox, sqlite_call(&file, write)).await;
    assert_eq!(error.kind, TaskErrorKind::DbTimeout);
    assert!(error.retryable);
    // A waiting writer gets its turn.
    let waiting = sqlite_call(&file, &query_config("INSERT INTO t VALUES (2)"));
    let (outcome, ()) = tokio::join!(run_call(&toolbox, waiting), async {
        tokio::task::spawn_blocking(move || holder.execute_batch("COMMIT").unwrap()).await.unwrap();
    });
    assert_eq!(outcome.error, None);
}

#[tokio::test]
async fn memory_database_belongs_to_one_command() {
    let toolbox = test_toolbox();
    let setup = query_config("CREATE TABLE t AS SELECT 1 AS a");
    run_data(&toolbox, sqlite_call(":memory:", &setup)).await;
    let query = query_config("SELECT a FROM t");
    assert_eq!(run_rows(&toolbox, sqlite_call(":memory:", &query)).await, r#"[{"a":1}]"#);
    let mut other = sqlite_call(":memory:", &query);
    other.command = "another".into();
    assert_eq!(run_error(&toolbox, other).await.kind, TaskErrorKind::DbError);
    toolbox.release_command("7002");
    assert_eq!(
        run_error(&toolbox, sqlite_call(":memory:", &query)).await.kind,
        TaskErrorKind::DbError
    );
}

#[tokio::test]
async fn timeout_interrupts_statement() {
    let (_folder, file) = temp_database_file();
    let toolbox = Arc::new(test_toolbox());
    run_data(&toolbox, sqlite_call(&file, &query_config("CREATE TABLE t (a)"))).await;
    // The statement holds a lock while it runs.
    let mut slow = sqlite_call(&file, &query_config(&format!("INSERT INTO t {ENDLESS_QUERY}")));
    slow.timeout = Duration::from_millis(100);
    let (kind, _) = run_failing(&toolbox, slow).await;
    assert_eq!(kind, TaskErrorKind::Timeout);
    let waiting = r#"{"query": "INSERT INTO t VALUES (1)", "busy_timeout": "60s"}"#;
    run_data(&toolbox, sqlite_call(&file, waiting)).await;

    let cancel = CancellationToken::new();
    let slow = sqlite_call(
        &file,
        &query_config(&format!("BEGIN IMMEDIATE; INSERT INTO t {ENDLESS_QUERY}")),
    );
    let task = {
        let (toolbox, cancel) = (Arc::clone(&toolbox), cancel.clone());
        tokio::spawn(async move { toolbox.call(slow, cancel).await })
    };
    let probe = rusqlite::Connection::open(&file).unwrap();
    probe.busy_timeout(Duration::ZERO).unwrap();
    wait_until("the file is locked", || probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err())
        .await;
    cancel.cancel();
    assert_eq!(task.await.unwrap().error.unwrap().kind, TaskErrorKind::Cancelled);
    wait_until("the lock is released", || probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok())
        .await;
}

/// A task that is stopped while it waits for a lock must not write once it gets the lock.
#[tokio::test]
async fn stopped_task_does_not_commit() {
    let (_folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    run_data(&toolbox, sqlite_call(&file, &query_config("CREATE TABLE t (a)"))).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut stopped = sqlite_call(&file, &query_config("INSERT INTO t VALUES (1)"));
    stopped.timeout = Duration::from_millis(50);
    assert_eq!(run_failing(&toolbox, stopped).await.0, TaskErrorKind::Timeout);
    holder.execute_batch("ROLLBACK").unwrap();
    // The next writer comes after the waiting one, if that would write at all.
    let waiting = r#"{"query": "INSERT INTO t VALUES (2)", "busy_timeout": "60s"}"#;
    run_data(&toolbox, sqlite_call(&file, waiting)).await;
    drop(toolbox);
    let has_rows = |expected: i64| {
        let count = holder.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        count.is_ok_and(|count| count == expected)
    };
    wait_until("the table has one row", || has_rows(1)).await;
}

#[tokio::test]
async fn database_must_be_in_allowed_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (allowed, forbidden) = (folder.path().join("open"), folder.path().join("shut"));
    for folder in [&allowed, &forbidden] {
        std::fs::create_dir(folder).unwrap();
    }
    let settings = Settings { file_roots: Some(vec![allowed.clone()]), ..test_settings() };
    let toolbox = Toolbox::new(settings);
    let path = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let inside = path(&allowed, "a.db");
    let outside = path(&forbidden, "b.db");
    run_data(&toolbox, sqlite_call(&inside, &query_config("CREATE TABLE t (a)"))).await;
    let error_kind = async |call| run_error(&toolbox, call).await.kind;
    assert_eq!(
        error_kind(sqlite_call(&outside, &query_config("SELECT 1"))).await,
        TaskErrorKind::Auth
    );
    for text in [
        format!("ATTACH '{outside}' AS other"),
        format!("ATTACH '{}' || '' AS other", &outside),
        format!("VACUUM INTO '{outside}'"),
    ] {
        let error = run_error(&toolbox, sqlite_call(&inside, &query_config(&text))).await;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{text}: {}", error.message);
    }
    let attach = format!("ATTACH '{}' AS other; CREATE TABLE other.t (a)", path(&allowed, "c.db"));
    run_data(&toolbox, sqlite_call(&inside, &query_config(&attach))).await;
    assert!(std::fs::read_dir(&forbidden).unwrap().next().is_none());
}

/// The worker itself opens the file, so the sandbox of processes does not restrict it.
#[tokio::test]
async fn tasks_cannot_open_platform_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let platform_file = path("data/noetl.db");
    run_data(&test_toolbox(), sqlite_call(&platform_file, &query_config("CREATE TABLE t (a)")))
        .await;
    std::os::unix::fs::symlink(&platform_file, path("link.db")).unwrap();
    for mode in [SandboxMode::Off, SandboxMode::BestEffort] {
        let mut settings = test_settings();
        settings.sandbox.mode = mode;
        settings.sandbox.hidden = vec![folder.path().join("data")];
        settings.sandbox.writable = vec![folder.path().to_owned()];
        let toolbox = Toolbox::new(settings);
        let task_file = path("mine.db");
        run_data(
            &toolbox,
            sqlite_call(&task_file, &query_config("CREATE TABLE IF NOT EXISTS t (a)")),
        )
        .await;
        for name in [&platform_file, &path("data/new.db"), &path("link.db")] {
            let error =
                run_error(&toolbox, sqlite_call(name, &query_config("SELECT * FROM t"))).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{name}: {}", error.message);
        }
        let escaped = platform_file.replace('/', "%2f");
        for text in [
            format!("ATTACH '{platform_file}' AS other"),
            format!("ATTACH '{}' AS other", path("link.db")),
            format!("ATTACH 'file:{platform_file}' AS other"),
            format!("ATTACH 'file:{escaped}' AS other"),
            format!("ATTACH 'FILE:{escaped}?mode=ro' AS other"),
            format!("VACUUM INTO '{}'", path("data/copy.db")),
        ] {
            let error = run_error(&toolbox, sqlite_call(&task_file, &query_config(&text))).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{text}: {}", error.message);
        }
        // A name that is only known when the statement runs.
        let attach =
            query_config_with_params("ATTACH ? AS other", &format!("[\"{}\"]", path("b.db")));
        let outcome = run_call(&toolbox, sqlite_call(&task_file, &attach)).await;
        assert_eq!(outcome.error.is_none(), mode == SandboxMode::Off);
        run_data(&toolbox, sqlite_call(&task_file, &query_config("VACUUM"))).await;
    }
    assert_eq!(std::fs::read_dir(path("data")).unwrap().count(), 1);
    let script = format!(r#"{{"script": {{"type": "local", "uri": "{platform_file}"}}}}"#);
    let mut settings = test_settings();
    settings.sandbox.hidden = vec![folder.path().join("data")];
    let script = tool_call(ToolKind::Script, &parse_json(&script));
    let (kind, message) = run_failing(&Toolbox::new(settings), script).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
}

/// A task replaces its database by a link to another one again and again, so that the link may appear
/// after the worker has checked the path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_that_is_swapped_in_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    for (dir, file) in [("data", "data/noetl.db"), ("shared", "shared/mine.db")] {
        std::fs::create_dir(path(dir)).unwrap();
        let create = query_config(&format!("CREATE TABLE t AS SELECT '{dir}' AS a"));
        run_data(&test_toolbox(), sqlite_call(&text(file), &create)).await;
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let swap = || {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            std::os::unix::fs::symlink(path("data/noetl.db"), path("shared/next")).unwrap();
            std::fs::rename(path("shared/next"), path("shared/x.db")).unwrap();
            std::fs::copy(path("shared/mine.db"), path("shared/next")).unwrap();
            std::fs::rename(path("shared/next"), path("shared/x.db")).unwrap();
        }
    };
    let mut settings = test_settings();
    settings.sandbox.mode = SandboxMode::BestEffort;
    settings.sandbox.hidden = vec![path("data")];
    settings.sandbox.writable = vec![path("shared")];
    let (sandboxed, unprotected) = (Toolbox::new(settings), test_toolbox());
    let query = |file: &str| sqlite_call(&text(file), &query_config("SELECT a FROM t"));
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        scope.spawn(swap);
        let results = tokio::task::block_in_place(|| {
            runtime.block_on(async {
                let mut results = Vec::new();
                for _ in 0..300 {
                    results.push(run_call(&sandboxed, query("shared/x.db")).await.data.to_string());
                }
                // Without the protection, the link leads to the other database.
                while !run_call(&unprotected, query("shared/x.db"))
                    .await
                    .data
                    .to_string()
                    .contains(r#""a":"data""#)
                {}
                results
            })
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(results.iter().any(|result| result.contains(r#""a":"shared""#)), "{results:?}");
        assert!(!results.iter().any(|result| result.contains(r#""a":"data""#)), "{results:?}");
    });
}

#[tokio::test]
async fn memory_database_size_is_limited() {
    let mut settings = test_settings();
    settings.payload_cap = ByteSize::from_mib(2);
    settings.sandbox.mode = SandboxMode::BestEffort;
    let toolbox = Toolbox::new(settings);
    let mebibyte = "CREATE TABLE t (a); WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL \
        SELECT n + 1 FROM c LIMIT 400) INSERT INTO t SELECT zeroblob(1048576) FROM c";
    for before in ["", "PRAGMA max_page_count = 1000000;", "PRAGMA Page_Size = 65536; VACUUM;"] {
        let large = query_config(&format!("{before} {mebibyte}"));
        let error = run_error(&toolbox, sqlite_call(":memory:", &large)).await;
        assert_eq!(error.kind, TaskErrorKind::StorageQuota, "{before}");
        toolbox.release_command("7002");
    }
    let attach = sqlite_call(":memory:", &query_config("ATTACH ':memory:' AS other"));
    assert_eq!(run_error(&toolbox, attach).await.kind, TaskErrorKind::Auth);
    let large = sqlite_call(":memory:", &query_config("SELECT length(zeroblob(2097153))"));
    assert_eq!(run_error(&toolbox, large).await.kind, TaskErrorKind::Limit);
    let small = sqlite_call(":memory:", &query_config("SELECT length(zeroblob(2000000)) AS n"));
    assert_eq!(run_rows(&toolbox, small).await, r#"[{"n":2000000}]"#);
}

#[tokio::test]
async fn rejects_pipe_as_database() {
    let (folder, _) = temp_database_file();
    let pipe = folder.path().join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(status.unwrap().success());
    let pipe = pipe.display().to_string();
    let error = run_error(&test_toolbox(), sqlite_call(&pipe, &query_config("SELECT 1"))).await;
    assert_eq!(error.kind, TaskErrorKind::StorageAccess);
}

#[tokio::test]
async fn rows_are_limited_by_payload_cap() {
    let settings = Settings { payload_cap: ByteSize::from_kib(64), ..test_settings() };
    let toolbox = Toolbox::new(settings);
    let large = query_config(
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
    );
    assert_eq!(
        run_error(&toolbox, sqlite_call(":memory:", &large)).await.kind,
        TaskErrorKind::Limit
    );
}

#[tokio::test]
async fn cursor_claims_rows_with_sqlite_tool() {
    let (_folder, file) = temp_database_file();
    let toolbox = test_toolbox();
    let setup =
        query_config("CREATE TABLE q (id, state); INSERT INTO q VALUES (1, 0), (2, 0), (3, 0)");
    run_data(&toolbox, sqlite_call(&file, &setup)).await;
    let keys = Json::object([
        ("database", Json::from(&*file)),
        (
            "command",
            Json::from(
                "UPDATE q SET state = 1 WHERE id IN (SELECT id FROM q WHERE state = 0 LIMIT :rows) \
                 RETURNING id",
            ),
        ),
        ("params", parse_json(r#"{"rows": 2}"#)),
    ]);
    for expected in [2, 1, 0] {
        let outcome = run_call(&toolbox, tool_call(ToolKind::Sqlite, &keys)).await;
        let rows = outcome.data.get("rows").and_then(Json::as_list).unwrap();
        assert_eq!(rows.len(), expected);
    }
}
