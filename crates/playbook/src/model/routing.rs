//! Routing from a step to the following steps.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::set::SetClause;
use super::value::{Condition, is_default};
use crate::schema::impl_schema;
use crate::source::Spanned;
use crate::string_enum;

/// Arcs of a step and the mode that selects among them.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Router {
    /// Mode and behavior if no arc matches.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: RouterSpec,
    /// Arcs, in order of evaluation.
    pub arcs: Vec<RouteArc>,
}

/// Settings of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouterSpec {
    /// Selection of arcs.
    pub mode: RouterMode,
    /// Behavior if no arc matches.
    pub on_no_match: NoMatch,
}

impl Router {
    /// Returns the mode that selects arcs.
    pub fn mode(&self) -> RouterMode {
        self.spec.mode
    }

    /// Returns the behavior if no arc matches.
    pub fn on_no_match(&self) -> NoMatch {
        self.spec.on_no_match
    }
}

impl_schema!(Router, "Router", |generator| {
    let spec = generator.subschema_for::<RouterSpec>();
    let arc = generator.subschema_for::<RouteArc>();
    schemars::json_schema!({
        "anyOf": [
            {
                "type": "object",
                "properties": { "spec": spec, "arcs": { "type": "array", "items": arc } },
                "required": ["arcs"],
                "additionalProperties": false
            },
            { "deprecated": true, "description": "Deprecated: a single target.", "type": "string" },
            { "deprecated": true, "description": "Deprecated: a list of targets.", "type": "array" }
        ]
    })
});

string_enum! {
    /// Selection of arcs.
    #[derive(Default)]
    pub enum RouterMode {
        /// Takes the first arc whose condition is true.
        #[default]
        Exclusive = "exclusive",
        /// Takes every arc whose condition is true.
        Inclusive = "inclusive",
    }
}

string_enum! {
    /// Behavior if no arc matches.
    #[derive(Default)]
    pub enum NoMatch {
        /// Ends this path of the execution.
        #[default]
        Complete = "complete",
        /// Fails the execution.
        Error = "error",
    }
}

/// An arc to another step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteArc {
    /// Name of the target step.
    pub step: Spanned<Arc<str>>,
    /// Condition of the arc. If absent, the arc is taken on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Spanned<Condition>>,
    /// Variables to write when the arc is taken.
    #[serde(skip_serializing_if = "SetClause::is_empty")]
    #[schemars(default)]
    pub set: SetClause,
}
