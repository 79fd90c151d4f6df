//! String enums: enums with a fixed spelling for each variant, defined in one place.

/// Declares an enum whose variants each have one name, such as the keywords of the language.
///
/// Generates `ALL`, `WORDS`, `as_str`, `parse`, and the serde and JSON Schema implementations.
#[macro_export]
#[doc(hidden)]
macro_rules! string_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $keyword:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// All values, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// All keywords, in declaration order.
            pub const WORDS: &'static [&'static str] = &[$($keyword,)+];

            /// Returns the keyword.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $keyword,)+ }
            }

            /// Parses the exact keyword.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($keyword => Some(Self::$variant),)+ _ => None }
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
                let keyword = String::deserialize(deserializer)?;
                Self::parse(&keyword).ok_or_else(|| {
                    serde::de::Error::unknown_variant(&keyword, Self::WORDS)
                })
            }
        }

        impl $crate::schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }

        impl $crate::string_enum::StringEnum for $name {
            fn keywords() -> &'static [&'static str] {
                Self::WORDS
            }

            fn parse_keyword(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    };
}

/// A string enum, for code that is generic over all of them.
pub trait StringEnum: Sized {
    /// Returns all keywords.
    fn keywords() -> &'static [&'static str];

    /// Parses one keyword.
    fn parse_keyword(text: &str) -> Option<Self>;
}
