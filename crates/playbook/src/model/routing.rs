//! Where a step goes on.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::set::Set;
use super::value::Condition;
use crate::source::Spanned;
use crate::words;

/// The arcs of a step and how they are chosen.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Router {
    /// How arcs are chosen.
    #[serde(skip_serializing_if = "RouterSpec::is_default")]
    spec: RouterSpec,
    /// The arcs, in order.
    pub arcs: Vec<RouteArc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RouterSpec {
    mode: RouterMode,
    on_no_match: NoMatch,
}

impl RouterSpec {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Router {
    /// A router.
    pub fn new(mode: RouterMode, on_no_match: NoMatch, arcs: Vec<RouteArc>) -> Self {
        Self {
            spec: RouterSpec { mode, on_no_match },
            arcs,
        }
    }

    /// How arcs are chosen.
    pub fn mode(&self) -> RouterMode {
        self.spec.mode
    }

    /// What happens when none is.
    pub fn on_no_match(&self) -> NoMatch {
        self.spec.on_no_match
    }
}

impl JsonSchema for Router {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Router".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
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
                { "deprecated": true, "description": "Old form: one target.", "type": "string" },
                { "deprecated": true, "description": "Old form: a list of targets.", "type": "array" }
            ]
        })
    }
}

words! {
    /// How the arcs of a step are chosen.
    #[derive(Default)]
    pub enum RouterMode {
        /// The first true one.
        #[default]
        Exclusive = "exclusive",
        /// Every true one.
        Inclusive = "inclusive",
    }
}

words! {
    /// What happens when no arc is chosen.
    #[derive(Default)]
    pub enum NoMatch {
        /// The path ends here.
        #[default]
        Complete = "complete",
        /// The run fails.
        Error = "error",
    }
}

/// An arc to another step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteArc {
    /// The target.
    pub step: Spanned<Arc<str>>,
    /// When it is taken; on success where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Spanned<Condition>>,
    /// What it writes on the way.
    #[serde(skip_serializing_if = "Set::is_empty")]
    #[schemars(default)]
    pub set: Set,
}
