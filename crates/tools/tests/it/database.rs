//! Databases for the tests of SQL tools: calls on them, and waiting for what they show.

use noetl_testkit::postgres::Database;
use noetl_tools::{Call, ToolKind, Toolbox};
use noetl_types::{Json, JsonMap, TaskError};

use crate::support::{call, run, settings, value};

pub(crate) fn database() -> Database {
    Database::new().unwrap()
}

/// A call of a kind: the keys that name the database, and more keys as JSON.
fn on(kind: ToolKind, place: (&str, &str), keys: &str) -> Call {
    let mut config: JsonMap = value(keys).as_map().unwrap().clone();
    config.insert(place.0.into(), Json::from(place.1));
    call(kind, &config.into())
}

pub(crate) fn pg(database: &Database, keys: &str) -> Call {
    let place = ("connection_string", database.config());
    on(ToolKind::Postgres, (place.0, &place.1), keys)
}

pub(crate) fn sqlite(file: &str, keys: &str) -> Call {
    on(ToolKind::Sqlite, ("database", file), keys)
}

/// Keys of a single query.
pub(crate) fn query(text: &str) -> String {
    Json::object([("query", Json::from(text))]).to_string()
}

/// Keys of a query with parameters.
pub(crate) fn with(text: &str, params: &str) -> String {
    Json::object([("query", Json::from(text)), ("params", value(params))]).to_string()
}

/// The rows of a call that must go well, as text.
pub(crate) async fn rows(toolbox: &Toolbox, call: Call) -> String {
    let outcome = run(toolbox, call).await;
    assert_eq!(outcome.error, None);
    let rows = outcome.data.get("rows");
    rows.unwrap_or_else(|| panic!("no rows in {}", outcome.data))
        .to_string()
}

/// The error of a call that must fail.
pub(crate) async fn fault(toolbox: &Toolbox, call: Call) -> TaskError {
    let outcome = run(toolbox, call).await;
    outcome
        .error
        .unwrap_or_else(|| panic!("it went well: {}", outcome.data))
}

/// Waits until a query gives these rows.
pub(crate) async fn until_rows(database: &Database, text: &str, expected: &str) {
    let toolbox = Toolbox::new(settings());
    let wait = async {
        while rows(&toolbox, pg(database, &query(text))).await != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "never {expected} from {text}");
}
