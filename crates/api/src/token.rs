//! Lease tokens.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A secret of 16 bytes that proves a lease on a command. 32 hexadecimal digits on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken([u8; Self::LEN]);

impl LeaseToken {
    /// Number of bytes.
    pub const LEN: usize = 16;

    /// Wraps bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hex =
            text.len() == 2 * Self::LEN && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }
}

/// A token is a secret, so its value is not printed.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

impl Serialize for LeaseToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(self.0)))
    }
}

impl<'de> Deserialize<'de> for LeaseToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("a lease token has 32 hexadecimal digits"))
    }
}

impl JsonSchema for LeaseToken {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LeaseToken".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{32}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_round_trips_and_is_hidden_in_debug() {
        let token = LeaseToken::from_bytes([7; 16]);
        let text = serde_json::to_string(&token).unwrap();
        assert_eq!(text.len(), 34);
        assert_eq!(serde_json::from_str::<LeaseToken>(&text).unwrap(), token);
        assert_eq!(format!("{token:?}"), "LeaseToken(..)");
    }

    #[test]
    fn rejects_invalid_token() {
        for text in ["\"\"", "\"07\"", "7", "\"+7070707070707070707070707070707\""] {
            assert!(serde_json::from_str::<LeaseToken>(text).is_err(), "{text}");
        }
    }
}
