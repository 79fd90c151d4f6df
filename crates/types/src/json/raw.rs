//! Access to fields of a JSON value without parsing all of it.
//!
//! A caller that needs a few fields of a long text skips the rest: nothing is copied, and no tree
//! is built.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::de::parse_str;
use super::value::Json;

/// Reference to a JSON value, parsed or as text.
#[derive(Debug, Clone, Copy)]
pub enum JsonRef<'j> {
    /// A parsed value.
    Tree(&'j Json),
    /// The text of a value.
    Text(&'j str),
}

/// Error for a text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not JSON")]
pub struct InvalidJson;

impl<'j> JsonRef<'j> {
    /// Returns the parsed value.
    pub fn to_json(self) -> Result<Json, InvalidJson> {
        match self {
            Self::Tree(value) => Ok(value.clone()),
            Self::Text(text) => parse_str(text).map_err(|_| InvalidJson),
        }
    }

    /// Calls a function for every field of an object. Other values have no fields.
    pub fn for_each_field(self, mut visit: impl FnMut(&str, Self)) -> Result<(), InvalidJson> {
        match self {
            Self::Tree(value) => {
                for (key, value) in value.as_map().into_iter().flatten() {
                    visit(key, Self::Tree(value));
                }
                Ok(())
            }
            Self::Text(text) if text.trim_start().starts_with('{') => {
                let mut deserializer = serde_json::Deserializer::from_str(text);
                let visited = deserializer.deserialize_map(FieldVisitor(visit));
                visited.and_then(|()| deserializer.end()).map_err(|_| InvalidJson)
            }
            Self::Text(_) => self.to_json().map(drop),
        }
    }

    /// Returns the value of a key if this is an object that has it.
    pub fn get(self, key: &str) -> Result<Option<Self>, InvalidJson> {
        if let Self::Tree(value) = self {
            return Ok(value.get(key).map(Self::Tree));
        }
        let mut found = None;
        self.for_each_field(|name, value| {
            if name == key {
                found = Some(value);
            }
        })?;
        Ok(found)
    }

    /// True if this is `null`.
    pub fn is_null(self) -> bool {
        match self {
            Self::Tree(value) => value.is_null(),
            Self::Text(text) => text == "null",
        }
    }

    /// True if this is an object.
    pub fn is_map(self) -> bool {
        match self {
            Self::Tree(value) => value.as_map().is_some(),
            Self::Text(text) => text.starts_with('{'),
        }
    }

    /// Returns a name or an id, which logs store as strings or integers.
    pub fn as_name_or_id(self) -> Option<Cow<'j, str>> {
        match self {
            Self::Tree(Json::Str(text)) => (!text.is_empty()).then_some(Cow::Borrowed(&**text)),
            Self::Tree(Json::Int(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(Json::UInt(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(_) => None,
            Self::Text(text) => match classify_scalar(text) {
                ScalarText::Str(inner) => (!inner.is_empty()).then_some(Cow::Borrowed(inner)),
                ScalarText::Digits(digits) => Some(Cow::Borrowed(digits)),
                ScalarText::Unread => {
                    let value = parse_str(text).ok()?;
                    let name = JsonRef::Tree(&value).as_name_or_id()?;
                    Some(Cow::Owned(name.into_owned()))
                }
                ScalarText::Other => None,
            },
        }
    }

    /// Returns a count, which logs store as integers or strings of digits.
    pub fn as_count(self) -> Option<i64> {
        match self {
            Self::Tree(value) => value.as_i64().or_else(|| value.as_str()?.parse().ok()),
            Self::Text(text) => match classify_scalar(text) {
                ScalarText::Str(inner) => inner.parse().ok(),
                ScalarText::Digits(digits) => digits.parse().ok(),
                ScalarText::Unread => JsonRef::Tree(&parse_str(text).ok()?).as_count(),
                ScalarText::Other => None,
            },
        }
    }
}

/// Classification of the text of a scalar value, found without parsing it.
enum ScalarText<'j> {
    /// A string without escapes.
    Str(&'j str),
    /// An integer in its shortest form.
    Digits(&'j str),
    /// A string or a number that must be parsed.
    Unread,
    /// Any other value.
    Other,
}

fn classify_scalar(text: &str) -> ScalarText<'_> {
    let bytes = text.as_bytes();
    match bytes {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
            ScalarText::Str(text.get(1..text.len() - 1).unwrap_or_default())
        }
        // Numbers of nineteen or more digits may not fit.
        [b'1'..=b'9', ..] if bytes.len() < 19 && bytes.iter().all(u8::is_ascii_digit) => {
            ScalarText::Digits(text)
        }
        [b'"' | b'-' | b'0'..=b'9', ..] => ScalarText::Unread,
        _ => ScalarText::Other,
    }
}

/// Visits the fields of an object.
struct FieldVisitor<F>(F);

/// A key, borrowed from the text unless it has escapes.
#[derive(Deserialize)]
struct FieldName<'j>(#[serde(borrow)] Cow<'j, str>);

impl<'j, F: FnMut(&str, JsonRef<'j>)> Visitor<'j> for FieldVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(mut self, mut fields: A) -> Result<(), A::Error> {
        while let Some(FieldName(name)) = fields.next_key()? {
            let value: &'j RawValue = fields.next_value()?;
            (self.0)(&name, JsonRef::Text(value.get()));
        }
        Ok(())
    }
}
