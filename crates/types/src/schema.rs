//! JSON Schemas of the vocabulary.
//!
//! Only the test that generates the OpenAPI document uses them: the feature `schema` is off in the
//! product. Schemas of names and ids are inlined. Enums have a named schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::id::IdNumber;
use crate::{Digest, EventName, Json, LeaseToken, Seq, StatusName, TaskError, Text, Timestamp};

/// Schema of an id: a string of digits in responses, digits or a number in requests.
pub(crate) fn id_schema(generator: &SchemaGenerator) -> Schema {
    let text = json_schema!({ "type": "string", "pattern": "^[1-9][0-9]{0,18}$" });
    if generator.contract().is_serialize() {
        return text;
    }
    let number = number_schema();
    json_schema!({ "anyOf": [text, number] })
}

/// Schema of an id as a number.
fn number_schema() -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": 1 })
}

/// Schema of a name with a maximum length.
pub(crate) fn name_schema(max_length: usize) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": max_length })
}

/// Schema of a string enum.
pub(crate) fn enum_schema(values: impl Iterator<Item = &'static str>) -> Schema {
    let values: Vec<&str> = values.collect();
    json_schema!({ "type": "string", "enum": values })
}

/// Schema of a number within limits.
pub(crate) fn bounded_schema(min: i64, max: i64) -> Schema {
    json_schema!({ "type": "integer", "minimum": min, "maximum": max })
}

/// Implements an inline schema for a type.
macro_rules! inline_schema {
    ($name:ident, |$generator:ident| $schema:expr) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

pub(crate) use inline_schema;

inline_schema!(Text, |_generator| json_schema!({ "type": "string" }));
inline_schema!(Json, |_generator| json_schema!(true));
inline_schema!(Timestamp, |_generator| json_schema!({ "type": "string", "format": "date-time" }));
inline_schema!(
    Digest,
    |_generator| json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
);
inline_schema!(
    LeaseToken,
    |_generator| json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{32}$" })
);
inline_schema!(Seq, |_generator| number_schema());
inline_schema!(EventName, |_generator| name_schema(crate::limits::MAX_EVENT_NAME_CHARS));
inline_schema!(StatusName, |_generator| json_schema!({ "type": "string" }));

impl<T> JsonSchema for IdNumber<T> {
    fn schema_name() -> Cow<'static, str> {
        "IdNumber".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() { number_schema() } else { id_schema(generator) }
    }
}

impl JsonSchema for TaskError {
    fn schema_name() -> Cow<'static, str> {
        "TaskError".into()
    }

    /// A worker may send any value as an error. Responses have all fields.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_deserialize() {
            return json_schema!({ "description": "Error of a task: an object with `kind` and `message`, or a string." });
        }
        json_schema!({
            "type": "object",
            "description": "The error of a failed task.",
            "required": ["kind", "retryable", "message"],
            "properties": {
                "kind": { "type": "string" },
                "retryable": { "type": "boolean" },
                "code": true,
                "status": { "type": ["integer", "null"] },
                "message": { "type": "string" },
                "details": true,
                "task": { "type": ["string", "null"] },
                "attempt": { "type": ["integer", "null"] },
                "index": { "type": "integer" },
            },
        })
    }
}
