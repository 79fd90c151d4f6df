//! Renders templates on the server. Errors name the step and the field.

use std::fmt;
use std::sync::Arc;

use noetl_playbook::model::{Condition, SetTarget, ValueOrTemplate};
use noetl_playbook::template::{
    DynamicValue, FetchNeed, RenderError, RenderErrorKind, RenderedValue, Template,
    TemplateEnvironment, TemplatePlace, is_truthy,
};
use noetl_types::{Json, StepName, TaskError, TaskErrorKind};

use super::DecisionError;
use super::draft::StepEvalError;
use crate::plan::path_expression;

/// Maximum number of suggested names, and of characters of each.
const MAX_SUGGESTED_NAMES: usize = 8;
const MAX_NAME_CHARS: usize = 40;

/// Location of a template.
#[derive(Clone, Copy)]
pub(super) struct FieldLocation<'s> {
    pub(super) step: &'s StepName,
    pub(super) field: TemplateField<'s>,
}

/// A field of a step. Formatted only for errors.
#[derive(Clone, Copy)]
pub(super) enum TemplateField<'s> {
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

impl fmt::Display for TemplateField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard => f.write_str("when"),
            Self::Admission(index) => write!(f, "spec.policy.admit.rules[{index}].when"),
            Self::LoopIn => f.write_str("loop.in"),
            Self::MaxInFlight => f.write_str("loop.spec.max_in_flight"),
            Self::Priority => f.write_str("priority"),
            Self::SlotKey => f.write_str("concurrency.key"),
            Self::CacheKey => f.write_str("spec.cache.key"),
            Self::Frame(name) => write!(f, "loop.spec.frame.{name}"),
            Self::Set(target) => write!(f, "set.{}", target.key()),
            Self::ArcWhen(index) => write!(f, "next.arcs[{index}].when"),
            Self::ArcSet(index, target) => write!(f, "next.arcs[{index}].set.{}", target.key()),
        }
    }
}

impl FieldLocation<'_> {
    pub(super) fn render_value(
        &self,
        value: &DynamicValue,
        environment: &dyn TemplateEnvironment,
    ) -> Result<Json, StepEvalError> {
        self.value_or_error(value.render(environment))
    }

    fn render_template(
        &self,
        value: &Template,
        environment: &dyn TemplateEnvironment,
    ) -> Result<Json, StepEvalError> {
        self.value_or_error(value.render(environment))
    }

    /// Evaluates a condition. Returns its truth and its value.
    pub(super) fn test_condition(
        &self,
        condition: &Condition,
        environment: &dyn TemplateEnvironment,
    ) -> Result<(bool, Json), StepEvalError> {
        match condition {
            Condition::Fixed(value) => Ok((*value, Json::Bool(*value))),
            Condition::Test(template) => {
                let value = self.render_template(template, environment)?;
                Ok((is_truthy(&value), value))
            }
        }
    }

    /// Resolves a setting that may be a template.
    pub(super) fn resolve_setting<T: Clone>(
        &self,
        setting: &ValueOrTemplate<T>,
        environment: &dyn TemplateEnvironment,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, StepEvalError> {
        match setting {
            ValueOrTemplate::Fixed(value) => Ok(value.clone()),
            ValueOrTemplate::Template(template) => {
                let value = self.render_template(&template.value, environment)?;
                read(&value).ok_or_else(|| {
                    let found = value.type_name();
                    let message = format!("{self}: a {found} is not a valid value");
                    TaskError::new(TaskErrorKind::Schema, message).into()
                })
            }
        }
    }

    fn value_or_error(
        &self,
        rendered: Result<RenderedValue, RenderError>,
    ) -> Result<Json, StepEvalError> {
        rendered.map(|rendered| rendered.value).map_err(|error| self.convert_render_error(&error))
    }

    fn convert_render_error(&self, error: &RenderError) -> StepEvalError {
        if let RenderErrorKind::Needs(FetchNeed::Payload { reference }) = &error.kind {
            return DecisionError::NeedsPayload(reference.clone()).into();
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

impl fmt::Display for FieldLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step `{}`, {}", self.step, self.field)
    }
}

/// Describes the innermost defined value on the path to a null value and its members: `list has
/// body, data, …`. This renders a template, so it is used only if the step fails anyway.
pub(super) fn suggest_members(
    source: &DynamicValue,
    environment: &dyn TemplateEnvironment,
) -> Option<String> {
    let mut reads = source.reads();
    let (Some(read), None) = (reads.next(), reads.next()) else {
        return None;
    };
    (1..read.path.len()).rev().find_map(|len| describe_members(&read.path[..len], environment))
}

fn describe_members(path: &[Arc<str>], environment: &dyn TemplateEnvironment) -> Option<String> {
    let expression = path_expression(path)?;
    let template = Template::parse(&format!("{{{{ {expression} }}}}"), TemplatePlace::Run).ok()?;
    let rendered = template.render(environment).ok()?;
    let Json::Map(map) = &rendered.value else {
        return None;
    };
    if map.is_empty() || rendered.is_secret() {
        return None;
    }
    let short = |name: &Arc<str>| name.chars().take(MAX_NAME_CHARS).collect::<String>();
    let mut names: Vec<_> = map.keys().take(MAX_SUGGESTED_NAMES).map(short).collect();
    if map.len() > MAX_SUGGESTED_NAMES {
        names.push("…".to_owned());
    }
    Some(format!("{} has {}", path.join("."), names.join(", ")))
}
