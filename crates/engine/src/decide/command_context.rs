//! Collects the context of a command.

use std::sync::Arc;

use noetl_playbook::command_context::{CommandContext, StepDataLabels, remove_data_alias};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::paths;
use noetl_playbook::template::{FetchNeed, RenderErrorKind};
use noetl_types::{Json, JsonMap};

use super::DecisionError;
use super::Result;
use super::draft::Draft;
use super::environment::{ExecutionEnvironment, TemplateFocus};

use crate::payload::EventData;
use crate::plan::{NeededRead, NeededValues, ReadBase};
use crate::state::{RetainedOutput, StepOutput};

/// Collects the context of a command of a step, including its item in a loop.
pub(super) fn collect_context(
    draft: &Draft<'_>,
    step: StepIndex,
    item: Option<Json>,
) -> Result<CommandContext> {
    let pass = draft.active_pass(step)?;
    let focus = TemplateFocus {
        arrival: Some(&pass.arrival),
        ending: None,
        variables: Some(&pass.variables),
        iter: None,
    };
    let collector = ContextCollector {
        environment: draft.environment(step, focus),
        draft,
        context: CommandContext::default(),
    };
    let step_plan = draft.step_plan(step);
    let mut context = match &step_plan.context_needs.values {
        NeededValues::Everything => collector.collect_everything(),
        NeededValues::Reads(reads) => collector.collect_reads(reads)?,
    };
    if let (true, Some(item), Some(looping)) =
        (step_plan.context_needs.item, item, &step_plan.loop_plan)
    {
        context.values.insert(looping.iterator.clone().into_shared(), item);
    }
    Ok(context)
}

struct ContextCollector<'c, 'd> {
    environment: ExecutionEnvironment<'c>,
    draft: &'c Draft<'d>,
    context: CommandContext,
}

impl ContextCollector<'_, '_> {
    fn collect_reads(mut self, reads: &[NeededRead]) -> Result<CommandContext> {
        for read in reads {
            self.collect_read(read)?;
        }
        Ok(self.context)
    }

    fn collect_read(&mut self, read: &NeededRead) -> Result<()> {
        let base = &read.path[..read.base.len()];
        if self.context.steps.contains_key(&*path_key(base)) {
            return Ok(());
        }
        let is_whole = read.path.len() == base.len();
        let step_data = self.find_step_data(&read.base);
        if is_whole && let Some((labels, output)) = step_data {
            self.add_step_data(base, labels, &output);
            return Ok(());
        }
        if is_whole && read.base == ReadBase::Workload && self.add_workload_reference() {
            return Ok(());
        }
        match read.value.render(&self.environment) {
            Ok(rendered) => {
                let value = rendered.value;
                // Undefined values are omitted, so that they are undefined on the worker too.
                if !value.is_null()
                    || read.is_defined.render_condition(&self.environment).unwrap_or(false)
                {
                    paths::set_at_path(&mut self.context.values, &read.path, value);
                }
                Ok(())
            }
            Err(error) => match (step_data, error.kind) {
                (Some((labels, output)), _) => {
                    self.add_step_data(base, labels, &output);
                    Ok(())
                }
                (None, RenderErrorKind::Needs(FetchNeed::Payload { reference })) => {
                    Err(DecisionError::NeedsPayload(reference))
                }
                (None, _) => {
                    self.add_whole_value(&read.base);
                    Ok(())
                }
            },
        }
    }

    /// Returns the data of the step that a read starts from.
    fn find_step_data(&self, base: &ReadBase) -> Option<(StepDataLabels, StepOutput)> {
        let (step, output) = match base {
            ReadBase::Name(name) if self.environment.find_variable(name).is_some() => return None,
            ReadBase::Ctx(name) if self.draft.state.ctx().get(name).is_some() => return None,
            ReadBase::Name(name) => match self.environment.find_output(name) {
                None if &**name == "result" && self.environment.workload_value(name).is_none() => {
                    self.environment.arrival_output()?
                }
                found => found?,
            },
            ReadBase::Ctx(name) => self.environment.find_output(name)?,
            ReadBase::StepsData(name) => self.latest_output(name)?,
            ReadBase::StepsFact | ReadBase::Workload => return None,
        };
        Some((self.environment.task_labels(step, output), output.clone()))
    }

