//! Collecting what a command carries.

use std::sync::Arc;

use noetl_playbook::carried::{Carried, Labels, without_data};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::paths;
use noetl_playbook::template::{Need, RenderErrorKind};
use noetl_types::{Json, JsonMap};

use super::Refused;
use super::draft::Draft;
use super::scope::{Focus, RunScope};

use crate::payload::Data;
use crate::plan::{CarriedRead, CarriedValues, ReadBase};
use crate::state::{Left, Output};

/// What a command of a step carries; its item, where it is one of a loop, included.
pub(super) fn collect(
    draft: &Draft<'_>,
    step: StepIndex,
    item: Option<Json>,
) -> Result<Carried, Refused> {
    let run = draft.run(step)?;
    let focus = Focus {
        arrival: Some(&run.arrival),
        ending: None,
        variables: Some(&run.variables),
        iter: None,
    };
    let collector = Collector {
        scope: draft.scope(step, focus),
        draft,
        carried: Carried::default(),
    };
    let facts = draft.step(step);
    let mut carried = match &facts.carry.values {
        CarriedValues::Everything => collector.everything(),
        CarriedValues::Reads(reads) => collector.reads(reads)?,
    };
    if let (true, Some(item), Some(looping)) = (facts.carry.item, item, &facts.looping) {
        carried
            .values
            .insert(looping.iterator.clone().into_shared(), item);
    }
    Ok(carried)
}

struct Collector<'c> {
    scope: RunScope<'c>,
    draft: &'c Draft<'c>,
    carried: Carried,
}

