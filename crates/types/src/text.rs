//! Text that the log can hold, and the small helpers that every textual type shares.
//!
//! Owns [`Text`]. A `Text` never holds NUL, which not every database can store: one such character
//! in one event must not fail a whole group of appends, so it is stopped where the text is made.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::json::{CanonicalWriter, Json, WriteCanonical};

/// A shared text without NUL; a clone costs a reference count.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

/// The text holds NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("text contains a NUL character")]
pub struct HoldsNul;

impl Text {
    /// The text as it is, or a refusal when it holds NUL.
    pub fn new(value: impl Into<Arc<str>>) -> Result<Self, HoldsNul> {
        let value = value.into();
        if value.contains('\0') {
            return Err(HoldsNul);
        }
        Ok(Self(value))
    }

    /// The text with U+FFFD in place of every NUL.
    ///
    /// For messages that must be recorded whatever they hold, such as what a failed tool printed.
    pub fn lossy(value: &str) -> Self {
        if value.contains('\0') {
            Self(value.replace('\0', "\u{FFFD}").into())
        } else {
            Self(value.into())
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text itself.
    pub fn into_shared(self) -> Arc<str> {
        self.0
    }

    /// Wraps a text that is known to be free of NUL.
    pub(crate) fn trusted(value: Arc<str>) -> Self {
        debug_assert!(!value.contains('\0'), "trusted text holds NUL");
        Self(value)
    }
}

/// NUL becomes U+FFFD; use [`Text::new`] where a refusal is wanted.
impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::lossy(value)
    }
}

/// NUL becomes U+FFFD; use [`Text::new`] where a refusal is wanted.
impl From<String> for Text {
    fn from(value: String) -> Self {
        Self::lossy(&value)
    }
}

impl From<Text> for Json {
    fn from(value: Text) -> Self {
        Self::Str(value.0)
    }
}

impl From<&Text> for Json {
    fn from(value: &Text) -> Self {
        Self::Str(Arc::clone(&value.0))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl WriteCanonical for Text {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.text(self);
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Arc::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// At most 64 characters of a text, for messages about it.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Reads a value from its text form without allocating the text.
pub(crate) fn deserialize<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_str(TextVisitor {
        expected,
        parse,
        value: PhantomData,
    })
}

struct TextVisitor<T, P> {
    expected: &'static str,
    parse: P,
    value: PhantomData<T>,
}

impl<T, E, P> Visitor<'_> for TextVisitor<T, P>
where
    E: fmt::Display,
    P: FnOnce(&str) -> Result<T, E>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<D: serde::de::Error>(self, text: &str) -> Result<T, D> {
        (self.parse)(text).map_err(D::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_refused_or_replaced() {
        assert_eq!(Text::new("a\0b"), Err(HoldsNul));
        assert_eq!(Text::lossy("a\0b"), "a\u{FFFD}b");
        assert!(serde_json::from_str::<Text>(r#""a\u0000b""#).is_err());
    }

    #[test]
    fn json_form_is_the_text() {
        let text: Text = serde_json::from_str(r#""söm€""#).unwrap();
        assert_eq!(text, "söm€");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""söm€""#);
    }

    #[test]
    fn excerpts_cut_characters_not_bytes() {
        assert_eq!(excerpt("short"), "short");
        let cut = excerpt(&"ü".repeat(100));
        assert_eq!(cut, format!("{}…", "ü".repeat(64)));
    }
}
