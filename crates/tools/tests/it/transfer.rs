use noetl_testkit::postgres::TestDatabase;
use noetl_tools::{ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};
use tempfile::TempDir;

use crate::database::{
    postgres_call, query_config, run_error, run_rows, sqlite_call, test_database,
};
use crate::http_server::{TestHttpServer, http_response};
use crate::support::{parse_json, run_call, run_data, test_toolbox, tool_call};

/// A PostgreSQL database and two SQLite files.
struct TransferFixture {
    database: TestDatabase,
    _folder: TempDir,
    first: String,
    second: String,
    toolbox: Toolbox,
}

impl TransferFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        Self {
            database: test_database(),
            first: file("a.db"),
            second: file("b.db"),
            _folder: folder,
            toolbox: test_toolbox(),
        }
    }

    fn postgres_side(&self, keys: &str) -> Json {
        side_config("postgres", "connection_string", &self.database.connection_config(), keys)
    }

    async fn query_postgres(&self, text: &str) -> String {
        data_or_rows(&self.toolbox, postgres_call(&self.database, &query_config(text))).await
    }

    async fn query_sqlite(&self, file: &str, text: &str) -> String {
        data_or_rows(&self.toolbox, sqlite_call(file, &query_config(text))).await
    }

    async fn run_transfer(&self, source: Json, target: Json, keys: &str) -> Json {
        let outcome = run_call(&self.toolbox, transfer_call(source, target, keys)).await;
        assert_eq!(outcome.error, None);
        outcome.data
    }
}

async fn data_or_rows(toolbox: &Toolbox, call: ToolCall) -> String {
    let outcome = run_call(toolbox, call).await;
    assert_eq!(outcome.error, None);
    outcome.data.get("rows").map_or_else(String::new, Json::to_string)
}

fn side_config(kind: &str, key: &str, location: &str, keys: &str) -> Json {
    let mut fields = parse_json(keys).as_map().unwrap().clone();
    fields.insert("type".into(), Json::from(kind));
    fields.insert(key.into(), Json::from(location));
    fields.into()
}

fn sqlite_side(file: &str, keys: &str) -> Json {
    side_config("sqlite", "database", file, keys)
}

fn transfer_call(source: Json, target: Json, keys: &str) -> ToolCall {
    let mut config = parse_json(keys).as_map().unwrap().clone();
    config.insert("source".into(), source);
    config.insert("target".into(), target);
    tool_call(ToolKind::Transfer, &config.into())
}

const WIDE_TABLE: &str = "CREATE TABLE wide (id int PRIMARY KEY, ok boolean, price numeric(10,2), \
     at timestamptz, raw bytea, doc jsonb, tags text[])";
const WIDE_SQLITE_TABLE: &str = "CREATE TABLE wide (id INTEGER PRIMARY KEY, ok BOOLEAN, price NUMERIC, \
     at TEXT, raw BLOB, doc TEXT, tags TEXT)";
const WIDE_TABLE_ROW: &str = r#"INSERT INTO wide VALUES (1, true, 12.50, '2024-01-02T03:04:05Z', '\x00ff',
     '{"a": [1]}', ARRAY['x,y', 'z']), (2, NULL, NULL, NULL, NULL, NULL, NULL)"#;