impl Collector<'_> {
    fn reads(mut self, reads: &[CarriedRead]) -> Result<Carried, Refused> {
        for read in reads {
            self.read(read)?;
        }
        Ok(self.carried)
    }

    fn read(&mut self, read: &CarriedRead) -> Result<(), Refused> {
        let base = &read.path[..read.base.len()];
        if self.carried.steps.contains_key(&*path_key(base)) {
            return Ok(());
        }
        let is_whole = read.path.len() == base.len();
        let behind = self.data_behind(&read.base);
        if is_whole && let Some((labels, output)) = behind {
            self.put_data(base, labels, &output);
            return Ok(());
        }
        if is_whole && read.base == ReadBase::Workload && self.put_workload_reference() {
            return Ok(());
        }
        match read.value.render(&self.scope) {
            Ok(rendered) => {
                let value = rendered.value;
                // Nothing at all is not carried, so that the worker finds nothing at all.
                if !value.is_null() || read.is_defined.test(&self.scope).unwrap_or(false) {
                    paths::put_at(&mut self.carried.values, &read.path, value);
                }
                Ok(())
            }
            Err(error) => match (behind, error.kind) {
                (Some((labels, output)), _) => {
                    self.put_data(base, labels, &output);
                    Ok(())
                }
                (None, RenderErrorKind::Needs(Need::Payload { reference })) => {
                    Err(Refused::NeedsPayload(reference))
                }
                (None, _) => {
                    self.put_whole(&read.base);
                    Ok(())
                }
            },
        }
    }

    /// The data of a step that a read begins with.
    fn data_behind(&self, base: &ReadBase) -> Option<(Labels, Output)> {
        let (step, output) = match base {
            ReadBase::Name(name) if self.scope.variable(name).is_some() => return None,
            ReadBase::Ctx(name) if self.draft.state.ctx().get(name).is_some() => return None,
            ReadBase::Name(name) => match self.scope.output_of(name) {
                None if &**name == "result" && self.scope.input(name).is_none() => {
                    self.scope.led_here()?
                }
                found => found?,
            },
            ReadBase::Ctx(name) => self.scope.output_of(name)?,
            ReadBase::StepsData(name) => self.latest_output(name)?,
            ReadBase::StepsFact | ReadBase::Workload => return None,
        };
        Some((self.scope.labels(step, output), output.clone()))
    }

    fn latest_output(&self, name: &str) -> Option<(StepIndex, &Output)> {
        let step = self.draft.plan.find(name)?;
        let state = self.draft.state.step(step)?;
        Some((step, state.left_behind().filter(|_| state.run.is_none())?))
    }

    /// Carries the data of a step as what it is.
    fn put_data(&mut self, path: &[Arc<str>], labels: Labels, output: &Output) {
        let key = path_key(path);
        let value = match &output.data {
            Data::Inline(value) if labels == Labels::Loop => without_data(value.clone()),
            Data::Inline(value) => value.clone(),
            Data::External(reference) => {
                self.carried.references.insert(Arc::clone(&key));
                reference.as_json().clone()
            }
        };
        paths::put_at(&mut self.carried.values, path, value);
        self.carried.steps.insert(key, labels);
    }

    fn put_workload_reference(&mut self) -> bool {
        let Some(Data::External(reference)) = self.draft.state.started().map(|s| &s.workload)
        else {
            return false;
        };
        let key: Arc<str> = "workload".into();
        self.carried.references.insert(Arc::clone(&key));
        self.carried.values.insert(key, reference.as_json().clone());
        true
    }

    /// Carries all of a value whose part is too big to be rendered.
    fn put_whole(&mut self, base: &ReadBase) {
        let (path, value): (&[Arc<str>], _) = match base {
            ReadBase::Name(name) => (std::slice::from_ref(name), self.scope.variable(name)),
            ReadBase::Ctx(name) => {
                let value = self.draft.state.ctx().get(name).cloned();
                let path = ["ctx".into(), Arc::clone(name)];
                if let Some(value) = value {
                    paths::put_at(&mut self.carried.values, &path, value);
                }
                return;
            }
            ReadBase::Workload | ReadBase::StepsData(_) | ReadBase::StepsFact => return,
        };
        if let Some(value) = value.cloned() {
            paths::put_at(&mut self.carried.values, path, value);
        }
    }

    /// All that a template of the run can see.
    fn everything(mut self) -> Carried {
        self.carried.everything = true;
        let state = &self.draft.state;
        let mut values = JsonMap::from([("ctx".into(), state.ctx().clone())]);
        if let Some(Data::Inline(workload)) = state.started().map(|started| &started.workload) {
            values.insert("workload".into(), workload.clone());
        }
        self.carried.values = values;
        self.put_workload_reference();
        if let Some(Json::Map(variables)) = self.scope.own_variables() {
            self.carried.variables = (**variables).clone();
        }
        for name in [
            "path",
            "version",
            "catalog_id",
            "job",
            "step",
            "node_name",
            "server_url",
        ] {
            if let Some(value) = self.scope.engine_value(name) {
                self.carried.values.insert(name.into(), value);
            }
        }
        if let Some((step, output)) = self.scope.led_here() {
            let (labels, output) = (self.scope.labels(step, output), output.clone());
            self.put_data(&["result".into()], labels, &output);
        }
        for step in self.draft.plan.graph().steps() {
            self.put_step(step);
        }
        self.carried
    }

    /// Data and facts of a step.
    fn put_step(&mut self, step: StepIndex) {
        let Some(state) = self.draft.state.step(step) else {
            return;
        };
        let name = self.draft.plan.graph().name(step);
        if let Some(output) = &state.output {
            let labels = self.scope.labels(step, output);
            self.put_data(std::slice::from_ref(name), labels, output);
        }
        for (fact, value) in self.scope.plain_facts(name) {
            let path = ["steps".into(), Arc::clone(name), fact];
            paths::put_at(&mut self.carried.values, &path, value);
        }
        let latest = state.latest.as_ref().filter(|_| state.run.is_none());
        if let Some(Left::Failed(output)) = latest.map(|latest| &latest.left) {
            let labels = self.scope.labels(step, output);
            self.put_data(
                &["steps".into(), Arc::clone(name), "data".into()],
                labels,
                output,
            );
        }
    }
}

fn path_key(path: &[Arc<str>]) -> Arc<str> {
    match path {
        [only] => Arc::clone(only),
        several => several.join(".").into(),
    }
}
