//! Deserialization of JSON text and serde input into [`Json`]. Rejects values that the log cannot
//! store.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};
use serde::{Deserialize, Serialize};

use super::value::{Json, JsonMap, JsonValueError};
use crate::limits::MAX_JSON_DEPTH;

/// Error for a text that is not acceptable JSON.
#[derive(Debug, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct JsonParseError {
    /// Message without the position.
    pub message: String,
    /// Line, from 1; 0 if unknown.
    pub line: usize,
    /// Column, from 1; 0 if unknown.
    pub column: usize,
}

/// Parses JSON from bytes.
pub fn parse(text: &[u8]) -> Result<Json, JsonParseError> {
    serde_json::from_slice(text).map_err(|error| to_parse_error(&error))
}

/// Parses JSON from a string.
pub fn parse_str(text: &str) -> Result<Json, JsonParseError> {
    serde_json::from_str(text).map_err(|error| to_parse_error(&error))
}

fn to_parse_error(error: &serde_json::Error) -> JsonParseError {
    JsonParseError {
        message: without_position(&error.to_string()),
        line: error.line(),
        column: error.column(),
    }
}

fn without_position(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(head, _)| head).to_owned()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueSeed { depth: 0 }.deserialize(deserializer)
    }
}

/// Deserializes one value at a given depth, so that nesting is limited for every input format.
#[derive(Clone, Copy)]
struct ValueSeed {
    depth: usize,
}

impl ValueSeed {
    fn enter_nested<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_JSON_DEPTH {
            return Err(E::custom(JsonValueError::TooDeep));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        Json::from_f64(value).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Json, E> {
        Json::text(value).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let seed = self.enter_nested()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(seed)? {
            items.push(item);
        }
        Ok(Json::from(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let seed = self.enter_nested()?;
        let mut map = JsonMap::new();
        while let Some(key) = access.next_key_seed(KeySeed)? {
            let value = access.next_value_seed(seed)?;
            if map.insert(Arc::clone(&key), value).is_some() {
                return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
            }
        }
        Ok(Json::from(map))
    }
}

/// Deserializes a key directly into its shared string, without an intermediate copy.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Arc<str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Arc<str>, E> {
        if key.contains('\0') {
            return Err(E::custom(JsonValueError::Nul));
        }
        Ok(key.into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::UInt(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Str(value) => serializer.serialize_str(value),
            Self::List(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items.iter() {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Map(map) => {
                let mut object = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map.iter() {
                    object.serialize_entry(&**key, value)?;
                }
                object.end()
            }
        }
    }
}
