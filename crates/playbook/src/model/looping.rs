//! Loops.

use std::sync::Arc;

use noetl_types::ByteSize;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::DurationText;
use super::value::SizeText;
use super::value::{Fields, Setting};
use crate::source::Spanned;
use crate::template::Dynamic;
use crate::words;

/// Runs the tool of a step once for each item.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Where the items come from.
    #[serde(flatten)]
    #[schemars(schema_with = "source_schema")]
    pub source: LoopSource,
    /// The name of the item.
    #[schemars(length(min = 1))]
    pub iterator: Spanned<Arc<str>>,
    /// Mode and width.
    #[serde(skip_serializing_if = "LoopSpec::is_default")]
    #[schemars(default)]
    pub spec: LoopSpec,
}

/// Where the items of a loop come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum LoopSource {
    /// A list, or what can be read as one.
    #[serde(rename = "in")]
    In(Spanned<Dynamic>),
    /// Frames of rows, claimed until none is left.
    #[serde(rename = "cursor")]
    Cursor(Cursor),
}

fn source_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let cursor = generator.subschema_for::<Cursor>();
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "in": { "description": "A list, a map, a text to split, a number, or a template of one of them." },
            "cursor": cursor
        },
        "oneOf": [{ "required": ["in"] }, { "required": ["cursor"] }]
    })
}

/// Rows to claim, a frame at a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// The kind of database.
    #[schemars(default)]
    pub kind: Arc<str>,
    /// The credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub auth: Option<Dynamic>,
    /// The statement that claims rows; it owns the meaning of a claim.
    #[schemars(with = "String")]
    pub claim: Dynamic,
    /// Further settings of the connection.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub options: Fields,
}

/// Mode and width of a loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSpec {
    /// One after the other, side by side, or in frames.
    pub mode: LoopMode,
    /// How many commands may be open at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<u32>>")]
    pub max_in_flight: Option<Spanned<Setting<u32>>>,
    /// Placement hint.
    #[serde(
        rename = "policy",
        skip_serializing_if = "Option::is_none",
        serialize_with = "exec"
    )]
    #[schemars(schema_with = "exec_schema")]
    pub exec: Option<Exec>,
    /// Frames of a cursor loop.
    #[serde(skip_serializing_if = "Frame::is_default")]
    pub frame: Frame,
}

impl LoopSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn exec<S: serde::Serializer>(exec: &Option<Exec>, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("exec", exec)?;
    map.end()
}

fn exec_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let exec = generator.subschema_for::<Exec>();
    schemars::json_schema!({
        "type": "object",
        "properties": { "exec": exec },
        "additionalProperties": false
    })
}

words! {
    /// How a loop goes through its items.
    #[derive(Default)]
    pub enum LoopMode {
        /// One after the other.
        #[default]
        Sequential = "sequential",
        /// Side by side.
        Parallel = "parallel",
        /// In frames of claimed rows.
        Cursor = "cursor",
    }
}

words! {
    /// Where iterations are placed.
    pub enum Exec {
        /// Near each other.
        Local = "local",
        /// Spread out.
        Distributed = "distributed",
    }
}

/// Frames of a cursor loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Frame {
    /// Rows of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<Setting<u32>>,
    /// Soft bound on the time of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<DurationText>>")]
    pub max_seconds: Option<Setting<Millis>>,
    /// Soft bound on the size of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<SizeText>>")]
    pub max_bytes: Option<Setting<ByteSize>>,
    /// Lease of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<DurationText>>")]
    pub lease_seconds: Option<Setting<Millis>>,
    /// Heartbeat of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<DurationText>>")]
    pub heartbeat_seconds: Option<Setting<Millis>>,
    /// Rows of a frame that run side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_concurrency: Option<Setting<u32>>,
    /// Whether the body runs for each row or once for the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<FrameProcess>,
    /// Whether a failed frame is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_mode: Option<FrameRetry>,
    /// How often a frame is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<Setting<u32>>,
}

impl Frame {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// What the body of a cursor loop runs for.
    pub enum FrameProcess {
        /// Each row.
        Row = "row",
        /// The whole frame.
        Frame = "frame",
    }
}

words! {
    /// Whether a failed frame is tried again.
    pub enum FrameRetry {
        /// As a whole.
        Frame = "frame",
        /// Not at all.
        None = "none",
    }
}
