//! Use of message headers.

use std::sync::Arc;

use noetl_types::JsonMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::form::{self, is_default};
use crate::source::Spanned;
use crate::string_enum;

/// Use of message headers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderRules {
    /// Converts header names to lower case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub normalize: bool,
    /// Headers that control the execution.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directives: Vec<HeaderDirective>,
    /// Propagation of the trace context from the message to the execution.
    #[serde(skip_serializing_if = "is_default")]
    pub trace: TraceConfig,
    /// Payload key that receives the remaining headers.
    #[serde(skip_serializing_if = "HeaderRules::is_default_passthrough")]
    pub passthrough: Arc<str>,
}

impl HeaderRules {
    const DEFAULT_PASSTHROUGH_KEY: &'static str = "data";

    fn is_default_passthrough(passthrough: &Arc<str>) -> bool {
        &**passthrough == Self::DEFAULT_PASSTHROUGH_KEY
    }
}

impl Default for HeaderRules {
    fn default() -> Self {
        Self {
            normalize: false,
            directives: Vec::new(),
            trace: TraceConfig::default(),
            passthrough: Self::DEFAULT_PASSTHROUGH_KEY.into(),
        }
    }
}

/// A header that controls an aspect of the execution. A value that is not allowed is ignored, and
/// the rejection is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderDirective {
    /// Name of the header.
    pub header: Arc<str>,
    /// Aspect that the header controls.
    pub controls: DirectiveControl,
    /// Allowed values. An empty list allows any value, except for a playbook or pool, which require
    /// a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, schema_with = "form::texts_schema")]
    pub allowed: Vec<Spanned<Arc<str>>>,
    /// Mapping of header values to the values they represent. A priority must be mapped to a
    /// number.
    #[serde(skip_serializing_if = "JsonMap::is_empty")]
    #[schemars(default, with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub map: JsonMap,
}

string_enum! {
    /// Aspect of an execution that a header controls.
    pub enum DirectiveControl {
        /// Playbook to start.
        Playbook = "dispatch.playbook",
        /// Worker pool that runs the playbook.
        ExecutionPool = "dispatch.execution_pool",
        /// Priority of the execution.
        Priority = "priority",
        /// Key that identifies the message.
        IdempotencyKey = "idempotency_key",
        /// Format of the body.
        ContentType = "content_type",
        /// Name of the schema of the body.
        SchemaHint = "schema_hint",
    }
}

/// Propagation of the trace context from the message to the execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceConfig {
    /// Header format of the trace context.
    #[serde(skip_serializing_if = "is_default")]
    pub propagate: TracePropagation,
    /// Names of baggage items to propagate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "form::texts_schema")]
    pub baggage_allowlist: Vec<Arc<str>>,
}

string_enum! {
    /// Header format of the trace context.
    #[derive(Default)]
    pub enum TracePropagation {
        /// No propagation. Each execution starts a new trace.
        #[default]
        None = "none",
        /// W3C Trace Context headers.
        W3c = "w3c",
    }
}
