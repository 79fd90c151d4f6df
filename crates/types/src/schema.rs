//! What the vocabulary looks like in JSON Schema.
//!
//! Only the document of the HTTP API is made from these, and only by its test: the feature `schema`
//! is off in the product. Names and ids stand where they are used; words have an entry of their own.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::replay::EventNumber;
use crate::{Digest, EventName, Json, Seq, StatusName, TaskError, Text, Timestamp};

/// An id: digits in answers, digits or a number in requests.
pub(crate) fn id(generator: &SchemaGenerator) -> Schema {
    let text = json_schema!({ "type": "string", "pattern": "^[1-9][0-9]{0,18}$" });
    if generator.contract().is_serialize() {
        return text;
    }
    let number = number();
    json_schema!({ "anyOf": [text, number] })
}

/// An id as a number.
fn number() -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": 1 })
}

/// A name of at most some characters.
pub(crate) fn name(longest: usize) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": longest })
}

/// One of some words.
pub(crate) fn words(words: impl Iterator<Item = &'static str>) -> Schema {
    let words: Vec<&str> = words.collect();
    json_schema!({ "type": "string", "enum": words })
}

/// A number within bounds.
pub(crate) fn bounded(least: i64, most: i64) -> Schema {
    json_schema!({ "type": "integer", "minimum": least, "maximum": most })
}

/// Writes the schema of a type that stands where it is used.
macro_rules! inline {
    ($name:ident, |$generator:ident| $schema:expr) => {
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

inline!(Text, |_generator| json_schema!({ "type": "string" }));
inline!(Json, |_generator| json_schema!(true));
inline!(
    Timestamp,
    |_generator| json_schema!({ "type": "string", "format": "date-time" })
);
inline!(
    Digest,
    |_generator| json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
);
inline!(Seq, |_generator| number());
inline!(EventNumber, |_generator| number());
inline!(EventName, |_generator| name(
    crate::limits::MAX_EVENT_NAME_CHARS
));
inline!(StatusName, |_generator| json_schema!({ "type": "string" }));

/// An id that is written as a number; see [`crate::id::as_number`].
#[derive(Debug)]
pub struct IdNumber;

inline!(
    IdNumber,
    |generator| if generator.contract().is_serialize() {
        number()
    } else {
        id(generator)
    }
);

impl JsonSchema for TaskError {
    fn schema_name() -> Cow<'static, str> {
        "TaskError".into()
    }

    /// Whatever a worker sends as an error is one; what it reads has all of the fields.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_deserialize() {
            return json_schema!({ "description": "An error: an object with `kind` and `message`, or a text." });
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
