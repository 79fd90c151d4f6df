//! Reads the SQL of a task from any of the keys that may hold it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, TaskError};

use crate::config::{Config, invalid_value, missing_key, wrong_type};
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

/// Texts with any number of statements each, to be run in order.
pub(crate) type SqlTexts = Vec<String>;

/// Reads the SQL of a task.
pub(crate) async fn read_sql_texts(
    config: Config<'_>,
    sources: &ScriptLoader,
) -> Result<SqlTexts, TaskError> {
    for (plain, _) in SQL_KEYS {
        if let Some(value) = config.get(plain) {
            return read_text_list(plain, value);
        }
    }
    for (_, encoded) in SQL_KEYS {
        if let Some(value) = config.get(encoded) {
            let texts = read_text_list(encoded, value)?;
            return texts.iter().map(|text| decode_base64_sql(encoded, text)).collect();
        }
    }
    match config.map("script")? {
        Some(script) => Ok(vec![sources.load_script(Config(script)).await?.text]),
        None => Err(missing_key("SQL in 'command', 'query', 'commands' or 'script'")),
    }
}

/// Returns the text of a key, or the texts of its list.
fn read_text_list(key: &str, value: &Json) -> Result<SqlTexts, TaskError> {
    let text = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type(key, "a text or a list of texts", item))
    };
    match value.as_list() {
        Some(items) => items.iter().map(text).collect(),
        None => Ok(vec![text(value)?]),
    }
}

fn decode_base64_sql(key: &str, text: &str) -> Result<String, TaskError> {
    let compact: String = text.split_whitespace().collect();
    let bytes = STANDARD
        .decode(compact)
        .map_err(|error| invalid_value(key, &format!("is not base64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| invalid_value(key, "is not UTF-8 in base64"))
}
