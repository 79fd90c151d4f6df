//! DuckDB: the tasks run in the interpreter of an environment that contains the python package.

use std::path::PathBuf;

use noetl_tools::sandbox::SandboxMode;
use noetl_tools::{Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{ByteSize, Json, TaskErrorKind};
use tempfile::TempDir;

use crate::database::{query_config, query_config_with_params, run_error, run_rows};
use crate::support::{parse_json, run_call, run_data, test_settings, tool_call};

/// Version of the python package. `scripts/test` installs the same one.
const DUCKDB_VERSION: &str = "duckdb-1.5.6";

/// Finds the interpreter of the environment that `scripts/test` creates.
fn find_interpreter() -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| home.map(|home| home.join(".cache"))).unwrap_or_default();
    let interpreter = cache.join("noetl-tests").join(DUCKDB_VERSION).join("bin/python");
    assert!(
        interpreter.is_file(),
        "the python package duckdb is not installed: run scripts/test, which installs it"
    );
    interpreter.display().to_string()
}

fn duckdb_settings() -> Settings {
    let mut settings = test_settings();
    settings.python.interpreter = find_interpreter();
    settings
}

fn duckdb_toolbox() -> Toolbox {
    Toolbox::new(duckdb_settings())
}

fn duckdb_call(keys: &str) -> ToolCall {
    tool_call(ToolKind::Duckdb, &parse_json(keys))
}

fn file_call(file: &str, keys: &str) -> ToolCall {
    let mut call = duckdb_call(keys);
    call.config.insert("database".into(), Json::from(file));
    call
}

fn temp_database_file() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.duckdb").display().to_string();
    (folder, file)
}

#[tokio::test]
async fn results_have_postgres_shape() {
    let (_folder, file) = temp_database_file();
    let toolbox = duckdb_toolbox();
    let keys = r#"{"commands": ["CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO t VALUES (1, 'a;'), (2, NULL)",
        "UPDATE t SET name = 'b' WHERE id = 2 RETURNING *"]}"#;
    assert_eq!(
        run_data(&toolbox, file_call(&file, keys)).await,
        r#"{"columns":["id","name"],"command_0":{"affected_rows":0,"columns":[],"message":"0 rows affected","row_count":0,"rows":[],"status":"success"},"command_1":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_2":{"columns":["id","name"],"message":"1 row returned","row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"},"row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"}"#
    );
    // Another process sees the rows.
    let lists = r#"{"query": "SELECT id, id FROM t", "as_objects": false, "readonly": true}"#;
    assert_eq!(run_rows(&toolbox, file_call(&file, lists)).await, "[[1,1],[2,2]]");
    let alone = r#"{"command": "DELETE FROM t WHERE id = 9"}"#;
    assert_eq!(
        run_data(&toolbox, file_call(&file, alone)).await,
        r#"{"affected_rows":0,"command_0":{"affected_rows":0,"columns":[],"message":"0 rows affected","row_count":0,"rows":[],"status":"success"},"row_count":0,"status":"success"}"#
    );
}

#[tokio::test]
async fn values_are_plain_json() {
    let toolbox = duckdb_toolbox();
    for (expression, expected) in [
        ("NULL", "null"),
        ("true", "true"),
        ("9223372036854775807", "9223372036854775807"),
        ("170141183460469231731687303715884105727", "\"170141183460469231731687303715884105727\""),
        ("1.5::DOUBLE", "1.5"),
        ("1.50::DECIMAL(9,2)", "\"1.50\""),
        ("'nan'::DOUBLE", "\"NaN\""),
        ("'grüße'", "\"grüße\""),
        ("'\\x00\\xFF'::BLOB", "\"AP8=\""),
        ("DATE '2026-02-03'", "\"2026-02-03\""),
        ("TIMESTAMP '2026-02-03 04:05:06'", "\"2026-02-03T04:05:06\""),
        ("TIMESTAMPTZ '2026-02-03 04:05:06+02'", "\"2026-02-03T02:05:06+00:00\""),
        ("[1, NULL]", "[1,null]"),
        ("{'a': [DATE '2026-02-03']}", "{\"a\":[\"2026-02-03\"]}"),
        ("'{\"a\": [1]}'::JSON", "{\"a\":[1]}"),
        ("UUID '0194d6a1-0000-7000-8000-000000000000'", "\"0194d6a1-0000-7000-8000-000000000000\""),
    ] {
        let text = format!("SELECT {expression} AS v");
        let rows = run_rows(&toolbox, duckdb_call(&query_config(&text))).await;
        assert_eq!(rows, format!("[{{\"v\":{expected}}}]"), "{expression}");
    }
}

