use noetl_testkit::postgres::Database;
use noetl_tools::{Call, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};
use tempfile::TempDir;

use crate::database::{database, fault, pg, query, rows, sqlite};
use crate::server::{Server, answer};
use crate::support::{call, data, run, toolbox, value};

/// A PostgreSQL database and two SQLite files.
struct Places {
    database: Database,
    _folder: TempDir,
    first: String,
    second: String,
    toolbox: Toolbox,
}

impl Places {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        Self {
            database: database(),
            first: file("a.db"),
            second: file("b.db"),
            _folder: folder,
            toolbox: toolbox(),
        }
    }

    fn postgres(&self, keys: &str) -> Json {
        side(
            "postgres",
            ("connection_string", &self.database.config()),
            keys,
        )
    }

    async fn in_postgres(&self, text: &str) -> String {
        data_or_rows(&self.toolbox, pg(&self.database, &query(text))).await
    }

    async fn in_sqlite(&self, file: &str, text: &str) -> String {
        data_or_rows(&self.toolbox, sqlite(file, &query(text))).await
    }

    async fn moved(&self, source: Json, target: Json, more: &str) -> Json {
        let outcome = run(&self.toolbox, transfer(source, target, more)).await;
        assert_eq!(outcome.error, None);
        outcome.data
    }
}

async fn data_or_rows(toolbox: &Toolbox, call: Call) -> String {
    let outcome = run(toolbox, call).await;
    assert_eq!(outcome.error, None);
    outcome
        .data
        .get("rows")
        .map_or_else(String::new, Json::to_string)
}

fn side(kind: &str, place: (&str, &str), keys: &str) -> Json {
    let mut fields = value(keys).as_map().unwrap().clone();
    fields.insert("type".into(), Json::from(kind));
    fields.insert(place.0.into(), Json::from(place.1));
    fields.into()
}

fn in_file(file: &str, keys: &str) -> Json {
    side("sqlite", ("database", file), keys)
}

fn transfer(source: Json, target: Json, more: &str) -> Call {
    let mut config = value(more).as_map().unwrap().clone();
    config.insert("source".into(), source);
    config.insert("target".into(), target);
    call(ToolKind::Transfer, &config.into())
}

const WIDE: &str = "CREATE TABLE wide (id int PRIMARY KEY, ok boolean, price numeric(10,2), \
     at timestamptz, raw bytea, doc jsonb, tags text[])";
const WIDE_LITE: &str = "CREATE TABLE wide (id INTEGER PRIMARY KEY, ok BOOLEAN, price NUMERIC, \
     at TEXT, raw BLOB, doc TEXT, tags TEXT)";
const ROW: &str = r#"INSERT INTO wide VALUES (1, true, 12.50, '2024-01-02T03:04:05Z', '\x00ff',
     '{"a": [1]}', ARRAY['x,y', 'z']), (2, NULL, NULL, NULL, NULL, NULL, NULL)"#;

