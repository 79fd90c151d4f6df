//! Names visible to templates, and their precedence.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_playbook::template::{Binding, MapEnvironment, OutputPlace, StepData, TaskOutput};
use noetl_types::{Json, JsonMap};

/// Data of a successful pass of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StepValue {
    pub(crate) data: Json,
    /// For a pipeline, the data of each of its tasks, by label.
    pub(crate) labels: Option<JsonMap>,
}

impl StepValue {
    pub(crate) fn to_binding(&self) -> Binding {
        let data = StepData::new(self.data.clone());
        Binding::Step(Arc::new(match &self.labels {
            Some(labels) => data.with_labels(Json::from(labels.clone())),
            None => data,
        }))
    }
}

/// Everything that the templates of a step can read from the execution at one point in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ExecutionView {
    pub(crate) path: Arc<str>,
    pub(crate) workload: Json,
    pub(crate) ctx: JsonMap,
    /// The data of every step that has succeeded.
    pub(crate) data: BTreeMap<Arc<str>, StepValue>,
    /// Value of the name `steps`.
    pub(crate) steps: JsonMap,
    /// Data of the step whose arc led here.
    pub(crate) result: Json,
    /// Variables written by `set: step.x` in this pass of the step.
    pub(crate) vars: JsonMap,
}

/// Precedence of a name, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamePrecedence {
    /// Engine names that a playbook may reuse.
    Engine,
    /// Keys of the input.
    Workload,
    /// Names of steps.
    StepData,
    /// Variables of the execution.
    Ctx,
    /// Labels of pipeline tasks.
    Label,
    /// Variables of the pipeline and of the step pass.
    Variable,
    /// The iterator and the loop variables.
    Iterator,
    /// `output`, `event`, `iter`, `_prev` and similar built-in names.
    Builtin,
    /// Input of the task.
    Input,
    /// Names that cannot be shadowed.
    Fixed,
}

/// Names with their precedence.
#[derive(Debug, Clone, Default)]
pub(crate) struct TemplateNames(Vec<(NamePrecedence, Arc<str>, Binding)>);

impl TemplateNames {
    pub(crate) fn add_name(
        &mut self,
        precedence: NamePrecedence,
        name: impl Into<Arc<str>>,
        binding: impl Into<Binding>,
    ) {
        self.0.push((precedence, name.into(), binding.into()));
    }

    pub(crate) fn add_names(&mut self, precedence: NamePrecedence, entries: &JsonMap) {
        for (name, value) in entries {
            self.add_name(precedence, Arc::clone(name), value.clone());
        }
    }

    /// Adds `output`, its alias `outcome`, and `error`. The envelope contains everything but the
    /// data.
    pub(crate) fn add_output(&mut self, place: OutputPlace, envelope: Json, data: &Json) {
        let error = envelope.get("error").cloned().unwrap_or_default();
        let output = TaskOutput::new(place, envelope, data.clone());
        self.add_name(
            NamePrecedence::Builtin,
            "outcome",
            Binding::Output(Arc::new(output.clone().as_outcome())),
        );
        self.add_name(NamePrecedence::Builtin, "output", Binding::Output(Arc::new(output)));
        self.add_name(NamePrecedence::Builtin, "error", error);
    }

    /// Builds the environment. Of two equal names, the one with higher precedence wins.
    pub(crate) fn to_environment(&self) -> MapEnvironment {
        let mut entries = self.0.clone();
        entries.sort_by_key(|(precedence, _, _)| *precedence);
        entries.into_iter().fold(MapEnvironment::new(), |environment, (_, name, binding)| {
            environment.with_name(name, binding)
        })
    }
}

impl ExecutionView {
    /// Returns the names that every template of a step sees.
    pub(crate) fn template_names(&self, step: &str) -> TemplateNames {
        let mut names = TemplateNames::default();
        for name in ["step", "node_name"] {
            names.add_name(NamePrecedence::Engine, name, Json::from(step));
        }
        names.add_name(NamePrecedence::Engine, "path", Json::from(&*self.path));
        names.add_name(NamePrecedence::Engine, "result", self.result.clone());
        let empty = JsonMap::new();
        names.add_names(NamePrecedence::Workload, self.workload.as_map().unwrap_or(&empty));
        for (step, value) in &self.data {
            names.add_name(NamePrecedence::StepData, Arc::clone(step), value.to_binding());
        }
        names.add_names(NamePrecedence::Ctx, &self.ctx);
        names.add_names(NamePrecedence::Variable, &self.vars);
        names.add_name(NamePrecedence::Fixed, "workload", self.workload.clone());
        names.add_name(NamePrecedence::Fixed, "steps", Json::from(self.steps.clone()));
        // `ctx` looks up set variables, then data of steps, then keys of the input.
        let data = self.data.iter().map(|(step, value)| (Arc::clone(step), value.to_binding()));
        let layers = [
            Json::from(self.ctx.clone()).into(),
            Binding::from_map(data),
            self.workload.clone().into(),
        ];
        names.add_name(NamePrecedence::Fixed, "ctx", Binding::from_layers(layers));
        names
    }
}
