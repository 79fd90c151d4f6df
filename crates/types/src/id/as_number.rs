//! Ids as JSON numbers, for `#[serde(with = "...")]` in wire formats whose clients expect numbers.
//!
//! Everywhere else an id is a string, because JavaScript rounds numbers above 2^53. Deserialization
//! accepts both.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;

use super::kinds::TypedId;
use super::snowflake::Snowflake;

/// Serializes an id as a number.
pub fn serialize<T: TypedId, S: Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(id.snowflake().get())
}

/// Deserializes a number or a string of digits.
pub fn deserialize<'de, T: TypedId, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
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

/// Optional ids.
pub mod option {
    use serde::Deserialize;

    use super::{Deserializer, Serializer, TypedId};

    /// Serializes a number or null.
    pub fn serialize<T: TypedId, S: Serializer>(
        id: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => super::serialize(id, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Deserializes a number, a string of digits, or null.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: TypedId + Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Option::deserialize(deserializer)
    }
}

/// Lists of ids.
pub mod list {
    use serde::Deserialize;

    use super::{Deserializer, Serializer, TypedId};

    /// Serializes numbers.
    pub fn serialize<T: TypedId, S: Serializer>(
        ids: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| id.snowflake().get()))
    }

    /// Deserializes numbers or strings of digits.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: TypedId + Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::id::{EventId, ExecutionId, OutboxId};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct NumericIdRow {
        #[serde(with = "crate::id::as_number")]
        event_id: EventId,
        #[serde(with = "crate::id::as_number::option", default)]
        execution_id: Option<ExecutionId>,
        #[serde(with = "crate::id::as_number::list")]
        outbox_ids: Vec<OutboxId>,
    }

    #[test]
    fn writes_numbers_and_reads_both_forms() {
        let row: NumericIdRow =
            serde_json::from_str(r#"{"event_id":"7","execution_id":8,"outbox_ids":[1,"2"]}"#)
                .unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"event_id":7,"execution_id":8,"outbox_ids":[1,2]}"#
        );
        let row: NumericIdRow = serde_json::from_str(r#"{"event_id":7,"outbox_ids":[]}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"event_id":7,"execution_id":null,"outbox_ids":[]}"#
        );
    }

    #[test]
    fn rejects_invalid_ids() {
        for wrong in ["0", "true", "{}", "18446744073709551615"] {
            let json = format!(r#"{{"event_id":{wrong},"outbox_ids":[]}}"#);
            assert!(serde_json::from_str::<NumericIdRow>(&json).is_err(), "{wrong}");
        }
    }
}
