//! Typed access to the rendered config of a call.
//!
//! The checker has validated the playbook's text, but a template can still render a value of the
//! wrong shape. Such a value is an error of kind `schema` that names the key.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

/// Config with typed getters. A key whose value is null counts as absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config<'c>(pub(crate) &'c JsonMap);

impl<'c> Config<'c> {
    /// Returns the value of a key.
    pub(crate) fn get(self, key: &str) -> Option<&'c Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Returns the text of a key.
    pub(crate) fn text(self, key: &str) -> Result<Option<&'c str>, TaskError> {
        self.read_typed(key, "a text", Json::as_str)
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

    /// Returns the map of a key.
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
                scalar_text(value).map(|text| (name.to_string(), text)).ok_or_else(|| {
                    wrong_type(&format!("{key}.{name}"), "a text or a number", value)
                })
            })
            .collect()
    }

    /// Decodes the base64 text of a key.
    pub(crate) fn base64_text(self, key: &str) -> Result<Option<String>, TaskError> {
        let Some(encoded) = self.text(key)? else {
            return Ok(None);
        };
        let compact: String = encoded.split_whitespace().collect();
        let bytes = STANDARD
            .decode(compact)
            .map_err(|error| invalid_value(key, &format!("is not base64: {error}")))?;
        let text =
            String::from_utf8(bytes).map_err(|_| invalid_value(key, "is not UTF-8 in base64"))?;
        Ok(Some(text))
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

/// Error for a value whose type does not match its key.
pub(crate) fn wrong_type(key: &str, expected: &str, value: &Json) -> TaskError {
    let actual = value.type_name();
    TaskError::new(TaskErrorKind::Schema, format!("'{key}' must be {expected}, not {actual}"))
}

/// Error for a required key that is missing.
pub(crate) fn missing_key(subject: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Schema, format!("{subject} is missing"))
}

/// Error for a value that cannot be parsed.
pub(crate) fn invalid_value(key: &str, problem: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Parse, format!("'{key}' {problem}"))
}
