//! Enums in which every variant has exactly one text form.
//!
//! Owns the macro that declares such an enum, and the error for a text that matches no variant.
//! Statuses, event types and error codes are declared with it, so that each has a single spelling.

use crate::text::excerpt;

/// Error for a text that matches no variant of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not {what}")]
pub struct UnknownValueError {
    /// Description of the enum with its article, such as `an event type`.
    pub what: &'static str,
    /// The text, shortened if long.
    pub word: String,
}

impl UnknownValueError {
    /// Creates the error for a text.
    pub fn new(what: &'static str, word: &str) -> Self {
        Self { what, word: excerpt(word) }
    }
}

/// Declares an enum in which every variant has exactly one text form.
///
/// The literal after the name describes a value, with its article, for error messages.
#[macro_export]
macro_rules! text_enum {
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
            /// All values, in the order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// Returns the text form.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }

            /// Parses the text form.
            pub fn parse(text: &str) -> Result<Self, $crate::string_enum::UnknownValueError> {
                match text {
                    $( $text => Ok(Self::$variant), )+
                    unknown => Err($crate::string_enum::UnknownValueError::new($what, unknown)),
                }
            }
        }
    };
}

/// Declares a [`text_enum`] whose serde form is the text.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($what:literal) { $($variants:tt)+ }
    ) => {
        $crate::text_enum! {
            $(#[$meta])*
            pub enum $name ($what) { $($variants)+ }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::string_enum::UnknownValueError;

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
                $crate::schema::enum_schema(Self::ALL.iter().map(|value| value.as_str()))
            }
        }
    };
}

pub(crate) use string_enum;
