//! The statements of a task, from whichever key holds them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, TaskError};

use crate::config::{Config, missing, unreadable, wrong};
use crate::source::Sources;

/// Keys that hold SQL; each has a twin with `_b64` behind its name. The first that is given counts.
const KEYS: [(&str, &str); 5] = [
    ("command", "command_b64"),
    ("query", "query_b64"),
    ("commands", "commands_b64"),
    ("queries", "queries_b64"),
    ("cmd", "cmd_b64"),
];

/// Texts that hold any number of statements each, to be run in order.
pub(crate) type Texts = Vec<String>;

/// The SQL of a task.
pub(crate) async fn texts(config: Config<'_>, sources: &Sources) -> Result<Texts, TaskError> {
    for (plain, _) in KEYS {
        if let Some(value) = config.get(plain) {
            return listed(plain, value);
        }
    }
    for (_, encoded) in KEYS {
        if let Some(value) = config.get(encoded) {
            let texts = listed(encoded, value)?;
            return texts.iter().map(|text| decoded(encoded, text)).collect();
        }
    }
    match config.map("script")? {
        Some(script) => Ok(vec![sources.read(Config(script)).await?.text]),
        None => Err(missing("SQL in 'command', 'query', 'commands' or 'script'")),
    }
}

/// The text of a key, or the texts of its list.
fn listed(key: &str, value: &Json) -> Result<Texts, TaskError> {
    let text = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong(key, "a text or a list of texts", item))
    };
    match value.as_list() {
        Some(items) => items.iter().map(text).collect(),
        None => Ok(vec![text(value)?]),
    }
}

fn decoded(key: &str, text: &str) -> Result<String, TaskError> {
    let packed: String = text.split_whitespace().collect();
    let bytes = STANDARD
        .decode(packed)
        .map_err(|error| unreadable(key, &format!("is not base64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| unreadable(key, "does not hold UTF-8"))
}