    fn latest_output(&self, name: &str) -> Option<(StepIndex, &StepOutput)> {
        let step = self.draft.plan.find_step(name)?;
        let state = self.draft.state.step_state(step)?;
        Some((step, state.last_output().filter(|_| state.run.is_none())?))
    }

    /// Adds the data of a step.
    fn add_step_data(&mut self, path: &[Arc<str>], labels: StepDataLabels, output: &StepOutput) {
        let key = path_key(path);
        let value = match &output.data {
            EventData::Inline(value) if labels == StepDataLabels::Loop => {
                remove_data_alias(value.clone())
            }
            EventData::Inline(value) => value.clone(),
            EventData::External(reference) => {
                self.context.references.insert(Arc::clone(&key));
                reference.as_json().clone()
            }
        };
        paths::set_at_path(&mut self.context.values, path, value);
        self.context.steps.insert(key, labels);
    }

    fn add_workload_reference(&mut self) -> bool {
        let Some(EventData::External(reference)) =
            self.draft.state.start_event().map(|s| &s.workload)
        else {
            return false;
        };
        let key: Arc<str> = "workload".into();
        self.context.references.insert(Arc::clone(&key));
        self.context.values.insert(key, reference.as_json().clone());
        true
    }

    /// Adds a whole value if one of its parts is too large to render.
    fn add_whole_value(&mut self, base: &ReadBase) {
        let (path, value): (&[Arc<str>], _) = match base {
            ReadBase::Name(name) => {
                (std::slice::from_ref(name), self.environment.find_variable(name))
            }
            ReadBase::Ctx(name) => {
                let value = self.draft.state.ctx().get(name).cloned();
                let path = ["ctx".into(), Arc::clone(name)];
                if let Some(value) = value {
                    paths::set_at_path(&mut self.context.values, &path, value);
                }
                return;
            }
            ReadBase::Workload | ReadBase::StepsData(_) | ReadBase::StepsFact => return,
        };
        if let Some(value) = value.cloned() {
            paths::set_at_path(&mut self.context.values, path, value);
        }
    }

    /// Collects everything that a template can see.
    fn collect_everything(mut self) -> CommandContext {
        self.context.is_complete = true;
        let state = &self.draft.state;
        let mut values = JsonMap::from([("ctx".into(), state.ctx().clone())]);
        if let Some(EventData::Inline(workload)) =
            state.start_event().map(|started| &started.workload)
        {
            values.insert("workload".into(), workload.clone());
        }
        if let Some(event) = self.environment.ending_event() {
            values.insert("event".into(), event);
        }
        self.context.values = values;
        self.add_workload_reference();
        if let Some(Json::Map(variables)) = self.environment.own_variables() {
            self.context.variables = (**variables).clone();
        }
        for name in ["path", "version", "catalog_id", "job", "step", "node_name", "server_url"] {
            if let Some(value) = self.environment.engine_value(name) {
                self.context.values.insert(name.into(), value);
            }
        }
        if let Some((step, output)) = self.environment.arrival_output() {
            let (labels, output) = (self.environment.task_labels(step, output), output.clone());
            self.add_step_data(&["result".into()], labels, &output);
        }
        for step in self.draft.plan.graph().steps() {
            self.add_step(step);
        }
        self.context
    }

    /// Adds the data and the facts of a step.
    fn add_step(&mut self, step: StepIndex) {
        let Some(state) = self.draft.state.step_state(step) else {
            return;
        };
        let name = self.draft.plan.graph().name(step);
        if let Some(output) = &state.output {
            let labels = self.environment.task_labels(step, output);
            self.add_step_data(std::slice::from_ref(name), labels, output);
        }
        for (fact, value) in self.environment.plain_facts(name) {
            let path = ["steps".into(), Arc::clone(name), fact];
            paths::set_at_path(&mut self.context.values, &path, value);
        }
        let latest = state.latest.as_ref().filter(|_| state.run.is_none());
        if let Some(RetainedOutput::Failed(output)) = latest.map(|latest| &latest.left) {
            let labels = self.environment.task_labels(step, output);
            self.add_step_data(&["steps".into(), Arc::clone(name), "data".into()], labels, output);
        }
    }
}

fn path_key(path: &[Arc<str>]) -> Arc<str> {
    match path {
        [only] => Arc::clone(only),
        several => several.join(".").into(),
    }
}