#[tokio::test]
async fn binds_parameters_of_each_form() {
    let toolbox = duckdb_toolbox();
    for (text, params) in [
        ("SELECT ? AS a, ? AS b", "[1,2]"),
        ("SELECT $2 AS a, $1 AS b", "[2,1]"),
        ("SELECT $x AS a, $y AS b", "{\"x\":1,\"y\":2,\"unused\":3}"),
        ("SELECT ?; SELECT ? AS a, ? AS b", "[0,1,2]"),
        ("SELECT $2; SELECT $1 AS a, $2 AS b", "[1,2]"),
        ("SELECT $y; SELECT $x AS a, [9,2][$y] AS b", "{\"x\":1,\"y\":2}"),
    ] {
        let rows = run_rows(&toolbox, duckdb_call(&query_config_with_params(text, params))).await;
        assert_eq!(rows, r#"[{"a":1,"b":2}]"#, "{text}");
    }
    let text = "SELECT $a AS a, $b AS b, $c AS c";
    let params = r#"{"a": "'; DROP TABLE t; --", "b": [1, 2], "c": null}"#;
    assert_eq!(
        run_rows(&toolbox, duckdb_call(&query_config_with_params(text, params))).await,
        r#"[{"a":"'; DROP TABLE t; --","b":[1,2],"c":null}]"#
    );
    for (text, params) in [("SELECT ?, ?", "[1]"), ("SELECT $x", "{\"y\":1}")] {
        let error = run_error(&toolbox, duckdb_call(&query_config_with_params(text, params))).await;
        assert_eq!(error.kind, TaskErrorKind::Schema, "{text}: {}", error.message);
    }
}

#[tokio::test]
async fn reports_errors_and_rolls_back() {
    let (_folder, file) = temp_database_file();
    let toolbox = duckdb_toolbox();
    run_data(&toolbox, file_call(&file, &query_config("CREATE TABLE t (id INT PRIMARY KEY)")))
        .await;
    let insert_twice = |transaction: bool| {
        let commands = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)";
        let keys = [("command", Json::from(commands)), ("transaction", Json::from(transaction))];
        file_call(&file, &Json::object(keys).to_string())
    };
    let outcome = run_call(&toolbox, insert_twice(true)).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::DbConstraint, "{}", error.message);
    assert_eq!(error.code, Some(Json::from("ConstraintException")));
    let status = |name: &str| outcome.data.get(name).and_then(|entry| entry.get("status")).cloned();
    assert_eq!(status("command_0"), Some(Json::from("success")));
    assert_eq!(status("command_1"), Some(Json::from("error")));
    let count = query_config("SELECT count(*) AS n FROM t");
    assert_eq!(run_rows(&toolbox, file_call(&file, &count)).await, r#"[{"n":0}]"#);
    run_error(&toolbox, insert_twice(false)).await;
    assert_eq!(run_rows(&toolbox, file_call(&file, &count)).await, r#"[{"n":1}]"#);

    let error = run_error(&toolbox, duckdb_call(&query_config("SELEC 1"))).await;
    assert_eq!(error.kind, TaskErrorKind::DbError);
    assert!(error.message.contains("syntax error"), "{}", error.message);
}

#[tokio::test]
async fn rows_are_limited_by_size() {
    let mut settings = duckdb_settings();
    settings.payload_cap = ByteSize::from_kib(64);
    let toolbox = Toolbox::new(settings);
    let text = "SELECT range AS n, repeat('x', 100) AS t FROM range(100000)";
    let error = run_error(&toolbox, duckdb_call(&query_config(text))).await;
    assert_eq!(error.kind, TaskErrorKind::Limit, "{}", error.message);
    assert_eq!(error.message, "the rows are larger than 64KiB; select fewer columns or rows");
}

#[tokio::test]
async fn reads_files_of_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("orders.csv");
    std::fs::write(&csv, "id,total\n1,10.5\n2,4.5\n").unwrap();
    let parquet = folder.path().join("orders.parquet");
    let text = format!(
        "COPY (FROM '{}') TO '{}' (FORMAT parquet); SELECT sum(total) AS total FROM '{1}'",
        csv.display(),
        parquet.display()
    );
    let rows = run_rows(&duckdb_toolbox(), duckdb_call(&query_config(&text))).await;
    assert_eq!(rows, r#"[{"total":15}]"#);
}

#[tokio::test]
async fn credentials_become_secrets() {
    let toolbox = duckdb_toolbox();
    let query = "SELECT name, type FROM duckdb_secrets() ORDER BY name";
    let call = |auth: &str| {
        let keys = [("query", Json::from(query)), ("auth", parse_json(auth))];
        duckdb_call(&Json::object(keys).to_string())
    };
    let named = r#"{"api": {"type": "bearer", "token": "t'; --"}, "b\"c": {"type": "bearer", "token": "u"}}"#;
    assert_eq!(
        run_rows(&toolbox, call(named)).await,
        r#"[{"name":"api","type":"http"},{"name":"b\"c","type":"http"}]"#
    );
    let unnamed = r#"{"type": "bearer", "token": "t"}"#;
    assert_eq!(
        run_rows(&toolbox, call(unnamed)).await,
        r#"[{"name":"__default_http","type":"http"}]"#
    );
    for auth in [
        r#""pg_main""#,
        r#"{"source": "credential", "key": "pg_main"}"#,
        r#"{"pg": "pg_main"}"#,
        r#"{"type": "http); DROP TABLE t; --"}"#,
        r#"{"type": "bearer", "no such field": "t"}"#,
    ] {
        let error = run_error(&toolbox, call(auth)).await;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{auth}: {}", error.message);
    }
}

#[tokio::test]
async fn missing_package_is_named_with_its_fix() {
    let folder = tempfile::tempdir().unwrap();
    // An empty module path hides the package, even if the interpreter of the machine has it.
    let interpreter = folder.path().join("bare-python");
    std::fs::write(&interpreter, "#!/bin/sh\nexec python3 -I -S \"$@\"\n").unwrap();
    crate::support::make_executable(&interpreter);
    let mut settings = test_settings();
    settings.python.interpreter = interpreter.display().to_string();
    let error = run_error(&Toolbox::new(settings), duckdb_call(&query_config("SELECT 1"))).await;
    assert_eq!(error.kind, TaskErrorKind::Unsupported);
    assert!(error.message.contains("-m pip install duckdb"), "{}", error.message);
}

#[tokio::test]
async fn files_are_those_that_tasks_can_access() {
    let (folder, file) = temp_database_file();
    let sum = query_config("SELECT 1 + 1 AS n");
    let mut settings = duckdb_settings();
    settings.sandbox.mode = SandboxMode::BestEffort;
    let toolbox = Toolbox::new(settings.clone());
    let error = run_error(&toolbox, file_call(&file, &sum)).await;
    assert_eq!(error.kind, TaskErrorKind::Auth, "{}", error.message);
    settings.sandbox.readable.push(folder.path().to_owned());
    let error = run_error(&Toolbox::new(settings.clone()), file_call(&file, &sum)).await;
    assert_eq!(error.kind, TaskErrorKind::Auth, "{}", error.message);
    settings.sandbox.writable.push(folder.path().to_owned());
    let rows = run_rows(&Toolbox::new(settings), file_call(&file, &sum)).await;
    assert_eq!(rows, r#"[{"n":2}]"#);
}