#[tokio::test]
async fn values_round_trip_between_databases() {
    let fixture = TransferFixture::new();
    fixture.query_postgres(&format!("{WIDE_TABLE}; {WIDE_TABLE_ROW}")).await;
    fixture.query_sqlite(&fixture.first, WIDE_SQLITE_TABLE).await;
    let source = fixture.postgres_side(r#"{"query": "SELECT * FROM wide ORDER BY id"}"#);
    let target = sqlite_side(&fixture.first, r#"{"table": "wide"}"#);
    let report = fixture.run_transfer(source, target, "{}").await;
    assert_eq!(
        report.to_string(),
        r#"{"chunks_processed":1,"columns":["id","ok","price","at","raw","doc","tags"],"direction":"postgres_to_sqlite","mode":"append","rows_transferred":2,"source_type":"postgres","target_table":"wide","target_type":"sqlite"}"#
    );
    let types = "SELECT ok, price, typeof(raw) AS raw, doc FROM wide WHERE id = 1";
    assert_eq!(
        fixture.query_sqlite(&fixture.first, types).await,
        r#"[{"doc":"{\"a\":[1]}","ok":1,"price":12.5,"raw":"blob"}]"#
    );

    // Through a second file into an empty copy of the original table.
    fixture.query_sqlite(&fixture.second, WIDE_SQLITE_TABLE).await;
    let source = sqlite_side(&fixture.first, r#"{"table": "wide"}"#);
    let target = sqlite_side(&fixture.second, r#"{"table": "wide"}"#);
    fixture.run_transfer(source, target, "{}").await;
    fixture.query_postgres(&WIDE_TABLE.replace("wide", "copy")).await;
    let source = sqlite_side(&fixture.second, r#"{"query": "SELECT * FROM wide"}"#);
    let target = fixture.postgres_side(r#"{"table": "public.Copy"}"#);
    fixture.run_transfer(source, target, "{}").await;
    let differing = "SELECT count(*) AS n FROM ((TABLE wide EXCEPT TABLE copy) \
         UNION ALL (TABLE copy EXCEPT TABLE wide)) d";
    assert_eq!(fixture.query_postgres(differing).await, r#"[{"n":0}]"#);

    // From the database into itself.
    fixture.query_postgres("CREATE TABLE again (LIKE wide)").await;
    let source =
        fixture.postgres_side(r#"{"query": "SELECT * FROM wide WHERE id >= $1", "params": [2]}"#);
    let target = fixture.postgres_side(r#"{"table": "again"}"#);
    let report = fixture.run_transfer(source, target, "{}").await;
    assert_eq!(report.get("rows_transferred"), Some(&Json::from(1)));
}

#[tokio::test]
async fn transfers_rows_from_http_response() {
    let fixture = TransferFixture::new();
    let body = r#"{"data": {"rates": [{"currency": "EUR", "value": 1.1, "from": {"bank": "ECB"}},
        {"currency": "CHF", "value": "0.95"}]}}"#;
    let server = TestHttpServer::with_response(&http_response(
        "200 OK",
        "content-type: application/json\r\n",
        body,
    ))
    .await;
    let source = side_config("http", "url", &server.url("/"), r#"{"data_path": "data.rates"}"#);
    fixture.query_postgres("CREATE TABLE rate (code text, rate numeric, bank text)").await;
    fixture.query_postgres("INSERT INTO rate VALUES ('old', 1, NULL)").await;
    let keys = r#"{"mapping": {"currency": "code", "value": "rate", "from.bank": "bank"}, "mode": "replace"}"#;
    let report = fixture
        .run_transfer(source.clone(), fixture.postgres_side(r#"{"table": "rate"}"#), keys)
        .await;
    assert_eq!(report.get("direction"), Some(&Json::from("http_to_postgres")));
    assert_eq!(
        fixture.query_postgres("SELECT * FROM rate ORDER BY code").await,
        r#"[{"bank":null,"code":"CHF","rate":"0.95"},{"bank":"ECB","code":"EUR","rate":"1.1"}]"#
    );
    // Into a file, through a custom statement.
    fixture.query_sqlite(&fixture.first, "CREATE TABLE rate (code, rate)").await;
    let target = r#"{"query": "INSERT INTO rate VALUES (?, ?)", "columns": ["code", "rate"]}"#;
    let keys = r#"{"mapping": {"code": "currency", "rate": "value"}}"#;
    fixture.run_transfer(source, sqlite_side(&fixture.first, target), keys).await;
    assert_eq!(
        fixture.query_sqlite(&fixture.first, "SELECT * FROM rate ORDER BY code").await,
        r#"[{"code":"CHF","rate":"0.95"},{"code":"EUR","rate":1.1}]"#
    );
    let missing = side_config("http", "url", &server.url("/"), r#"{"data_path": "data.nothing"}"#);
    let call = transfer_call(missing, fixture.postgres_side(r#"{"table": "rate"}"#), "{}");
    assert_eq!(run_error(&fixture.toolbox, call).await.kind, TaskErrorKind::Schema);
}

#[tokio::test]
async fn transfers_rows_to_http_endpoint() {
    let fixture = TransferFixture::new();
    let server = TestHttpServer::with_response(&http_response("201 Created", "", "{}")).await;
    fixture
        .query_sqlite(
            &fixture.first,
            "CREATE TABLE t AS SELECT 1 AS id UNION SELECT 2 UNION SELECT 3",
        )
        .await;
    let source = sqlite_side(&fixture.first, r#"{"query": "SELECT id FROM t ORDER BY id"}"#);
    let target = side_config("http", "url", &server.url("/in"), "{}");
    let report = fixture.run_transfer(source, target, r#"{"chunk_size": 2}"#).await;
    assert_eq!(report.get("chunks_processed"), Some(&Json::from(2)));
    let bodies: Vec<String> =
        server.received_requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [r#"[{"id":1},{"id":2}]"#, r#"[{"id":3}]"#]);
    let keys: Vec<_> = server
        .received_requests()
        .iter()
        .map(|request| request.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn upsert_is_idempotent() {
    let fixture = TransferFixture::new();
    fixture.query_sqlite(&fixture.first, "CREATE TABLE s (id, name)").await;
    fixture
        .query_sqlite(&fixture.first, "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c'), (3, 'd')")
        .await;
    fixture.query_postgres("CREATE TABLE t (id int PRIMARY KEY, name text)").await;
    fixture.query_postgres("INSERT INTO t VALUES (2, 'old'), (9, 'stays')").await;
    let schema = "CREATE TABLE t (id INTEGER, name TEXT, UNIQUE (id))";
    fixture.query_sqlite(&fixture.second, schema).await;
    let source = sqlite_side(&fixture.first, r#"{"query": "SELECT * FROM s"}"#);
    let query = "SELECT id, name FROM t ORDER BY id";
    let expected =
        r#"[{"id":1,"name":"a"},{"id":2,"name":"b"},{"id":3,"name":"d"},{"id":9,"name":"stays"}]"#;
    for _ in 0..2 {
        let target = fixture.postgres_side(r#"{"table": "t"}"#);
        fixture.run_transfer(source.clone(), target, r#"{"mode": "upsert"}"#).await;
        assert_eq!(fixture.query_postgres(query).await, expected);
        let target = sqlite_side(&fixture.second, r#"{"table": "t", "keys": "id"}"#);
        fixture.run_transfer(source.clone(), target, r#"{"mode": "upsert"}"#).await;
        let count = fixture.query_sqlite(&fixture.second, "SELECT count(*) AS n FROM t").await;
        assert_eq!(count, r#"[{"n":3}]"#);
    }
    // Without a key, rows cannot be matched.
    let target = sqlite_side(&fixture.second, r#"{"table": "t"}"#);
    let call = transfer_call(source, target, r#"{"mode": "upsert"}"#);
    assert_eq!(run_error(&fixture.toolbox, call).await.kind, TaskErrorKind::Schema);
}

#[tokio::test]
async fn chunks_before_failure_are_kept() {
    let fixture = TransferFixture::new();
    fixture.query_postgres("CREATE TABLE t (id int CHECK (id <> 25))").await;
    fixture.query_sqlite(&fixture.first, "CREATE TABLE t (id INTEGER CHECK (id <> 25))").await;
    let source = || fixture.postgres_side(r#"{"query": "SELECT generate_series(1, 40) AS id"}"#);
    let count = "SELECT count(*) AS n FROM t";
    for target in [
        fixture.postgres_side(r#"{"table": "t"}"#),
        sqlite_side(&fixture.first, r#"{"table": "t"}"#),
    ] {
        let call = transfer_call(source(), target, r#"{"chunk_size": 10}"#);
        let error = run_error(&fixture.toolbox, call).await;
        assert_eq!(error.kind, TaskErrorKind::DbConstraint);
        let details = error.details.unwrap();
        assert_eq!(details.get("rows_transferred"), Some(&Json::from(20)));
        assert_eq!(details.get("chunks_processed"), Some(&Json::from(2)));
    }
    assert_eq!(fixture.query_postgres(count).await, r#"[{"n":20}]"#);
    assert_eq!(fixture.query_sqlite(&fixture.first, count).await, r#"[{"n":20}]"#);
}

#[tokio::test]
async fn transfers_many_rows_in_chunks() {
    let fixture = TransferFixture::new();
    fixture.query_sqlite(&fixture.first, "CREATE TABLE t (id INTEGER, name TEXT)").await;
    let source = fixture.postgres_side(
        r#"{"query": "SELECT g AS id, repeat('x', 100) AS name FROM generate_series(1, 25000) g"}"#,
    );
    let target = sqlite_side(&fixture.first, r#"{"table": "t"}"#);
    let report = fixture.run_transfer(source, target, "{}").await;
    assert_eq!(report.get("rows_transferred"), Some(&Json::from(25_000)));
    assert_eq!(report.get("chunks_processed"), Some(&Json::from(25)));
    fixture.query_postgres("CREATE TABLE t (id int, name text)").await;
    let source = sqlite_side(&fixture.first, r#"{"table": "t"}"#);
    let target = fixture.postgres_side(r#"{"table": "t"}"#);
    fixture.run_transfer(source, target, r#"{"chunk_size": "5000"}"#).await;
    let sums = "SELECT count(*) AS n, sum(id) AS s FROM t";
    assert_eq!(fixture.query_postgres(sums).await, r#"[{"n":25000,"s":312512500}]"#);
}

/// The reader waits for the writer, and must not hold the thread that the writer needs.
#[test]
fn runs_more_transfers_than_threads() {
    let threads = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (source_file, toolbox) = (file("from.db"), test_toolbox());
    let rows = "WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 2500)
        SELECT n AS id FROM g";
    threads.block_on(async {
        data_or_rows(
            &toolbox,
            sqlite_call(&source_file, &query_config(&format!("CREATE TABLE t AS {rows}"))),
        )
        .await;
        let transfers = (0..6).map(async |number| {
            let target_file = file(&format!("to_{number}.db"));
            data_or_rows(
                &toolbox,
                sqlite_call(&target_file, &query_config("CREATE TABLE t (id INTEGER)")),
            )
            .await;
            let source = sqlite_side(&source_file, r#"{"table": "t"}"#);
            let target = sqlite_side(&target_file, r#"{"table": "t"}"#);
            let outcome =
                run_call(&toolbox, transfer_call(source, target, r#"{"chunk_size": 500}"#)).await;
            assert_eq!(outcome.error, None);
            assert_eq!(outcome.data.get("rows_transferred"), Some(&Json::from(2_500)));
        });
        futures_util::future::join_all(transfers).await;
    });
}

#[tokio::test]
async fn replace_with_no_rows_empties_table() {
    let fixture = TransferFixture::new();
    fixture.query_postgres("CREATE TABLE t AS SELECT 1 AS id").await;
    let source = fixture.postgres_side(r#"{"query": "SELECT 1 AS id WHERE false"}"#);
    let target = fixture.postgres_side(r#"{"table": "t"}"#);
    let report = fixture.run_transfer(source, target, r#"{"mode": "replace"}"#).await;
    assert_eq!(report.get("rows_transferred"), Some(&Json::from(0)));
    assert_eq!(fixture.query_postgres("SELECT * FROM t").await, "[]");
}

#[tokio::test]
async fn memory_database_is_shared_within_command() {
    let fixture = TransferFixture::new();
    fixture.query_sqlite(":memory:", "CREATE TABLE m AS SELECT 7 AS id").await;
    fixture.query_postgres("CREATE TABLE t (id int)").await;
    let source = sqlite_side(":memory:", r#"{"table": "m"}"#);
    fixture.run_transfer(source.clone(), fixture.postgres_side(r#"{"table": "t"}"#), "{}").await;
    assert_eq!(fixture.query_postgres("SELECT * FROM t").await, r#"[{"id":7}]"#);
    let call = transfer_call(source, sqlite_side(":memory:", r#"{"table": "m"}"#), "{}");
    assert_eq!(run_error(&fixture.toolbox, call).await.kind, TaskErrorKind::Schema);
    let table =
        run_rows(&fixture.toolbox, sqlite_call(":memory:", &query_config("SELECT * FROM m"))).await;
    assert_eq!(table, r#"[{"id":7}]"#);
}

#[tokio::test]
async fn rejects_unsupported_transfers() {
    let fixture = TransferFixture::new();
    run_data(
        &fixture.toolbox,
        postgres_call(&fixture.database, &query_config("CREATE TABLE t (id int)")),
    )
    .await;
    let source = || fixture.postgres_side(r#"{"query": "SELECT 1 AS id"}"#);
    let target = || fixture.postgres_side(r#"{"table": "t"}"#);
    let typed = |kind: &str| side_config(kind, "table", "t", "{}");
    // Both names are the in-memory database of the command.
    let memory = |name: &str| side_config("sqlite", "database", name, r#"{"table": "t"}"#);
    for (call, kind) in [
        (transfer_call(typed("duckdb"), target(), "{}"), TaskErrorKind::Unsupported),
        (transfer_call(source(), typed("snowflake"), "{}"), TaskErrorKind::Unsupported),
        (transfer_call(source(), typed("ftp"), "{}"), TaskErrorKind::Schema),
        (transfer_call(memory(""), memory(":memory:"), "{}"), TaskErrorKind::Schema),
        (transfer_call(source(), target(), r#"{"mode": "merge"}"#), TaskErrorKind::Schema),
        (transfer_call(source(), target(), r#"{"chunk_size": 0}"#), TaskErrorKind::Schema),
        (
            transfer_call(source(), fixture.postgres_side(r#"{"table": "nowhere"}"#), "{}"),
            TaskErrorKind::DbError,
        ),
        (
            transfer_call(
                fixture.postgres_side(r#"{"query": "SELECT 1 AS other"}"#),
                target(),
                "{}",
            ),
            TaskErrorKind::Schema,
        ),
        (
            transfer_call(
                fixture.postgres_side(r#"{"query": "SELECT 'x' AS id"}"#),
                target(),
                "{}",
            ),
            TaskErrorKind::DbError,
        ),
    ] {
        let error = run_error(&fixture.toolbox, call).await;
        assert_eq!(error.kind, kind, "{}", error.message);
    }
}