#[tokio::test]
async fn there_and_back_again() {
    let places = Places::new();
    places.in_postgres(&format!("{WIDE}; {ROW}")).await;
    places.in_sqlite(&places.first, WIDE_LITE).await;
    let source = places.postgres(r#"{"query": "SELECT * FROM wide ORDER BY id"}"#);
    let target = in_file(&places.first, r#"{"table": "wide"}"#);
    let done = places.moved(source, target, "{}").await;
    assert_eq!(
        done.to_string(),
        r#"{"chunks_processed":1,"columns":["id","ok","price","at","raw","doc","tags"],"direction":"postgres_to_sqlite","mode":"append","rows_transferred":2,"source_type":"postgres","target_table":"wide","target_type":"sqlite"}"#
    );
    let types = "SELECT ok, price, typeof(raw) AS raw, doc FROM wide WHERE id = 1";
    assert_eq!(
        places.in_sqlite(&places.first, types).await,
        r#"[{"doc":"{\"a\":[1]}","ok":1,"price":12.5,"raw":"blob"}]"#
    );

    // Through a second file into an empty copy of the table where it came from.
    places.in_sqlite(&places.second, WIDE_LITE).await;
    let source = in_file(&places.first, r#"{"table": "wide"}"#);
    let target = in_file(&places.second, r#"{"table": "wide"}"#);
    places.moved(source, target, "{}").await;
    places.in_postgres(&WIDE.replace("wide", "copy")).await;
    let source = in_file(&places.second, r#"{"query": "SELECT * FROM wide"}"#);
    let target = places.postgres(r#"{"table": "public.Copy"}"#);
    places.moved(source, target, "{}").await;
    let differing = "SELECT count(*) AS n FROM ((TABLE wide EXCEPT TABLE copy) \
         UNION ALL (TABLE copy EXCEPT TABLE wide)) d";
    assert_eq!(places.in_postgres(differing).await, r#"[{"n":0}]"#);

    // From the database into itself.
    places.in_postgres("CREATE TABLE again (LIKE wide)").await;
    let source =
        places.postgres(r#"{"query": "SELECT * FROM wide WHERE id >= $1", "params": [2]}"#);
    let target = places.postgres(r#"{"table": "again"}"#);
    let done = places.moved(source, target, "{}").await;
    assert_eq!(done.get("rows_transferred"), Some(&Json::from(1)));
}

#[tokio::test]
async fn rows_of_an_answer() {
    let places = Places::new();
    let body = r#"{"data": {"rates": [{"currency": "EUR", "value": 1.1, "from": {"bank": "ECB"}},
        {"currency": "CHF", "value": "0.95"}]}}"#;
    let server = Server::saying(&answer(
        "200 OK",
        "content-type: application/json\r\n",
        body,
    ))
    .await;
    let source = side(
        "http",
        ("url", &server.url("/")),
        r#"{"data_path": "data.rates"}"#,
    );
    places
        .in_postgres("CREATE TABLE rate (code text, rate numeric, bank text)")
        .await;
    places
        .in_postgres("INSERT INTO rate VALUES ('old', 1, NULL)")
        .await;
    let more = r#"{"mapping": {"currency": "code", "value": "rate", "from.bank": "bank"}, "mode": "replace"}"#;
    let done = places
        .moved(
            source.clone(),
            places.postgres(r#"{"table": "rate"}"#),
            more,
        )
        .await;
    assert_eq!(done.get("direction"), Some(&Json::from("http_to_postgres")));
    assert_eq!(
        places.in_postgres("SELECT * FROM rate ORDER BY code").await,
        r#"[{"bank":null,"code":"CHF","rate":"0.95"},{"bank":"ECB","code":"EUR","rate":"1.1"}]"#
    );
    // The same into a file, through a statement of the author's.
    places
        .in_sqlite(&places.first, "CREATE TABLE rate (code, rate)")
        .await;
    let target = r#"{"query": "INSERT INTO rate VALUES (?, ?)", "columns": ["code", "rate"]}"#;
    let more = r#"{"mapping": {"code": "currency", "rate": "value"}}"#;
    places
        .moved(source, in_file(&places.first, target), more)
        .await;
    assert_eq!(
        places
            .in_sqlite(&places.first, "SELECT * FROM rate ORDER BY code")
            .await,
        r#"[{"code":"CHF","rate":"0.95"},{"code":"EUR","rate":1.1}]"#
    );
    let nowhere = side(
        "http",
        ("url", &server.url("/")),
        r#"{"data_path": "data.nothing"}"#,
    );
    let call = transfer(nowhere, places.postgres(r#"{"table": "rate"}"#), "{}");
    assert_eq!(
        fault(&places.toolbox, call).await.kind,
        TaskErrorKind::Schema
    );
}

#[tokio::test]
async fn rows_into_an_address() {
    let places = Places::new();
    let server = Server::saying(&answer("201 Created", "", "{}")).await;
    places
        .in_sqlite(
            &places.first,
            "CREATE TABLE t AS SELECT 1 AS id UNION SELECT 2 UNION SELECT 3",
        )
        .await;
    let source = in_file(
        &places.first,
        r#"{"query": "SELECT id FROM t ORDER BY id"}"#,
    );
    let target = side("http", ("url", &server.url("/in")), "{}");
    let done = places.moved(source, target, r#"{"chunk_size": 2}"#).await;
    assert_eq!(done.get("chunks_processed"), Some(&Json::from(2)));
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, [r#"[{"id":1},{"id":2}]"#, r#"[{"id":3}]"#]);
    let keys: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn to_upsert_twice_is_to_upsert_once() {
    let places = Places::new();
    places
        .in_sqlite(&places.first, "CREATE TABLE s (id, name)")
        .await;
    places
        .in_sqlite(
            &places.first,
            "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c'), (3, 'd')",
        )
        .await;
    places
        .in_postgres("CREATE TABLE t (id int PRIMARY KEY, name text)")
        .await;
    places
        .in_postgres("INSERT INTO t VALUES (2, 'old'), (9, 'stays')")
        .await;
    let made = "CREATE TABLE t (id INTEGER, name TEXT, UNIQUE (id))";
    places.in_sqlite(&places.second, made).await;
    let source = in_file(&places.first, r#"{"query": "SELECT * FROM s"}"#);
    let all = "SELECT id, name FROM t ORDER BY id";
    let expected =
        r#"[{"id":1,"name":"a"},{"id":2,"name":"b"},{"id":3,"name":"d"},{"id":9,"name":"stays"}]"#;
    for _ in 0..2 {
        let target = places.postgres(r#"{"table": "t"}"#);
        places
            .moved(source.clone(), target, r#"{"mode": "upsert"}"#)
            .await;
        assert_eq!(places.in_postgres(all).await, expected);
        let target = in_file(&places.second, r#"{"table": "t", "keys": "id"}"#);
        places
            .moved(source.clone(), target, r#"{"mode": "upsert"}"#)
            .await;
        let count = places
            .in_sqlite(&places.second, "SELECT count(*) AS n FROM t")
            .await;
        assert_eq!(count, r#"[{"n":3}]"#);
    }
    // Without a key there is nothing to tell rows by.
    let target = in_file(&places.second, r#"{"table": "t"}"#);
    let call = transfer(source, target, r#"{"mode": "upsert"}"#);
    assert_eq!(
        fault(&places.toolbox, call).await.kind,
        TaskErrorKind::Schema
    );
}

#[tokio::test]
async fn chunks_before_a_failure_stay() {
    let places = Places::new();
    places
        .in_postgres("CREATE TABLE t (id int CHECK (id <> 25))")
        .await;
    places
        .in_sqlite(
            &places.first,
            "CREATE TABLE t (id INTEGER CHECK (id <> 25))",
        )
        .await;
    let source = || places.postgres(r#"{"query": "SELECT generate_series(1, 40) AS id"}"#);
    let count = "SELECT count(*) AS n FROM t";
    for target in [
        places.postgres(r#"{"table": "t"}"#),
        in_file(&places.first, r#"{"table": "t"}"#),
    ] {
        let call = transfer(source(), target, r#"{"chunk_size": 10}"#);
        let error = fault(&places.toolbox, call).await;
        assert_eq!(error.kind, TaskErrorKind::DbConstraint);
        let details = error.details.unwrap();
        assert_eq!(details.get("rows_transferred"), Some(&Json::from(20)));
        assert_eq!(details.get("chunks_processed"), Some(&Json::from(2)));
    }
    assert_eq!(places.in_postgres(count).await, r#"[{"n":20}]"#);
    assert_eq!(
        places.in_sqlite(&places.first, count).await,
        r#"[{"n":20}]"#
    );
}

#[tokio::test]
async fn many_rows_in_many_chunks() {
    let places = Places::new();
    places
        .in_sqlite(&places.first, "CREATE TABLE t (id INTEGER, name TEXT)")
        .await;
    let source = places.postgres(
        r#"{"query": "SELECT g AS id, repeat('x', 100) AS name FROM generate_series(1, 25000) g"}"#,
    );
    let target = in_file(&places.first, r#"{"table": "t"}"#);
    let done = places.moved(source, target, "{}").await;
    assert_eq!(done.get("rows_transferred"), Some(&Json::from(25_000)));
    assert_eq!(done.get("chunks_processed"), Some(&Json::from(25)));
    places
        .in_postgres("CREATE TABLE t (id int, name text)")
        .await;
    let source = in_file(&places.first, r#"{"table": "t"}"#);
    let target = places.postgres(r#"{"table": "t"}"#);
    places
        .moved(source, target, r#"{"chunk_size": "5000"}"#)
        .await;
    let sums = "SELECT count(*) AS n, sum(id) AS s FROM t";
    assert_eq!(
        places.in_postgres(sums).await,
        r#"[{"n":25000,"s":312512500}]"#
    );
}

/// Who reads waits for who writes, and must not hold the thread that the other one needs.
#[test]
fn more_transfers_than_threads() {
    let threads = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (from, toolbox) = (file("from.db"), toolbox());
    let rows = "WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 2500)
        SELECT n AS id FROM g";
    threads.block_on(async {
        data_or_rows(
            &toolbox,
            sqlite(&from, &query(&format!("CREATE TABLE t AS {rows}"))),
        )
        .await;
        let moves = (0..6).map(async |place| {
            let to = file(&format!("to_{place}.db"));
            data_or_rows(&toolbox, sqlite(&to, &query("CREATE TABLE t (id INTEGER)"))).await;
            let source = in_file(&from, r#"{"table": "t"}"#);
            let target = in_file(&to, r#"{"table": "t"}"#);
            let outcome = run(&toolbox, transfer(source, target, r#"{"chunk_size": 500}"#)).await;
            assert_eq!(outcome.error, None);
            assert_eq!(
                outcome.data.get("rows_transferred"),
                Some(&Json::from(2_500))
            );
        });
        futures_util::future::join_all(moves).await;
    });
}

#[tokio::test]
async fn to_replace_by_nothing_is_to_empty() {
    let places = Places::new();
    places.in_postgres("CREATE TABLE t AS SELECT 1 AS id").await;
    let source = places.postgres(r#"{"query": "SELECT 1 AS id WHERE false"}"#);
    let target = places.postgres(r#"{"table": "t"}"#);
    let done = places.moved(source, target, r#"{"mode": "replace"}"#).await;
    assert_eq!(done.get("rows_transferred"), Some(&Json::from(0)));
    assert_eq!(places.in_postgres("SELECT * FROM t").await, "[]");
}

#[tokio::test]
async fn a_database_in_memory_is_that_of_the_other_tasks() {
    let places = Places::new();
    places
        .in_sqlite(":memory:", "CREATE TABLE m AS SELECT 7 AS id")
        .await;
    places.in_postgres("CREATE TABLE t (id int)").await;
    let source = in_file(":memory:", r#"{"table": "m"}"#);
    places
        .moved(source.clone(), places.postgres(r#"{"table": "t"}"#), "{}")
        .await;
    assert_eq!(places.in_postgres("SELECT * FROM t").await, r#"[{"id":7}]"#);
    let call = transfer(source, in_file(":memory:", r#"{"table": "m"}"#), "{}");
    assert_eq!(
        fault(&places.toolbox, call).await.kind,
        TaskErrorKind::Schema
    );
    let table = rows(
        &places.toolbox,
        sqlite(":memory:", &query("SELECT * FROM m")),
    )
    .await;
    assert_eq!(table, r#"[{"id":7}]"#);
}

#[tokio::test]
async fn what_a_transfer_cannot_do() {
    let places = Places::new();
    data(
        &places.toolbox,
        pg(&places.database, &query("CREATE TABLE t (id int)")),
    )
    .await;
    let source = || places.postgres(r#"{"query": "SELECT 1 AS id"}"#);
    let target = || places.postgres(r#"{"table": "t"}"#);
    let typed = |kind: &str| side(kind, ("table", "t"), "{}");
    for (call, kind) in [
        (
            transfer(typed("duckdb"), target(), "{}"),
            TaskErrorKind::Unsupported,
        ),
        (
            transfer(source(), typed("snowflake"), "{}"),
            TaskErrorKind::Unsupported,
        ),
        (
            transfer(source(), typed("ftp"), "{}"),
            TaskErrorKind::Schema,
        ),
        (
            transfer(source(), target(), r#"{"mode": "merge"}"#),
            TaskErrorKind::Schema,
        ),
        (
            transfer(source(), target(), r#"{"chunk_size": 0}"#),
            TaskErrorKind::Schema,
        ),
        (
            transfer(source(), places.postgres(r#"{"table": "nowhere"}"#), "{}"),
            TaskErrorKind::DbError,
        ),
        (
            transfer(
                places.postgres(r#"{"query": "SELECT 1 AS other"}"#),
                target(),
                "{}",
            ),
            TaskErrorKind::Schema,
        ),
        (
            transfer(
                places.postgres(r#"{"query": "SELECT 'x' AS id"}"#),
                target(),
                "{}",
            ),
            TaskErrorKind::DbError,
        ),
    ] {
        let error = fault(&places.toolbox, call).await;
        assert_eq!(error.kind, kind, "{}", error.message);
    }
}
