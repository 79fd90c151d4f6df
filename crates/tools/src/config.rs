//! Typed access to the rendered config of a call.
//!
//! The checker has validated the playbook's text, but a template can still render a value of the
//! wrong shape. Such a value is an error of kind `schema` that names the key.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind, Text};

/// Config with typed getters. A key whose value is null counts as absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config<'c>(pub(crate) &'c JsonMap);

impl<'c> Config<'c> {
    pub(crate) fn get(self, key: &str) -> Option<&'c Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, key: &str) -> Result<Option<&'c str>, TaskError> {
        self.read_typed(key, "a text", Json::as_str)
    }

    /// Returns the text of the first key that has one.
    pub(crate) fn first_text(self, keys: &[&str]) -> Result<Option<&'c str>, TaskError> {
        keys.iter().find_map(|key| self.text(key).transpose()).transpose()
    }

    /// Returns the text of a key, which must not be empty.
    pub(crate) fn required_text(self, key: &str) -> Result<&'c str, TaskError> {
        let text = self.text(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| missing_key(&format!("'{key}'")))
    }

    /// Returns the integer of a key, within bounds. Also accepts a number that a template rendered
    /// as text.
    pub(crate) fn number(
        self,
        key: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, TaskError> {
        let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
        self.read_typed(key, &expected, |value| {
            let number = scalar_text(value).and_then(|text| text.trim().parse().ok());
            number.filter(|number| bounds.contains(number))
        })
    }

    pub(crate) fn duration(self, key: &str) -> Result<Option<Duration>, TaskError> {
        let duration = self.get(key).map(Millis::from_json).transpose();
        let duration = duration.map_err(|error| schema_error(format!("'{key}': {error}")))?;
        Ok(duration.map(Duration::from))
    }

    /// Returns the list of a key, which is empty if the key is absent.
    pub(crate) fn list(self, key: &str) -> Result<&'c [Json], TaskError> {
        Ok(self.read_typed(key, "a list", Json::as_list)?.unwrap_or_default())
    }

    /// Returns the bool of a key. Also accepts the texts `true` and `false` that a template
    /// rendered as text.
    pub(crate) fn flag(self, key: &str) -> Result<Option<bool>, TaskError> {
        self.read_typed(key, "true or false", |value| match value.as_str() {
            Some("true" | "True") => Some(true),
            Some("false" | "False") => Some(false),
            Some(_) | None => value.as_bool(),
        })
    }

    pub(crate) fn map(self, key: &str) -> Result<Option<&'c JsonMap>, TaskError> {
        self.read_typed(key, "a map", Json::as_map)
    }

    /// Returns the map of a key as names and texts. Scalars are converted to text, null values are
    /// omitted.
    pub(crate) fn text_map(self, key: &str) -> Result<BTreeMap<String, String>, TaskError> {
        let entries = self.map(key)?.into_iter().flatten();
        entries
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                Ok((name.to_string(), required_scalar(&format!("{key}.{name}"), value)?))
            })
            .collect()
    }

    fn read_typed<T>(
        self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'c Json) -> Option<T>,
    ) -> Result<Option<T>, TaskError> {
        self.get(key)
            .map(|value| read(value).ok_or_else(|| wrong_type(key, expected, value)))
            .transpose()
    }
}

/// Converts a scalar to the text that other programs expect. Returns `None` for lists, maps and
/// null.
pub(crate) fn scalar_text(value: &Json) -> Option<String> {
    match value {
        Json::Str(text) => Some(text.to_string()),
        Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => Some(value.to_string()),
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

/// Converts a scalar as [`scalar_text`] does. Any other value is an error.
pub(crate) fn required_scalar(key: &str, value: &Json) -> Result<String, TaskError> {
    scalar_text(value).ok_or_else(|| wrong_type(key, "a text or a number", value))
}

/// Decodes base64, which may contain whitespace.
pub(crate) fn decode_base64(encoded: &str) -> Result<Vec<u8>, DecodeError> {
    let compact: String = encoded.split_whitespace().collect();
    STANDARD.decode(compact)
}

/// Decodes the base64 text of a key.
pub(crate) fn decode_base64_text(key: &str, encoded: &str) -> Result<String, TaskError> {
    let bytes = decode_base64(encoded)
        .map_err(|error| invalid_value(key, &format!("is not base64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| invalid_value(key, "is not UTF-8 in base64"))
}

/// Decodes the base64 value of a key into bytes.
pub(crate) fn decode_base64_bytes(key: &str, value: &Json) -> Result<Vec<u8>, TaskError> {
    let bytes = value.as_str().and_then(|encoded| decode_base64(encoded).ok());
    bytes.ok_or_else(|| wrong_type(key, "base64-encoded bytes", value))
}

/// Error for a config that is wrong.
pub(crate) fn schema_error(message: impl Into<Text>) -> TaskError {
    TaskError::new(TaskErrorKind::Schema, message)
}

pub(crate) fn add_error_details(
    error: &mut TaskError,
    entries: impl IntoIterator<Item = (Arc<str>, Json)>,
) {
    let details = error.details.take();
    let mut details = details.as_ref().and_then(Json::as_map).cloned().unwrap_or_default();
    details.extend(entries);
    error.details = Some(details.into());
}

/// Error for a value whose type does not match its key.
pub(crate) fn wrong_type(key: &str, expected: &str, value: &Json) -> TaskError {
    schema_error(format!("'{key}' must be {expected}, not {}", value.type_name()))
}

/// Error for a required key that is missing.
pub(crate) fn missing_key(subject: &str) -> TaskError {
    schema_error(format!("{subject} is missing"))
}

/// Error for a value that cannot be parsed.
pub(crate) fn invalid_value(key: &str, problem: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Parse, format!("'{key}' {problem}"))
}
