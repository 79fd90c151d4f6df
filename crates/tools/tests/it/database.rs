//! Test databases for SQL tools: calls, and polling.

use noetl_testkit::postgres::TestDatabase;
use noetl_tools::{ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, JsonMap, TaskError};

use crate::support::{parse_json, run_call, test_settings, tool_call};

pub(crate) fn test_database() -> TestDatabase {
    TestDatabase::new().unwrap()
}

/// Builds a call from the key and the location of the database, and more keys as JSON.
fn database_call(kind: ToolKind, key: &str, location: &str, keys: &str) -> ToolCall {
    let mut config: JsonMap = parse_json(keys).as_map().unwrap().clone();
    config.insert(key.into(), Json::from(location));
    tool_call(kind, &config.into())
}

pub(crate) fn postgres_call(database: &TestDatabase, keys: &str) -> ToolCall {
    let location = database.connection_config();
    database_call(ToolKind::Postgres, "connection_string", &location, keys)
}

pub(crate) fn sqlite_call(file: &str, keys: &str) -> ToolCall {
    database_call(ToolKind::Sqlite, "database", file, keys)
}

pub(crate) fn query_config(text: &str) -> String {
    Json::object([("query", Json::from(text))]).to_string()
}

pub(crate) fn query_config_with_params(text: &str, params: &str) -> String {
    Json::object([("query", Json::from(text)), ("params", parse_json(params))]).to_string()
}

/// Returns the rows of a call that must succeed, as text.
pub(crate) async fn run_rows(toolbox: &Toolbox, call: ToolCall) -> String {
    let outcome = run_call(toolbox, call).await;
    assert_eq!(outcome.error, None);
    let rows = outcome.data.get("rows");
    rows.unwrap_or_else(|| panic!("no rows in {}", outcome.data)).to_string()
}

/// Returns the error of a call that must fail.
pub(crate) async fn run_error(toolbox: &Toolbox, call: ToolCall) -> TaskError {
    let outcome = run_call(toolbox, call).await;
    outcome.error.unwrap_or_else(|| panic!("the call succeeded: {}", outcome.data))
}

/// Waits until a query returns these rows.
pub(crate) async fn wait_for_rows(database: &TestDatabase, text: &str, expected: &str) {
    let toolbox = Toolbox::new(test_settings());
    let wait = async {
        while run_rows(&toolbox, postgres_call(database, &query_config(text))).await != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "never {expected} from {text}");
}
