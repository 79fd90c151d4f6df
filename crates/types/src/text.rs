//! Text that the log can store, and shared helpers of textual types.
//!
//! Owns [`Text`]. A `Text` never contains NUL, which not every database can store. One such
//! character in one event must not fail a whole group of appends, so it is rejected when the text
//! is created.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};

use crate::json::Json;

/// A shared string without NUL. A clone costs a reference count.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

/// Error for a text that contains NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("text contains a NUL character")]
pub struct ContainsNul;

impl Text {
    /// Wraps a string; an error if it contains NUL.
    pub fn new(value: impl Into<Arc<str>>) -> Result<Self, ContainsNul> {
        let value = value.into();
        if value.contains('\0') {
            return Err(ContainsNul);
        }
        Ok(Self(value))
    }

    /// Wraps a string, with U+FFFD in place of every NUL.
    ///
    /// For messages that must be recorded in any case, such as the output of a failed tool.
    pub fn from_lossy(value: &str) -> Self {
        if value.contains('\0') {
            Self(value.replace('\0', "\u{FFFD}").into())
        } else {
            Self(value.into())
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the shared string.
    pub fn into_shared(self) -> Arc<str> {
        self.0
    }

    /// Wraps a string that is known not to contain NUL.
    pub(crate) fn from_trusted(value: Arc<str>) -> Self {
        debug_assert!(!value.contains('\0'), "trusted text holds NUL");
        Self(value)
    }
}

/// Replaces NUL with U+FFFD. Use [`Text::new`] to get an error instead.
impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::from_lossy(value)
    }
}

/// Replaces NUL with U+FFFD. Use [`Text::new`] to get an error instead.
impl From<String> for Text {
    fn from(value: String) -> Self {
        Self::from_lossy(&value)
    }
}

impl From<Text> for Json {
    fn from(value: Text) -> Self {
        Self::Str(value.0)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Implements the traits of a type that wraps a shared string without NUL.
macro_rules! string_newtype {
    ($name:ident) => {
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<&$name> for crate::json::Json {
            fn from(value: &$name) -> Self {
                Self::Str(std::sync::Arc::clone(&value.0))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

pub(crate) use string_newtype;

string_newtype!(Text);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Arc::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Implements `Display` as the display of the inner value, and `Debug` with the name of the type.
macro_rules! display_inner {
    ($($name:ident),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )+};
}

pub(crate) use display_inner;

/// Returns at most 64 characters of a text, for error messages.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 64;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Deserializes a value from its text form without allocating the text.
pub(crate) fn deserialize<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_str(TextVisitor { expected, parse, value: PhantomData })
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
mod tests;
