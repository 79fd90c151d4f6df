//! Which name means what, and which of two equal names wins.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_playbook::template::{Binding, MapScope, Output, OutputPlace, StepData};
use noetl_types::{Json, JsonMap};

/// The data of a successful run of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StepValue {
    /// The data.
    pub(crate) data: Json,
    /// For a pipeline, the data of each of its tasks.
    pub(crate) labels: Option<JsonMap>,
}

impl StepValue {
    fn binding(&self) -> Binding {
        let data = StepData::new(self.data.clone());
        Binding::Step(Arc::new(match &self.labels {
            Some(labels) => data.with_labels(Json::from(labels.clone())),
            None => data,
        }))
    }
}

/// All that templates of a step can see of the execution, as of one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct View {
    /// The path of the playbook.
    pub(crate) path: Arc<str>,
    /// The recorded input.
    pub(crate) workload: Json,
    /// The variables of the execution.
    pub(crate) ctx: JsonMap,
    /// The data of every step that has succeeded.
    pub(crate) data: BTreeMap<Arc<str>, StepValue>,
    /// What `steps` holds.
    pub(crate) steps: JsonMap,
    /// The data of the step whose arc led here.
    pub(crate) result: Json,
    /// What `set: step.x` wrote in this run of the step.
    pub(crate) vars: JsonMap,
}

/// How strong a name is, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Names of the engine that a playbook may reuse.
    Engine,
    /// Keys of the input.
    Workload,
    /// Names of steps.
    StepData,
    /// Variables of the execution.
    Ctx,
    /// Labels of a pipeline.
    Label,
    /// Pipeline variables and variables of the run.
    Variable,
    /// The iterator and what goes with it.
    Iterator,
    /// `output`, `event`, `iter`, `_prev` and their like.
    Place,
    /// Input of the task.
    Input,
    /// Names that nothing shadows.
    Fixed,
}

/// Names with their strength.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Vec<(Rank, Arc<str>, Binding)>);

impl Names {
    /// Adds a name.
    pub(crate) fn put(
        &mut self,
        rank: Rank,
        name: impl Into<Arc<str>>,
        binding: impl Into<Binding>,
    ) {
        self.0.push((rank, name.into(), binding.into()));
    }

    /// Adds every entry of a map.
    pub(crate) fn put_all(&mut self, rank: Rank, entries: &JsonMap) {
        for (name, value) in entries {
            self.put(rank, Arc::clone(name), value.clone());
        }
    }

    /// Adds `output`, its other name `outcome`, and `error`. The envelope holds all but the data.
    pub(crate) fn put_output(&mut self, place: OutputPlace, envelope: Json, data: &Json) {
        let error = envelope.get("error").cloned().unwrap_or_default();
        let output = Output::new(place, envelope, data.clone());
        self.put(
            Rank::Place,
            "outcome",
            Binding::Output(Arc::new(output.clone().as_outcome())),
        );
        self.put(Rank::Place, "output", Binding::Output(Arc::new(output)));
        self.put(Rank::Place, "error", error);
    }

    /// The scope in which the stronger of two equal names is found.
    pub(crate) fn scope(&self) -> MapScope {
        let mut entries = self.0.clone();
        entries.sort_by_key(|(rank, _, _)| *rank);
        entries
            .into_iter()
            .fold(MapScope::new(), |scope, (_, name, binding)| {
                scope.with(name, binding)
            })
    }
}

impl View {
    /// The names that every template of a step sees.
    pub(crate) fn names(&self, step: &str) -> Names {
        let mut names = Names::default();
        for name in ["step", "node_name"] {
            names.put(Rank::Engine, name, Json::from(step));
        }
        names.put(Rank::Engine, "path", Json::from(&*self.path));
        names.put(Rank::Engine, "result", self.result.clone());
        let empty = JsonMap::new();
        names.put_all(Rank::Workload, self.workload.as_map().unwrap_or(&empty));
        for (step, value) in &self.data {
            names.put(Rank::StepData, Arc::clone(step), value.binding());
        }
        names.put_all(Rank::Ctx, &self.ctx);
        names.put_all(Rank::Variable, &self.vars);
        names.put(Rank::Fixed, "workload", self.workload.clone());
        names.put(Rank::Fixed, "steps", Json::from(self.steps.clone()));
        // `ctx` finds set variables, then data of steps, then keys of the input.
        let data = self
            .data
            .iter()
            .map(|(step, value)| (Arc::clone(step), value.binding()));
        let layers = [
            Json::from(self.ctx.clone()).into(),
            Binding::map(data),
            self.workload.clone().into(),
        ];
        names.put(Rank::Fixed, "ctx", Binding::layers(layers));
        names
    }
}
