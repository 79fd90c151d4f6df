//! The tool of a step: one task or a pipeline of tasks.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;
use schemars::{JsonSchema, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::kind::ToolKind;
use super::output::OutputSpec;
use super::policy::TaskPolicy;
use super::set::SetClause;
use super::value::{DurationText, NamedValues, is_default};
use crate::schema::impl_schema;
use crate::source::Spanned;
use crate::template::DynamicValue;

/// One task or a pipeline of tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum Tool {
    /// One task. Its label is the step's name and its data is the step's data.
    Single(Box<Task>),
    /// Tasks that run in order. The step's data is a map from label to data.
    Pipeline(Vec<Task>),
}

impl Tool {
    /// Returns the tasks in order.
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
    /// Label of the task, unique in the step.
    pub label: Spanned<Arc<str>>,
    /// Kind of tool.
    pub kind: Spanned<ToolKind>,
    /// Credential: an alias, a template of an alias, or a map.
    pub auth: Option<DynamicValue>,
    /// Source location of the credential.
    pub auth_span: Spanned<()>,
    /// Input values. They override those of the step.
    pub input: NamedValues,
    /// Timeout and policy.
    pub spec: TaskSpec,
    /// Variables to write after a successful attempt.
    pub set: SetClause,
    /// Storage of the task's data.
    pub output: Option<OutputSpec>,
    /// Modules available to Python code.
    pub libs: Option<Json>,
    /// Keys that are specific to the tool kind.
    pub config: NamedValues,
}

/// Timeout and policy of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskSpec {
    /// Timeout of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// Rules that are evaluated after each attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<TaskPolicy>,
}

impl TaskSpec {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 1] = ["result"];
}

impl Task {
    fn serialize_task_entries<M: serde::ser::SerializeMap>(
        &self,
        map: &mut M,
    ) -> Result<(), M::Error> {
        map.serialize_entry("kind", &self.kind)?;
        if let Some(auth) = &self.auth {
            map.serialize_entry("auth", auth)?;
        }
        if !self.input.is_empty() {
            map.serialize_entry("input", &self.input)?;
        }
        if !is_default(&self.spec) {
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

/// Serializes a task without its label, because the label of a single task is the name of its step.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_task_entries(&mut map)?;
        map.end()
    }
}

struct LabelledTask<'t>(&'t Task);

impl Serialize for LabelledTask<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.label)?;
        self.0.serialize_task_entries(&mut map)?;
        map.end()
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Single(task) => task.serialize(serializer),
            Self::Pipeline(tasks) => serializer.collect_seq(tasks.iter().map(LabelledTask)),
        }
    }
}

impl_schema!(Tool, "Tool", |generator| {
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
});

impl_schema!(Task, "Task", |generator| super::kind::task_schema(generator));
