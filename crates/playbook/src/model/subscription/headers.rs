//! What the headers of a message do.

use std::sync::Arc;

use noetl_types::JsonMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::form::{self, is_default};
use crate::source::Spanned;
use crate::words;

/// What the headers of a message do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Headers {
    /// Whether their names are taken in lower case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub normalize: bool,
    /// Headers that decide something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directives: Vec<Directive>,
    /// Whether a trace goes on from the message into the execution.
    #[serde(skip_serializing_if = "is_default")]
    pub trace: Trace,
    /// The key of the payload under which the other headers are handed on.
    #[serde(skip_serializing_if = "Headers::is_default_passthrough")]
    pub passthrough: Arc<str>,
}

impl Headers {
    const PASSTHROUGH: &'static str = "data";

    fn is_default_passthrough(passthrough: &Arc<str>) -> bool {
        &**passthrough == Self::PASSTHROUGH
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            normalize: false,
            directives: Vec::new(),
            trace: Trace::default(),
            passthrough: Self::PASSTHROUGH.into(),
        }
    }
}

/// A header that decides something. A value that is not allowed is ignored, and that is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Directive {
    /// The header.
    pub header: Arc<str>,
    /// What it decides.
    pub controls: DirectiveControl,
    /// Values that are taken; any where there is none. A playbook or a pool is never taken from just
    /// any value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, schema_with = "form::texts_schema")]
    pub allowed: Vec<Spanned<Arc<str>>>,
    /// What values stand for. A priority has to be here as a number.
    #[serde(skip_serializing_if = "JsonMap::is_empty")]
    #[schemars(
        default,
        with = "std::collections::BTreeMap<String, serde_json::Value>"
    )]
    pub map: JsonMap,
}

words! {
    /// What a header decides.
    pub enum DirectiveControl {
        /// The playbook that is started.
        Playbook = "dispatch.playbook",
        /// The pool that runs it.
        ExecutionPool = "dispatch.execution_pool",
        /// The priority of the execution.
        Priority = "priority",
        /// What tells the message apart from others.
        IdempotencyKey = "idempotency_key",
        /// How the body is read.
        ContentType = "content_type",
        /// A name for the shape of the body.
        SchemaHint = "schema_hint",
    }
}

/// Whether a trace goes on from the message into the execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// By which headers.
    #[serde(skip_serializing_if = "is_default")]
    pub propagate: Propagate,
    /// Baggage that comes along.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "form::texts_schema")]
    pub baggage_allowlist: Vec<Arc<str>>,
}

words! {
    /// By which headers a trace goes on.
    #[derive(Default)]
    pub enum Propagate {
        /// By none: each execution begins a trace.
        #[default]
        None = "none",
        /// By those of the W3C.
        W3c = "w3c",
    }
}
