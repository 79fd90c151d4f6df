//! Reading the rendered config of a call.
//!
//! The checker has looked at the playbook's text, but a template can still give a value of the wrong
//! shape; such a value is an error of kind `schema` that names the key.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

/// A config with its typed getters. A key whose value is null counts as absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config<'c>(pub(crate) &'c JsonMap);

impl<'c> Config<'c> {
    /// The value of a key.
    pub(crate) fn get(self, key: &str) -> Option<&'c Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The text of a key.
    pub(crate) fn text(self, key: &str) -> Result<Option<&'c str>, TaskError> {
        self.typed(key, "a text", Json::as_str)
    }

    /// The bool of a key; the words of a template that rendered to text count too.
    pub(crate) fn flag(self, key: &str) -> Result<Option<bool>, TaskError> {
        self.typed(key, "true or false", |value| match value.as_str() {
            Some("true" | "True") => Some(true),
            Some("false" | "False") => Some(false),
            Some(_) | None => value.as_bool(),
        })
    }

    /// The map of a key.
    pub(crate) fn map(self, key: &str) -> Result<Option<&'c JsonMap>, TaskError> {
        self.typed(key, "a map", Json::as_map)
    }

    /// The map of a key as names and texts: scalars are printed, null is left out.
    pub(crate) fn texts(self, key: &str) -> Result<BTreeMap<String, String>, TaskError> {
        let entries = self.map(key)?.into_iter().flatten();
        entries
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                printed(value)
                    .map(|text| (name.to_string(), text))
                    .ok_or_else(|| wrong(&format!("{key}.{name}"), "a text or a number", value))
            })
            .collect()
    }

    /// The text behind the base64 text of a key.
    pub(crate) fn base64_text(self, key: &str) -> Result<Option<String>, TaskError> {
        let Some(encoded) = self.text(key)? else {
            return Ok(None);
        };
        let packed: String = encoded.split_whitespace().collect();
        let bytes = STANDARD
            .decode(packed)
            .map_err(|error| unreadable(key, &format!("is not base64: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(key, "does not hold UTF-8"))?;
        Ok(Some(text))
    }

    fn typed<T>(
        self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'c Json) -> Option<T>,
    ) -> Result<Option<T>, TaskError> {
        self.get(key)
            .map(|value| read(value).ok_or_else(|| wrong(key, expected, value)))
            .transpose()
    }
}

/// A scalar as the text that other programs expect; `None` for lists, maps and null.
pub(crate) fn printed(value: &Json) -> Option<String> {
    match value {
        Json::Str(text) => Some(text.to_string()),
        Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => Some(value.to_string()),
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

/// The error of a value that has another shape than its key wants.
pub(crate) fn wrong(key: &str, expected: &str, value: &Json) -> TaskError {
    let found = value.type_name();
    TaskError::new(
        TaskErrorKind::Schema,
        format!("'{key}' must be {expected}, not {found}"),
    )
}

/// The error of a key that has to be there.
pub(crate) fn missing(what: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Schema, format!("{what} is missing"))
}

/// The error of a value that cannot be read.
pub(crate) fn unreadable(key: &str, why: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Parse, format!("'{key}' {why}"))
}
