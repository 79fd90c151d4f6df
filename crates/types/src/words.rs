//! Enums of words: every variant has exactly one spelling.
//!
//! Owns the macro that ties an enum to its texts, and the error for a text that is none of them.
//! Statuses, event types and error codes are all made here, so no second spelling can grow
//! anywhere.

use crate::text::excerpt;

/// A text that is not one of the words of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not {what}")]
pub struct UnknownWord {
    /// The vocabulary with its article, such as `an event type`.
    pub what: &'static str,
    /// The text, shortened where it is long.
    pub word: String,
}

impl UnknownWord {
    pub(crate) fn new(what: &'static str, word: &str) -> Self {
        Self {
            what,
            word: excerpt(word),
        }
    }
}

/// Declares an enum whose every variant has exactly one spelling.
///
/// The text after the name says, with its article, what one of the words is.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($what:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`")]
                ///
                $(#[$variant_meta])*
                $variant,
            )+
        }

        impl $name {
            /// Every word, in the order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The one spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }

            /// Reads the one spelling.
            pub fn parse(text: &str) -> Result<Self, $crate::words::UnknownWord> {
                match text {
                    $( $text => Ok(Self::$variant), )+
                    unknown => Err($crate::words::UnknownWord::new($what, unknown)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::deserialize(deserializer, $what, Self::parse)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::schema::words(Self::ALL.iter().map(|word| word.as_str()))
            }
        }
    };
}

pub(crate) use words;
