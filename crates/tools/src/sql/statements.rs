//! Reads the SQL of a task from any of the keys that may hold it.

use noetl_playbook::sql::split_rendered;
use noetl_types::{Json, TaskError};

use super::RowShape;
use crate::config::{Config, decode_base64_text, missing_key, schema_error, wrong_type};
use crate::script_source::ScriptLoader;

/// Keys that hold SQL, each with a variant whose name ends in `_b64`. The first one that is given
/// is used.
const SQL_KEYS: [(&str, &str); 5] = [
    ("command", "command_b64"),
    ("query", "query_b64"),
    ("commands", "commands_b64"),
    ("queries", "queries_b64"),
    ("cmd", "cmd_b64"),
];

/// SQL of a task and how it is run.
pub(crate) struct SqlBatch {
    /// Texts with any number of statements each, to be run in order.
    pub(crate) texts: Vec<String>,
    /// Number of statements in all texts.
    pub(crate) statement_count: usize,
    pub(crate) shape: RowShape,
    pub(crate) in_transaction: bool,
}

impl SqlBatch {
    pub(crate) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
    ) -> Result<Self, TaskError> {
        let texts = read_sql_texts(config, sources).await?;
        let statement_count = texts.iter().map(|text| split_rendered(text).len()).sum();
        let has_params = match config.get("params") {
            Some(Json::List(params)) => !params.is_empty(),
            Some(Json::Map(params)) => !params.is_empty(),
            Some(_) | None => false,
        };
        if statement_count == 0 {
            return Err(missing_key("an SQL statement"));
        }
        if has_params && statement_count > 1 {
            return Err(schema_error(format!(
                "'params' requires a single statement, but the task has {statement_count}"
            )));
        }
        let as_objects = config.flag("as_objects")?.unwrap_or(true);
        Ok(Self {
            texts,
            statement_count,
            shape: if as_objects { RowShape::Objects } else { RowShape::Lists },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
        })
    }
}

async fn read_sql_texts(
    config: Config<'_>,
    sources: &ScriptLoader,
) -> Result<Vec<String>, TaskError> {
    for (plain, _) in SQL_KEYS {
        if let Some(value) = config.get(plain) {
            return read_text_list(plain, value);
        }
    }
    for (_, encoded) in SQL_KEYS {
        if let Some(value) = config.get(encoded) {
            let texts = read_text_list(encoded, value)?;
            return texts.iter().map(|text| decode_base64_text(encoded, text)).collect();
        }
    }
    match config.map("script")? {
        Some(script) => Ok(vec![sources.load_script(Config(script)).await?.text]),
        None => Err(missing_key("SQL in 'command', 'query', 'commands' or 'script'")),
    }
}

/// Returns the text of a key, or the texts of its list.
fn read_text_list(key: &str, value: &Json) -> Result<Vec<String>, TaskError> {
    let text = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type(key, "a text or a list of texts", item))
    };
    match value.as_list() {
        Some(items) => items.iter().map(text).collect(),
        None => Ok(vec![text(value)?]),
    }
}
