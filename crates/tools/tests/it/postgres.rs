use std::sync::Arc;
use std::time::Duration;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{ByteSize, Json, TaskErrorKind};

use crate::database::{
    postgres_call, query_config, query_config_with_params, run_error, run_rows, test_database,
    wait_for_rows,
};
use crate::support::{
    parse_json, run_call, run_data, run_failing, test_settings, test_toolbox, tool_call,
};

/// Number of active sleeping statements of other sessions.
const COUNT_SLEEPING_STATEMENTS: &str = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
     AND state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";

fn toolbox_with_pool(size: usize) -> Toolbox {
    let mut settings = test_settings();
    settings.postgres.pool_size = size;
    Toolbox::new(settings)
}

/// SQL expression, and its JSON result.
const TYPE_CASES: &[(&str, &str)] = &[
    ("true", "true"),
    ("12::smallint", "12"),
    ("-7", "-7"),
    ("9223372036854775807", "9223372036854775807"),
    ("0.1::real", "0.1"),
    ("2.5::float8", "2.5"),
    ("'NaN'::float8", "\"NaN\""),
    ("'-Infinity'::float4", "\"-Infinity\""),
    ("1234567890.0500::numeric", "\"1234567890.0500\""),
    ("-0.00012::numeric", "\"-0.00012\""),
    ("100000000::numeric", "\"100000000\""),
    ("0::numeric(6,2)", "\"0.00\""),
    ("'NaN'::numeric", "\"NaN\""),
    ("'grüße'::text", "\"grüße\""),
    ("'ab'::char(4)", "\"ab  \""),
    ("'n'::name", "\"n\""),
    ("'x'::\"char\"", "\"x\""),
    (r#"'{"b": [1, null], "a": 1.50}'::json"#, r#"{"a":1.5,"b":[1,null]}"#),
    (r#"'{"b": [1, null]}'::jsonb"#, r#"{"b":[1,null]}"#),
    ("'null'::jsonb", "null"),
    (r"'\x00ff'::bytea", "\"AP8=\""),
    ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""),
    ("'2024-02-29'::date", "\"2024-02-29\""),
    ("'0044-03-15 BC'::date", "\"-0043-03-15\""),
    ("'infinity'::date", "\"infinity\""),
    ("'2024-01-02 03:04:05.6'::timestamp", "\"2024-01-02T03:04:05.600000\""),
    ("'2024-01-02 03:04:05+02'::timestamptz", "\"2024-01-02T01:04:05+00:00\""),
    ("'-infinity'::timestamptz", "\"-infinity\""),
    ("'23:59:59.25'::time", "\"23:59:59.250000\""),
    ("'08:00+05:30'::timetz", "\"08:00:00+05:30\""),
    ("'1 year 2 mons 3 days 04:05:06'::interval", "\"P1Y2M3DT4H5M6S\""),
    ("'192.168.1.5/24'::inet", "\"192.168.1.5/24\""),
    ("'::1'::inet", "\"::1\""),
    ("'10.0.0.0/8'::cidr", "\"10.0.0.0/8\""),
    ("'08:00:2b:01:02:03'::macaddr", "\"08:00:2b:01:02:03\""),
    ("'12.34'::money", "\"12.34\""),
    ("B'0101'", "\"0101\""),
    ("'(1,2)'::point", "\"(1,2)\""),
    ("42::oid", "42"),
    ("'<a/>'::xml", "\"<a/>\""),
    ("ARRAY[1, NULL, 3]", "[1,null,3]"),
    ("ARRAY[[1, 2], [3, 4]]", "[[1,2],[3,4]]"),
    ("'{}'::text[]", "[]"),
    ("ARRAY['2024-01-01'::date]", "[\"2024-01-01\"]"),
    ("int4range(1, 5)", "\"[1,5)\""),
    ("'empty'::int4range", "\"empty\""),
    ("numrange(NULL, 2.5)", "\"(,2.5)\""),
    ("'{[1,3), [5,7)}'::int4multirange", "[\"[1,3)\",\"[5,7)\"]"),
    ("ROW(1, 'a'::text, NULL)", "[1,\"a\",null]"),
    ("'happy'::mood", "\"happy\""),
    ("ARRAY['sad', 'happy']::mood[]", "[\"sad\",\"happy\"]"),
    ("5::positive", "5"),
    ("ROW('Bahnhofstr.', 1)::address", "{\"number\":1,\"street\":\"Bahnhofstr.\"}"),
    ("pg_sleep(0)", "null"),
    ("NULL::int", "null"),
    ("NULL::jsonb", "null"),
    ("NULL", "null"),
];

#[tokio::test]
async fn converts_every_type_to_json() {
    let database = test_database();
    let toolbox = test_toolbox();
    let types = r#"{"commands": ["CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TYPE address AS (street text, number int)"]}"#;
    run_data(&toolbox, postgres_call(&database, types)).await;
    for (expression, expected) in TYPE_CASES {
        let text = format!("SELECT {expression} AS v");
        let rows = run_rows(&toolbox, postgres_call(&database, &query_config(&text))).await;
        assert_eq!(rows, format!("[{{\"v\":{expected}}}]"), "{expression}");
    }
}

/// Type, parameter, and its text form on the server.
const PARAMETER_CASES: &[(&str, &str, &str)] = &[
    ("int4", "42", "42"),
    ("int8", "\"42\"", "42"),
    ("int2", "null", "null"),
    ("float8", "1.5", "1.5"),
    ("numeric", "\"12345678901234567890.10\"", "12345678901234567890.10"),
    ("numeric", "3", "3"),
    ("bool", "true", "true"),
    ("bool", "\"False\"", "false"),
    ("text", "\"it's; $1\"", "it's; $1"),
    ("text", "7", "7"),
    ("text", "{\"a\":1}", "{\"a\":1}"),
    ("jsonb", "{\"a\":[1]}", "{\"a\": [1]}"),
    ("jsonb", "[1,2]", "[1, 2]"),
    ("jsonb", "\"[1,2]\"", "[1, 2]"),
    ("jsonb", "\"plain\"", "\"plain\""),
    ("timestamptz", "\"2024-01-02T03:04:05Z\"", "2024-01-02 12:04:05+09"),
    ("timestamp", "\"2024-01-02T03:04:05\"", "2024-01-02 03:04:05"),
    ("date", "\"2024-01-02\"", "2024-01-02"),
    ("interval", "\"PT90S\"", "00:01:30"),
    ("uuid", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("bytea", "\"AP8=\"", "\\x00ff"),
    ("inet", "\"10.0.0.1\"", "10.0.0.1/32"),
    ("int4[]", "[1,null,3]", "{1,NULL,3}"),
    ("text[]", "[\"a,b\",\"c\\\"d\"]", "{\"a,b\",\"c\\\"d\"}"),
    ("int4[]", "[[1],[2]]", "{{1},{2}}"),
    ("jsonb[]", "[{\"a\":1}]", "{\"{\\\"a\\\": 1}\"}"),
    ("int4range", "\"[1,5)\"", "[1,5)"),
];

#[tokio::test]
async fn binds_parameters_of_each_type() {
    let database = test_database();
    let toolbox = test_toolbox();
    for (ty, param, expected) in PARAMETER_CASES {
        let text = format!("SELECT ($1::{ty})::text AS v");
        let outcome = run_call(
            &toolbox,
            postgres_call(&database, &query_config_with_params(&text, &format!("[{param}]"))),
        )
        .await;
        assert_eq!(outcome.error, None, "{ty} {param}");
        let row = outcome.data.get("rows").unwrap().as_list().unwrap()[0].clone();
        let value = row.get("v").unwrap();
        assert_eq!(value.as_str().unwrap_or("null"), *expected, "{ty} {param}");
    }
}

#[tokio::test]
async fn binds_parameters_of_several_statements() {
    let database = test_database();
    let toolbox = test_toolbox();
    for (query, params) in [
        (
            "CREATE TEMP TABLE t (a int, b text); INSERT INTO t VALUES ($2, $1); SELECT a, b FROM t WHERE a = $2",
            r#"["x", 1]"#,
        ),
        (
            "CREATE TEMP TABLE u (a int, b text); INSERT INTO u VALUES (:n, :name); SELECT a, b FROM u WHERE a = :n::int",
            r#"{"n": 1, "name": "x"}"#,
        ),
    ] {
        let call = postgres_call(&database, &query_config_with_params(query, params));
        assert_eq!(run_rows(&toolbox, call).await, r#"[{"a":1,"b":"x"}]"#, "{query}");
    }
}

#[tokio::test]
async fn rejects_mismatched_parameters() {
    let database = test_database();
    let toolbox = test_toolbox();
    let failure = async |keys: String| {
        let error = run_error(&toolbox, postgres_call(&database, &keys)).await;
        (error.kind, error.message.to_string())
    };
    let (kind, message) =
        failure(query_config_with_params("SELECT $1::int + $2::int", "[1]")).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    assert_eq!(message, "the statements have 2 parameters, but 'params' has 1 values");
    let (kind, message) = failure(query_config_with_params("SELECT $1::int", "[\"x\"]")).await;
    assert_eq!(kind, TaskErrorKind::DbError);
    assert!(message.contains("22P02"), "{message}");
    let (kind, _) = failure(query_config_with_params("SELECT 1; SELECT $1", "[1, 2]")).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    let (kind, _) = failure(query_config_with_params("SELECT :b", "{\"a\":1}")).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    let (kind, _) = failure(query_config(" ; -- nothing")).await;
    assert_eq!(kind, TaskErrorKind::Schema);
}

#[tokio::test]
async fn returns_results_by_statement() {
    let database = test_database();
    let toolbox = test_toolbox();
    let created = run_data(
        &toolbox,
        postgres_call(&database, &query_config("CREATE TABLE t (id int, name text)")),
    )
    .await;
    assert_eq!(
        created,
        r#"{"affected_rows":0,"command_0":{"affected_rows":0,"columns":[],"message":"0 rows affected","row_count":0,"rows":[],"status":"success"},"row_count":0,"status":"success"}"#
    );
    let both = r#"{"command": "INSERT INTO t VALUES (1, 'a;'), (2, NULL); -- c;\nUPDATE t SET name = 'b' WHERE id = 2 RETURNING *"}"#;
    assert_eq!(
        run_data(&toolbox, postgres_call(&database, both)).await,
        r#"{"columns":["id","name"],"command_0":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_1":{"columns":["id","name"],"message":"1 row returned","row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"},"row_count":1,"rows":[{"id":2,"name":"b"}],"status":"success"}"#
    );
    let lists = r#"{"query": "SELECT id, name, id FROM t ORDER BY id", "as_objects": false}"#;
    assert_eq!(
        run_rows(&toolbox, postgres_call(&database, lists)).await,
        r#"[[1,"a;",1],[2,"b",2]]"#
    );
    let values = query_config("VALUES (1), (2)");
    assert_eq!(
        run_rows(&toolbox, postgres_call(&database, &values)).await,
        r#"[{"column1":1},{"column1":2}]"#
    );
    let setting =
        run_rows(&toolbox, postgres_call(&database, &query_config("SHOW server_encoding"))).await;
    assert_eq!(setting, r#"[{"server_encoding":"UTF8"}]"#);
    let empty =
        run_rows(&toolbox, postgres_call(&database, &query_config("SELECT 1 AS a WHERE false")))
            .await;
    assert_eq!(empty, "[]");
    let code = run_call(&toolbox, postgres_call(&database, &query_config("SELECT 1"))).await.extras;
    assert_eq!(code.get("pg").unwrap().to_string(), r#"{"code":null}"#);
}

#[tokio::test]
async fn reads_sql_from_any_key() {
    let database = test_database();
    let toolbox = test_toolbox();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.sql");
    std::fs::write(&file, "SELECT 1; SELECT 7 AS n").unwrap();
    let script = Json::object([("uri", Json::from(file.to_str().unwrap()))]);
    let script = Json::object([("script", script)]).to_string();
    for keys in [
        r#"{"command": "SELECT 7 AS n"}"#,
        r#"{"cmd": "SELECT 7 AS n"}"#,
        r#"{"queries": ["SELECT 1", "SELECT 7 AS n"]}"#,
        r#"{"commands": "SELECT 1; SELECT 7 AS n"}"#,
        r#"{"query_b64": "U0VMRUNUIDcgQVMgbg=="}"#,
        r#"{"commands_b64": ["U0VMRUNUIDcgQVMgbg=="]}"#,
        r#"{"script": {"source": {"type": "inline", "content": "SELECT 7 AS n"}}}"#,
        &script,
    ] {
        assert_eq!(
            run_rows(&toolbox, postgres_call(&database, keys)).await,
            r#"[{"n":7}]"#,
            "{keys}"
        );
    }
}

#[tokio::test]
async fn statements_stop_at_the_first_error() {
    let database = test_database();
    let toolbox = test_toolbox();
    let keys = r#"{"commands": ["CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]}"#;
    let outcome = run_call(&toolbox, postgres_call(&database, keys)).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::DbConstraint);
    assert_eq!(error.code, Some(Json::from("23505")));
    let message = error.message.as_str();
    assert!(message.starts_with("ERROR: duplicate key value"), "{message}");
    assert!(message.contains("(SQLSTATE 23505)\nDetail: Key (id)=(1)"), "{message}");
    let details = error.details.unwrap();
    assert_eq!(details.get("statement"), Some(&Json::from(2)));
    assert_eq!(details.get("constraint"), Some(&Json::from("t_pkey")));
    assert_eq!(outcome.extras.get("pg").unwrap().to_string(), r#"{"code":"23505"}"#);
    let status = |name: &str| outcome.data.get(name).unwrap().get("status").cloned();
    assert_eq!(status("command_1"), Some(Json::from("success")));
    assert_eq!(status("command_2"), Some(Json::from("error")));
    assert_eq!(outcome.data.get("command_3"), None);
    // Earlier statements stay committed.
    let remaining =
        run_rows(&toolbox, postgres_call(&database, &query_config("SELECT id FROM t"))).await;
    assert_eq!(remaining, r#"[{"id":1}]"#);
}

#[tokio::test]
async fn transaction_is_all_or_nothing() {
    let database = test_database();
    let toolbox = test_toolbox();
    run_data(
        &toolbox,
        postgres_call(&database, &query_config("CREATE TABLE t (id int PRIMARY KEY)")),
    )
    .await;
    let bad =
        r#"{"transaction": true, "command": "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"}"#;
    let error = run_error(&toolbox, postgres_call(&database, bad)).await;
    assert_eq!(error.kind, TaskErrorKind::DbConstraint);
    let count = query_config("SELECT count(*) AS n FROM t");
    assert_eq!(run_rows(&toolbox, postgres_call(&database, &count)).await, r#"[{"n":0}]"#);
    let good =
        r#"{"transaction": true, "command": "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"}"#;
    run_data(&toolbox, postgres_call(&database, good)).await;
    assert_eq!(run_rows(&toolbox, postgres_call(&database, &count)).await, r#"[{"n":2}]"#);
    // A deferred constraint fails the commit.
    let late = r#"{"transaction": true, "command": "CREATE TABLE d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1), (1)"}"#;
    let error = run_error(&toolbox, postgres_call(&database, late)).await;
    assert_eq!(error.kind, TaskErrorKind::DbConstraint);
    // A transaction that the task leaves open is rolled back.
    let open = query_config("BEGIN; INSERT INTO t VALUES (3)");
    run_data(&toolbox, postgres_call(&database, &open)).await;
    wait_for_rows(&database, "SELECT count(*) AS n FROM t", r#"[{"n":2}]"#).await;
}

#[tokio::test]
async fn sqlstate_class_determines_error_kind() {
    let database = test_database();
    let toolbox = test_toolbox();
    for (text, kind, code) in [
        ("SELECT * FROM nowhere", TaskErrorKind::DbError, "42P01"),
        ("SELEC 1", TaskErrorKind::DbError, "42601"),
        ("SELECT 1 / 0", TaskErrorKind::DbError, "22012"),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$",
            TaskErrorKind::DbDeadlock,
            "40001",
        ),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '08006'; END $$",
            TaskErrorKind::DbConnection,
            "08006",
        ),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '55P03'; END $$",
            TaskErrorKind::DbTimeout,
            "55P03",
        ),
        ("SELECT pg_terminate_backend(pg_backend_pid())", TaskErrorKind::DbConnection, "57P01"),
    ] {
        let error = run_error(&toolbox, postgres_call(&database, &query_config(text))).await;
        assert_eq!((error.kind, error.code), (kind, Some(Json::from(code))), "{text}");
        assert_eq!(error.retryable, kind.is_retryable());
    }
    let hint = query_config("SELECT lenght('a')");
    let error = run_error(&toolbox, postgres_call(&database, &hint)).await;
    assert!(error.message.as_str().contains("\nHint: "), "{}", error.message);
    let timeout = r#"{"query": "SELECT pg_sleep(1000)", "options": {"statement_timeout": "20ms"}}"#;
    let error = run_error(&toolbox, postgres_call(&database, timeout)).await;
    assert_eq!(error.kind, TaskErrorKind::DbTimeout);
    assert_eq!(error.code, Some(Json::from("57014")));
}

#[tokio::test]
async fn reports_deadlock() {
    let database = test_database();
    let toolbox = test_toolbox();
    let rows = "CREATE TABLE t (id int, n int); INSERT INTO t VALUES (1, 0), (2, 0)";
    run_data(&toolbox, postgres_call(&database, &query_config(rows))).await;
    // Each holds its row, waits until the other holds the other row, and then requests that.
    let update_both = |first: u32, second: u32| {
        let wait = format!(
            "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' \
             AND objid = {second} AND database = (SELECT oid FROM pg_database \
             WHERE datname = current_database())) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$"
        );
        let text = format!(
            "UPDATE t SET n = 1 WHERE id = {first}; SELECT pg_advisory_xact_lock({first}); \
             {wait}; UPDATE t SET n = 2 WHERE id = {second}"
        );
        let keys = [("command", Json::from(text)), ("transaction", Json::from(true))];
        postgres_call(&database, &Json::object(keys).to_string())
    };
    let (first, second) =
        tokio::join!(run_call(&toolbox, update_both(1, 2)), run_call(&toolbox, update_both(2, 1)));
    let mut errors = [first.error, second.error].into_iter().flatten();
    let error = errors.next().expect("both calls succeeded");
    assert_eq!(error.kind, TaskErrorKind::DbDeadlock);
    assert_eq!(error.code, Some(Json::from("40P01")));
    assert_eq!(errors.next(), None);
}

#[tokio::test]
async fn timeout_cancels_query_on_server() {
    let database = test_database();
    let toolbox = test_toolbox();
    let mut sleeper = postgres_call(&database, &query_config("SELECT pg_sleep(1000)"));
    sleeper.timeout = Duration::from_millis(300);
    let (kind, _) = run_failing(&toolbox, sleeper).await;
    assert_eq!(kind, TaskErrorKind::Timeout);
    wait_for_rows(&database, COUNT_SLEEPING_STATEMENTS, r#"[{"n":0}]"#).await;
}

#[tokio::test]
async fn cancellation_cancels_query_on_server() {
    let database = test_database();
    let toolbox = Arc::new(test_toolbox());
    let cancel = CancellationToken::new();
    let sleeper = postgres_call(&database, &query_config("SELECT pg_sleep(1000)"));
    let task = {
        let (toolbox, cancel) = (Arc::clone(&toolbox), cancel.clone());
        tokio::spawn(async move { toolbox.call(sleeper, cancel).await })
    };
    wait_for_rows(&database, COUNT_SLEEPING_STATEMENTS, r#"[{"n":1}]"#).await;
    cancel.cancel();
    assert_eq!(task.await.unwrap().error.unwrap().kind, TaskErrorKind::Cancelled);
    wait_for_rows(&database, COUNT_SLEEPING_STATEMENTS, r#"[{"n":0}]"#).await;
}

#[tokio::test]
async fn pool_limits_connections() {
    let database = test_database();
    let toolbox = toolbox_with_pool(2);
    let count = "SELECT pg_sleep(0.02), (SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database()) AS n";
    let calls = (0..8).map(|_| run_call(&toolbox, postgres_call(&database, &query_config(count))));
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.error, None);
        let row = &outcome.data.get("rows").unwrap().as_list().unwrap()[0];
        let connections = row.get("n").unwrap().as_i64().unwrap();
        assert!(connections <= 2, "{connections} connections");
    }
    // A task may request a smaller pool.
    let alone = r#"{"query": "SELECT 1 AS n", "pool": {"max_size": 1}}"#;
    assert_eq!(run_rows(&toolbox, postgres_call(&database, alone)).await, r#"[{"n":1}]"#);
    let invalid = r#"{"query": "SELECT 1", "pool": 0}"#;
    assert_eq!(
        run_error(&toolbox, postgres_call(&database, invalid)).await.kind,
        TaskErrorKind::Schema
    );
}

#[tokio::test]
async fn returned_connection_is_reset() {
    let database = test_database();
    let toolbox = toolbox_with_pool(1);
    let setup = query_config(
        "CREATE TEMP TABLE left_over (a int); SET work_mem = '123kB'; \
         CREATE TYPE mood AS ENUM ('sad'); SELECT pg_advisory_lock(7); \
         SELECT pg_backend_pid() AS pid, 'sad'::mood AS mood",
    );
    let first = run_rows(&toolbox, postgres_call(&database, &setup)).await;
    let probe = query_config(
        "SELECT pg_backend_pid() AS pid, 'sad'::mood AS mood \
         WHERE to_regclass('pg_temp.left_over') IS NULL AND current_setting('work_mem') <> '123kB' \
         AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())",
    );
    assert_eq!(run_rows(&toolbox, postgres_call(&database, &probe)).await, first);
    // A terminated session is replaced.
    let terminate = query_config("SELECT pg_terminate_backend(pg_backend_pid())");
    run_error(&toolbox, postgres_call(&database, &terminate)).await;
    assert_ne!(run_rows(&toolbox, postgres_call(&database, &probe)).await, first);
    // Named prepared statements do not stay.
    for _ in 0..2 {
        let prepare = query_config("PREPARE p AS SELECT 1 AS n; EXECUTE p");
        assert_eq!(run_rows(&toolbox, postgres_call(&database, &prepare)).await, r#"[{"n":1}]"#);
    }
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let database = test_database();
    let mut settings = test_settings();
    settings.postgres.idle = Duration::from_millis(20);
    let toolbox = Toolbox::new(settings);
    let pid = run_rows(
        &toolbox,
        postgres_call(&database, &query_config("SELECT pg_backend_pid() AS pid")),
    )
    .await;
    let pid = parse_json(&pid).as_list().unwrap()[0].get("pid").unwrap().to_string();
    let count = format!("SELECT count(*) AS n FROM pg_stat_activity WHERE pid = {pid}");
    wait_for_rows(&database, &count, r#"[{"n":0}]"#).await;
}

#[tokio::test]
async fn schema_sets_search_path() {
    let database = test_database();
    let toolbox = test_toolbox();
    let setup = "CREATE SCHEMA \"My\"; CREATE TABLE \"My\".t AS SELECT 5 AS n";
    run_data(&toolbox, postgres_call(&database, &query_config(setup))).await;
    let keys = r#"{"query": "SELECT n FROM t", "schema": "My"}"#;
    assert_eq!(run_rows(&toolbox, postgres_call(&database, keys)).await, r#"[{"n":5}]"#);
    let error =
        run_error(&toolbox, postgres_call(&database, &query_config("SELECT n FROM t"))).await;
    assert_eq!(error.code, Some(Json::from("42P01")));
}

#[tokio::test]
async fn rows_are_limited_by_payload_cap() {
    let database = test_database();
    let settings = Settings { payload_cap: ByteSize::from_kib(64), ..test_settings() };
    let toolbox = Toolbox::new(settings);
    let large = query_config("SELECT g AS n FROM generate_series(1, 10000000) g");
    assert_eq!(
        run_error(&toolbox, postgres_call(&database, &large)).await.kind,
        TaskErrorKind::Limit
    );
    let small = query_config("SELECT g AS n FROM generate_series(1, 2) g");
    assert_eq!(run_rows(&toolbox, postgres_call(&database, &small)).await, r#"[{"n":1},{"n":2}]"#);
}

#[tokio::test]
async fn reads_credential_map() {
    let database = test_database();
    let toolbox = test_toolbox();
    let folder = database.cluster().socket_folder().display().to_string();
    let auth = format!(
        r#"{{"query": "SELECT current_user AS u", "auth": {{"type": "postgres", "db_host": "{folder}",
            "db_port": "5432", "db_user": "postgres", "db_name": "{}"}}}}"#,
        database.name()
    );
    let rows = run_rows(&toolbox, tool_call(ToolKind::Postgres, &parse_json(&auth))).await;
    assert_eq!(rows, r#"[{"u":"postgres"}]"#);
    let alias = r#"{"query": "SELECT 1", "auth": "pg_main"}"#;
    let (kind, message) =
        run_failing(&toolbox, tool_call(ToolKind::Postgres, &parse_json(alias))).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("'pg_main'"), "{message}");
    let unknown_user = format!(
        r#"{{"query": "SELECT 1", "db_host": "{folder}", "db_name": "x", "db_user": "nobody_at_all"}}"#
    );
    let (kind, message) =
        run_failing(&toolbox, tool_call(ToolKind::Postgres, &parse_json(&unknown_user))).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
    let missing = r#"{"query": "SELECT 1", "db_host": "/no/such/folder", "db_user": "u"}"#;
    let (kind, _) =
        run_failing(&toolbox, tool_call(ToolKind::Postgres, &parse_json(missing))).await;
    assert_eq!(kind, TaskErrorKind::DbConnection);
}

#[tokio::test]
async fn egress_policy_checks_every_address() {
    let database = test_database();
    let settings =
        Settings { egress: EgressPolicy::Public { allow: Vec::new() }, ..test_settings() };
    let toolbox = Toolbox::new(settings);
    let (kind, message) =
        run_failing(&toolbox, postgres_call(&database, &query_config("SELECT 1"))).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");
    for host in ["127.0.0.1", "localhost", "169.254.169.254", "[::1]"] {
        let keys = format!(r#"{{"query": "SELECT 1", "db_host": "{host}", "db_user": "u"}}"#);
        let (kind, message) =
            run_failing(&toolbox, tool_call(ToolKind::Postgres, &parse_json(&keys))).await;
        assert_eq!(kind, TaskErrorKind::Auth, "{host}: {message}");
    }
}

#[tokio::test]
async fn cursor_claims_rows_with_postgres_tool() {
    let database = test_database();
    let toolbox = test_toolbox();
    let setup = "CREATE TABLE q (id int, state text DEFAULT 'open'); INSERT INTO q SELECT generate_series(1, 5)";
    run_data(&toolbox, postgres_call(&database, &query_config(setup))).await;
    let text = "UPDATE q SET state = 'taken' WHERE id IN (SELECT id FROM q WHERE state = 'open' \
         ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id";
    let keys = Json::object([
        ("connection_string", Json::from(database.connection_config())),
        ("command", Json::from(text)),
        ("params", parse_json("[3]")),
        ("options", parse_json(r#"{"statement_timeout": "30s"}"#)),
    ]);
    let mut claimed = Vec::new();
    for expected in [3, 2, 0] {
        let outcome = run_call(&toolbox, tool_call(ToolKind::Postgres, &keys)).await;
        let rows = outcome.data.get("rows").and_then(Json::as_list).unwrap();
        assert_eq!(rows.len(), expected);
        claimed.extend(rows.iter().map(|row| row.get("id").unwrap().as_i64().unwrap()));
    }
    claimed.sort_unstable();
    assert_eq!(claimed, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn kind_without_tool_is_unsupported() {
    let call = tool_call(ToolKind::Workbook, &Json::empty_map());
    let (kind, message) = run_failing(&test_toolbox(), call).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("kind 'workbook'"), "{message}");
}

#[tokio::test]
async fn shutdown_closes_idle_connections() {
    let database = test_database();
    let toolbox = test_toolbox();
    let pid = run_rows(
        &toolbox,
        postgres_call(&database, &query_config("SELECT pg_backend_pid() AS pid")),
    )
    .await;
    toolbox.shutdown().await;
    let pid = parse_json(&pid).as_list().unwrap()[0].get("pid").unwrap().to_string();
    let count = format!("SELECT count(*) AS n FROM pg_stat_activity WHERE pid = {pid}");
    wait_for_rows(&database, &count, r#"[{"n":0}]"#).await;
}
