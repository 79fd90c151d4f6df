//! Rendering on the server, with errors that name the step and the field.

use std::fmt;

use noetl_playbook::model::{Condition, SetTarget, Setting};
use noetl_playbook::template::{
    Dynamic, Need, RenderError, RenderErrorKind, Rendered, Scope, Template, truthy,
};
use noetl_types::{Json, StepName, TaskError, TaskErrorKind};

use super::Refused;
use super::draft::Trouble;

/// Where a template stands.
#[derive(Clone, Copy)]
pub(super) struct Site<'s> {
    pub(super) step: &'s StepName,
    pub(super) field: Field<'s>,
}

/// A field of a step; written out only when something is wrong with it.
#[derive(Clone, Copy)]
pub(super) enum Field<'s> {
    Guard,
    Admission(usize),
    LoopIn,
    MaxInFlight,
    Priority,
    SlotKey,
    CacheKey,
    /// A setting of the frames of a cursor.
    Frame(&'static str),
    Set(&'s SetTarget),
    ArcWhen(usize),
    ArcSet(usize, &'s SetTarget),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard => f.write_str("when"),
            Self::Admission(at) => write!(f, "spec.policy.admit.rules[{at}].when"),
            Self::LoopIn => f.write_str("loop.in"),
            Self::MaxInFlight => f.write_str("loop.spec.max_in_flight"),
            Self::Priority => f.write_str("priority"),
            Self::SlotKey => f.write_str("concurrency.key"),
            Self::CacheKey => f.write_str("spec.cache.key"),
            Self::Frame(name) => write!(f, "loop.spec.frame.{name}"),
            Self::Set(target) => write!(f, "set.{}", target.key()),
            Self::ArcWhen(at) => write!(f, "next.arcs[{at}].when"),
            Self::ArcSet(at, target) => write!(f, "next.arcs[{at}].set.{}", target.key()),
        }
    }
}

impl Site<'_> {
    pub(super) fn render(&self, value: &Dynamic, scope: &dyn Scope) -> Result<Json, Trouble> {
        self.plain(value.render(scope))
    }

    fn render_template(&self, value: &Template, scope: &dyn Scope) -> Result<Json, Trouble> {
        self.plain(value.render(scope))
    }

    /// Whether a condition holds, and what it came to.
    pub(super) fn test(
        &self,
        condition: &Condition,
        scope: &dyn Scope,
    ) -> Result<(bool, Json), Trouble> {
        match condition {
            Condition::Fixed(value) => Ok((*value, Json::Bool(*value))),
            Condition::Test(template) => {
                let value = self.render_template(template, scope)?;
                Ok((truthy(&value), value))
            }
        }
    }

    /// A setting that a template may tell.
    pub(super) fn setting<T: Clone>(
        &self,
        setting: &Setting<T>,
        scope: &dyn Scope,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, Trouble> {
        match setting {
            Setting::Fixed(value) => Ok(value.clone()),
            Setting::Template(template) => {
                let value = self.render_template(&template.value, scope)?;
                read(&value).ok_or_else(|| {
                    let found = value.type_name();
                    let message = format!("{self}: a {found} is not a value for it");
                    TaskError::new(TaskErrorKind::Schema, message).into()
                })
            }
        }
    }

    fn plain(&self, rendered: Result<Rendered, RenderError>) -> Result<Json, Trouble> {
        rendered
            .map(|rendered| rendered.value)
            .map_err(|error| self.trouble(&error))
    }

    fn trouble(&self, error: &RenderError) -> Trouble {
        if let RenderErrorKind::Needs(Need::Payload { reference }) = &error.kind {
            return Refused::NeedsPayload(reference.clone()).into();
        }
        let mut failure = TaskError::new(TaskErrorKind::Template, format!("{self}: {error}"));
        failure.details = Some(Json::object([
            ("step", Json::from(self.step)),
            ("field", Json::from(self.field.to_string())),
            ("line", Json::from(error.line)),
            ("column", Json::from(error.column)),
            ("excerpt", Json::from(error.excerpt.as_str())),
        ]));
        failure.into()
    }
}

impl fmt::Display for Site<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step `{}`, {}", self.step, self.field)
    }
}
