//! Loops.

use std::sync::Arc;

use noetl_types::ByteSize;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::{DurationText, NamedValues, SizeText, ValueOrTemplate, is_default};
use crate::source::Spanned;
use crate::string_enum;
use crate::template::DynamicValue;

/// Runs the tool of a step once for each item.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Items of the loop.
    #[serde(flatten)]
    #[schemars(schema_with = "source_schema")]
    pub source: LoopSource,
    /// Name of the item variable.
    #[schemars(length(min = 1))]
    pub iterator: Spanned<Arc<str>>,
    /// Mode and concurrency.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub spec: LoopSpec,
}

/// Items of a loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum LoopSource {
    /// A list, or a value that can be converted to one.
    #[serde(rename = "in")]
    In(Spanned<DynamicValue>),
    /// Frames of rows, claimed until none remain.
    #[serde(rename = "cursor")]
    Cursor(CursorSource),
}

fn source_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let cursor = generator.subschema_for::<CursorSource>();
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "in": { "description": "A list, a map, a string to split, a number, or a template that yields one of them." },
            "cursor": cursor
        },
        "oneOf": [{ "required": ["in"] }, { "required": ["cursor"] }]
    })
}

/// Rows that are claimed one frame at a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CursorSource {
    /// Kind of database. Defaults to `postgres`.
    #[schemars(default)]
    pub kind: Arc<str>,
    /// Credential for the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub auth: Option<DynamicValue>,
    /// Statement that claims rows. The statement alone defines what a claim is.
    #[schemars(with = "String")]
    pub claim: DynamicValue,
    /// Additional connection settings.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub options: NamedValues,
}

/// Mode and concurrency of a loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSpec {
    /// Order in which items are processed.
    pub mode: LoopMode,
    /// Maximum number of commands in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<u32>>")]
    pub max_in_flight: Option<Spanned<ValueOrTemplate<u32>>>,
    /// Frame settings of a cursor loop.
    #[serde(skip_serializing_if = "is_default")]
    pub frame: FrameSpec,
}

impl LoopSpec {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 1] = ["policy"];
}

string_enum! {
    /// Order in which a loop processes its items.
    #[derive(Default)]
    pub enum LoopMode {
        /// One item after another.
        #[default]
        Sequential = "sequential",
        /// Items concurrently.
        Parallel = "parallel",
        /// Frames of claimed rows.
        Cursor = "cursor",
    }
}

/// Frame settings of a cursor loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FrameSpec {
    /// Maximum rows per frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<ValueOrTemplate<u32>>,
    /// Soft limit on the duration of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<DurationText>>")]
    pub max_seconds: Option<ValueOrTemplate<Millis>>,
    /// Soft limit on the size of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<SizeText>>")]
    pub max_bytes: Option<ValueOrTemplate<ByteSize>>,
    /// Lease duration of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<DurationText>>")]
    pub lease_seconds: Option<ValueOrTemplate<Millis>>,
    /// Heartbeat interval of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<DurationText>>")]
    pub heartbeat_seconds: Option<ValueOrTemplate<Millis>>,
    /// Runs the body for each row or once for the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<FrameProcess>,
    /// Retry mode of a failed frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_mode: Option<FrameRetry>,
    /// Maximum attempts per frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<ValueOrTemplate<u32>>,
}

impl FrameSpec {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 1] = ["row_concurrency"];
}

string_enum! {
    /// Unit that the body of a cursor loop processes.
    pub enum FrameProcess {
        /// Each row.
        Row = "row",
        /// The whole frame.
        Frame = "frame",
    }
}

string_enum! {
    /// Retry mode of a failed frame.
    pub enum FrameRetry {
        /// Retries the whole frame.
        Frame = "frame",
        /// Does not retry.
        None = "none",
    }
}
