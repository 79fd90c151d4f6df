//! Ids as JSON numbers, for `#[serde(with = "...")]` on the wires whose clients read them so.
//!
//! Everywhere else an id is a text, since JavaScript rounds numbers above 2^53. Reading takes both.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;

use super::kinds::Id;
use super::snowflake::Snowflake;

/// Writes a number.
pub fn serialize<T: Id, S: Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(id.snowflake().get())
}

/// Reads a number or a text of digits.
pub fn deserialize<'de, T: Id, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(IdVisitor(PhantomData))
}

struct IdVisitor<T>(PhantomData<T>);

impl<T: Id> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as a number or a text of digits", T::KIND)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Snowflake::new(number)
            .map(T::from_snowflake)
            .map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Snowflake::parse(text)
            .map(T::from_snowflake)
            .map_err(E::custom)
    }
}

/// An id that may be absent.
pub mod option {
    use serde::Deserialize;

    use super::{Deserializer, Id, Serializer};

    /// Writes a number or null.
    pub fn serialize<T: Id, S: Serializer>(
        id: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => super::serialize(id, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a number, a text of digits, or null.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: Id + Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Option::deserialize(deserializer)
    }
}

/// A list of ids.
pub mod list {
    use serde::Deserialize;

    use super::{Deserializer, Id, Serializer};

    /// Writes numbers.
    pub fn serialize<T: Id, S: Serializer>(ids: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| id.snowflake().get()))
    }

    /// Reads numbers or texts of digits.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: Id + Deserialize<'de>,
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
    struct Row {
        #[serde(with = "crate::id::as_number")]
        event_id: EventId,
        #[serde(with = "crate::id::as_number::option", default)]
        execution_id: Option<ExecutionId>,
        #[serde(with = "crate::id::as_number::list")]
        outbox_ids: Vec<OutboxId>,
    }

    #[test]
    fn written_as_numbers_read_as_both() {
        let row: Row =
            serde_json::from_str(r#"{"event_id":"7","execution_id":8,"outbox_ids":[1,"2"]}"#)
                .unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"event_id":7,"execution_id":8,"outbox_ids":[1,2]}"#
        );
        let row: Row = serde_json::from_str(r#"{"event_id":7,"outbox_ids":[]}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"event_id":7,"execution_id":null,"outbox_ids":[]}"#
        );
    }

    #[test]
    fn what_is_no_id() {
        for wrong in ["0", "true", "{}", "18446744073709551615"] {
            let json = format!(r#"{{"event_id":{wrong},"outbox_ids":[]}}"#);
            assert!(serde_json::from_str::<Row>(&json).is_err(), "{wrong}");
        }
    }
}
