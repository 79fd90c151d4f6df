//! Closed sets of words: one spelling each, in one place.

/// Declares an enum whose variants are words of the language.
///
/// Gives it `WORDS`, `as_str`, `parse`, and the serde and JSON Schema forms.
#[macro_export]
#[doc(hidden)]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every word, in the order of the language.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The one spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Reads the one spelling.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                Self::parse(&word).ok_or_else(|| {
                    serde::de::Error::unknown_variant(&word, Self::WORDS)
                })
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }

        impl $crate::words::Word for $name {
            fn words() -> &'static [&'static str] {
                Self::WORDS
            }

            fn from_word(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    };
}

/// A closed set of words, for code that reads any of them.
pub trait Word: Sized {
    /// Every word.
    fn words() -> &'static [&'static str];

    /// Reads one.
    fn from_word(text: &str) -> Option<Self>;
}
