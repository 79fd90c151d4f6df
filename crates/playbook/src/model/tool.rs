//! What a step runs.

use std::borrow::Cow;
use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::kind::ToolKind;
use super::output::OutputSpec;
use super::policy::TaskPolicy;
use super::set::Set;
use super::value::DurationText;
use super::value::Fields;
use crate::source::Spanned;
use crate::template::Dynamic;

/// What a step runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Tool {
    /// One task whose label is the step's name and whose data is the step's data.
    Single(Box<Task>),
    /// Tasks in order; the step's data is a map of their labels.
    Pipeline(Vec<Task>),
}

impl Tool {
    /// The tasks in order.
    pub fn tasks(&self) -> &[Task] {
        match self {
            Self::Single(task) => std::slice::from_ref(task),
            Self::Pipeline(tasks) => tasks,
        }
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its label, unique in the step.
    pub label: Spanned<Arc<str>>,
    /// What it runs.
    pub kind: Spanned<ToolKind>,
    /// The credential: an alias, a template of one, or a map.
    pub auth: Option<Dynamic>,
    /// Where the credential is named.
    pub auth_span: Spanned<()>,
    /// Its input; lies over the step's.
    pub input: Fields,
    /// Timeout and policy.
    pub spec: TaskSpec,
    /// What it writes after an attempt that went well.
    pub set: Set,
    /// How its data is kept.
    pub output: Option<OutputSpec>,
    /// Modules that python code may use.
    pub libs: Option<Json>,
    /// The keys of its kind.
    pub config: Fields,
}

/// Timeout and policy of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskSpec {
    /// Time for one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// What happens after each attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<TaskPolicy>,
    /// Kept for other runtimes; has no effect here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<Json>,
}

impl TaskSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Task {
    fn entries<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("kind", &self.kind)?;
        if let Some(auth) = &self.auth {
            map.serialize_entry("auth", auth)?;
        }
        if !self.input.is_empty() {
            map.serialize_entry("input", &self.input)?;
        }
        if !self.spec.is_default() {
            map.serialize_entry("spec", &self.spec)?;
        }
        for field in &self.config {
            map.serialize_entry(&**field.name, &field.value)?;
        }
        if let Some(libs) = &self.libs {
            map.serialize_entry("libs", libs)?;
        }
        if !self.set.is_empty() {
            map.serialize_entry("set", &self.set)?;
        }
        if let Some(output) = &self.output {
            map.serialize_entry("output", output)?;
        }
        Ok(())
    }
}

/// A task without its label: the label of a single task is the name of its step.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

struct Labelled<'t>(&'t Task);

impl Serialize for Labelled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.label)?;
        self.0.entries(&mut map)?;
        map.end()
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Single(task) => task.serialize(serializer),
            Self::Pipeline(tasks) => serializer.collect_seq(tasks.iter().map(Labelled)),
        }
    }
}

impl JsonSchema for Tool {
    fn schema_name() -> Cow<'static, str> {
        "Tool".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let task = generator.subschema_for::<Task>();
        json_schema!({
            "description": "One task, or a pipeline of tasks that run in order on one worker.",
            "anyOf": [
                task,
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "anyOf": [
                            task,
                            {
                                "type": "object",
                                "minProperties": 1,
                                "maxProperties": 1,
                                "additionalProperties": task
                            }
                        ]
                    }
                }
            ]
        })
    }
}

impl JsonSchema for Task {
    fn schema_name() -> Cow<'static, str> {
        "Task".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        super::kind::task_schema(generator)
    }
}
