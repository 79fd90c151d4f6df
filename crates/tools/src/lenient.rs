//! Lenient parsing of JSON from other programs, so that the event log accepts it.
//!
//! The event log rejects NUL in texts, duplicate keys and deep nesting. Output of user code or of a
//! foreign server should not fail because of the first two, so they are repaired here.

use noetl_types::json::parse;
use noetl_types::{Json, JsonMap};
use serde_json::Value;

/// Parses JSON. NUL becomes U+FFFD, and the last of several equal keys is used.
pub(crate) fn lenient_json(text: &[u8]) -> Result<Json, String> {
    match parse(text) {
        Ok(value) => Ok(value),
        Err(strict_error) => {
            let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
            sanitize_value(value, noetl_types::limits::MAX_JSON_DEPTH)
                .ok_or_else(|| strict_error.to_string())
        }
    }
}

/// Converts a value, or returns `None` if it is nested deeper than `levels`.
fn sanitize_value(value: Value, levels: usize) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Json::from(number),
            (None, Some(number), _) => Json::from(number),
            (None, None, Some(number)) => Json::from_f64(number).ok()?,
            (None, None, None) => return None,
        },
        Value::String(text) => Json::from(text),
        Value::Array(items) => {
            let levels = levels.checked_sub(1)?;
            let items = items.into_iter().map(|item| sanitize_value(item, levels));
            Json::from(items.collect::<Option<Vec<Json>>>()?)
        }
        Value::Object(entries) => {
            let levels = levels.checked_sub(1)?;
            let entries = entries
                .into_iter()
                .map(|(key, value)| Some((key.into(), sanitize_value(value, levels)?)));
            Json::from(entries.collect::<Option<JsonMap>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
