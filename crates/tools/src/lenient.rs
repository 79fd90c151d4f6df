//! JSON of others, made to fit the log.
//!
//! The log refuses NUL in texts, duplicate keys and deep nesting. What user code or a foreign server
//! sends should not fail for the first two, so they are mended here.

use noetl_types::json::parse;
use noetl_types::{Json, JsonMap};
use serde_json::Value;

/// Reads JSON. NUL becomes U+FFFD, and of equal keys the last one counts.
pub(crate) fn lenient_json(text: &[u8]) -> Result<Json, String> {
    match parse(text) {
        Ok(value) => Ok(value),
        Err(strict) => {
            let loose: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
            mended(loose, noetl_types::limits::MAX_JSON_DEPTH).ok_or_else(|| strict.to_string())
        }
    }
}

/// The value within a number of levels, if it fits.
fn mended(value: Value, levels: usize) -> Option<Json> {
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
            let items = items.into_iter().map(|item| mended(item, levels));
            Json::from(items.collect::<Option<Vec<Json>>>()?)
        }
        Value::Object(entries) => {
            let levels = levels.checked_sub(1)?;
            let entries = entries
                .into_iter()
                .map(|(key, value)| Some((key.into(), mended(value, levels)?)));
            Json::from(entries.collect::<Option<JsonMap>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_refuses_is_mended() {
        let read = |text: &str| lenient_json(text.as_bytes()).map(|value| value.to_string());
        assert_eq!(
            read(r#"{"a":"x\u0000y","b":1,"b":2}"#).unwrap(),
            "{\"a\":\"x\u{FFFD}y\",\"b\":2}"
        );
        assert!(read("{").is_err());
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(read(&deep).is_err());
        let fits = format!("{}\"\\u0000\"{}", "[".repeat(60), "]".repeat(60));
        assert!(read(&fits).is_ok());
    }
}
