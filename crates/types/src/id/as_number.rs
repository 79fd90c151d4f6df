//! Ids as JSON numbers, for wire formats whose clients expect numbers.
//!
//! Everywhere else an id is a string, because JavaScript rounds numbers above 2^53. Deserialization
//! accepts both.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::kinds::TypedId;
use super::snowflake::Snowflake;
use crate::json::{CanonicalWriter, WriteCanonical};

/// An id that is written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdNumber<T>(pub T);

impl<T: TypedId> From<T> for IdNumber<T> {
    fn from(id: T) -> Self {
        Self(id)
    }
}

impl<T: TypedId> fmt::Display for IdNumber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<T: TypedId> Serialize for IdNumber<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0.snowflake().get())
    }
}

impl<'de, T: TypedId> Deserialize<'de> for IdNumber<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Self)
    }
}

impl<T: TypedId> WriteCanonical for IdNumber<T> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_int(self.0.snowflake().get());
    }
}

/// Deserializes a number or a string of digits.
pub(super) fn deserialize<'de, T: TypedId, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(IdVisitor(PhantomData))
}

struct IdVisitor<T>(PhantomData<T>);

impl<T: TypedId> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as a number or a string of digits", T::KIND)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Snowflake::new(number).map(T::from_snowflake).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Snowflake::parse(text).map(T::from_snowflake).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests;
