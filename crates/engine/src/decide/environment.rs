//! Template environment of an execution on the server.
//!
//! Owns the precedence of names and their meaning. Every value comes from the state, and so from
//! the log. A name is resolved only when a template reads it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use noetl_playbook::command_context::PayloadLookup;
use noetl_playbook::command_context::{
    StepDataLabels, data_by_label, external_data, plain_binding, to_step_data,
};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::template::{
    Binding, FetchNeed, FuelBudget, OutputPlace, TaskOutput as OutputView, TemplateData,
    TemplateEnvironment, TemplateLimits,
};
use noetl_types::{Json, JsonMap, TaskError, Timestamp};

use crate::job::job_variable;
use crate::payload::{EventData, NewPayload, Reference};
use crate::plan::Plan;
use crate::state::{Arrival, CommandOutcome, ExecutionState, StepOutput, StepStatus, TriggerEvent};

/// Readable payloads: fetched for the decision, or made by it.
#[derive(Clone, Copy)]
pub(super) struct PayloadSource<'s> {
    pub(super) fetched: &'s dyn PayloadLookup,
    pub(super) fresh: &'s [NewPayload],
}

impl PayloadLookup for PayloadSource<'_> {
    fn get_payload(&self, uri: &str) -> Option<Json> {
        let mut fresh = self.fresh.iter();
        let fresh = fresh.find(|payload| payload.reference.uri() == uri);
        fresh.map_or_else(|| self.fetched.get_payload(uri), |payload| Some(payload.content.clone()))
    }
}

impl PayloadSource<'_> {
    pub(super) fn get(&self, reference: &Reference) -> Option<Json> {
        PayloadLookup::get_payload(self, reference.uri())
    }

    /// Converts data for templates. For the data of a step, its task labels are known.
    fn view_data(&self, data: &EventData, labels: Option<&StepDataLabels>) -> TemplateData {
        match data {
            EventData::Inline(value) => TemplateData::Inline(value.clone()),
            EventData::External(reference) => {
                external_data(reference.as_json().clone(), self.get(reference), labels)
            }
        }
    }
}

/// The part of the environment that is specific to a template.
#[derive(Clone, Copy)]
pub(super) struct TemplateFocus<'s> {
    /// Arrival that led here.
    pub(super) arrival: Option<&'s Arrival>,
    /// Outcome of the step, for its own `set` and arcs.
    pub(super) ending: Option<StepEnding<'s>>,
    /// Variables that `set` wrote under `step.`.
    pub(super) variables: Option<&'s Json>,
    /// Variables that `set` wrote under `iter.`.
    pub(super) iter: Option<&'s Json>,
}

/// Outcome of a step.
#[derive(Clone, Copy)]
pub(super) struct StepEnding<'s> {
    pub(super) event: TriggerEvent,
    /// `None` if it was skipped.
    pub(super) outcome: Option<&'s CommandOutcome>,
    /// The fields of `output` besides the data, computed on first use.
    pub(super) envelope: &'s OnceCell<Json>,
}

impl<'s> TemplateFocus<'s> {
    /// Focus of a step that is about to be entered.
    pub(super) fn for_entry(arrival: &'s Arrival) -> Self {
        Self { arrival: Some(arrival), ending: None, variables: None, iter: None }
    }
}

/// Template environment of an execution on the server.
pub(super) struct ExecutionEnvironment<'s> {
    plan: &'s Plan,
    state: &'s ExecutionState,
    step: StepIndex,
    focus: TemplateFocus<'s>,
    payloads: PayloadSource<'s>,
    now: Timestamp,
    budget: Option<&'s FuelBudget>,
}

impl<'s> ExecutionEnvironment<'s> {
    pub(super) fn new(
        plan: &'s Plan,
        state: &'s ExecutionState,
        step: StepIndex,
        focus: TemplateFocus<'s>,
    ) -> Self {
        Self {
            plan,
            state,
            step,
            focus,
            payloads: PayloadSource {
                fetched: &noetl_playbook::command_context::EmptyPayloads,
                fresh: &[],
            },
            now: Timestamp::UNIX_EPOCH,
            budget: None,
        }
    }

    pub(super) fn with_budget(self, budget: &'s FuelBudget) -> Self {
        Self { budget: Some(budget), ..self }
    }

    pub(super) fn with_payloads(self, payloads: PayloadSource<'s>) -> Self {
        Self { payloads, ..self }
    }

    pub(super) fn with_time(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// Variables that `set` wrote under `step.` in this step pass.
    pub(super) fn own_variables(&self) -> Option<&'s Json> {
        self.focus.variables
    }

    /// Finds a variable of the step or of the execution.
    pub(super) fn find_variable(&self, name: &str) -> Option<&'s Json> {
        let own = self.focus.variables.and_then(|variables| variables.get(name));
        own.or_else(|| self.state.ctx.get(name))
    }

    /// Resolves a name that is not reserved by the language.
    fn resolve_bare_name(&self, name: &str) -> Option<Binding> {
        if let Some(value) = self.find_variable(name) {
            return Some(Binding::Value(value.clone()));
        }
        self.step_binding(name)
            .or_else(|| self.workload_value(name))
            .or_else(|| self.engine_binding(name))
    }

    /// Data of the last successful pass of a step.
    fn step_binding(&self, name: &str) -> Option<Binding> {
        let (index, output) = self.find_output(name)?;
        Some(self.output_binding(index, output))
    }

    /// Finds a step by name and the data of its last successful pass.
    pub(super) fn find_output(&self, name: &str) -> Option<(StepIndex, &'s StepOutput)> {
        let index = self.plan.find_step(name)?;
        // In its own `set` and arcs, the name of a step refers to its current output.
        if index == self.step
            && let Some(ending) = self.focus.ending
            && let Some(CommandOutcome { output, error: None, .. }) = ending.outcome
        {
            return Some((index, output));
        }
        Some((index, self.state.step_state(index)?.output.as_ref()?))
    }

    fn output_binding(&self, step: StepIndex, output: &StepOutput) -> Binding {
        let labels = self.task_labels(step, output);
        let data = self.payloads.view_data(&output.data, Some(&labels));
        Binding::Step(Arc::new(to_step_data(data, &labels)))
    }

    pub(super) fn task_labels(&self, step: StepIndex, output: &StepOutput) -> StepDataLabels {
        match &output.labels {
            Some(by_label) => StepDataLabels::Data(by_label.clone()),
            None => self.plan.step(step).labels.clone(),
        }
    }

    /// Value of a key of the execution's input.
    pub(super) fn workload_value(&self, name: &str) -> Option<Binding> {
        match &self.state.start_event()?.workload {
            EventData::Inline(workload) => workload.get(name).cloned().map(Binding::Value),
            EventData::External(reference) => match self.payloads.get(reference) {
                Some(workload) => workload.get(name).cloned().map(Binding::Value),
                None => {
                    Some(Binding::Needs(FetchNeed::Payload { reference: reference.uri().into() }))
                }
            },
        }
    }

    fn engine_binding(&self, name: &str) -> Option<Binding> {
        if name == "result" {
            return Some(match self.arrival_output() {
                Some((step, output)) => self.output_binding(step, output),
                None => Binding::Value(Json::Null),
            });
        }
        self.engine_value(name).map(Binding::Value)
    }

    /// Value of an engine name that a playbook may shadow.
    pub(super) fn engine_value(&self, name: &str) -> Option<Json> {
        let started = self.state.start_event()?;
        match name {
            "path" => Some(Json::from(&started.path)),
            "version" => Some(Json::from(started.version)),
            "catalog_id" => Some(Json::from(started.catalog_id.to_string())),
            "job" => Some(job_variable(started.execution_id)),
            "step" | "node_name" => Some(Json::from(&self.plan.step(self.step).name)),
            "server_url" => started.server_url.as_ref().map(Json::from),
            _ => None,
        }
    }

    /// Data of the step whose arc led here.
    pub(super) fn arrival_output(&self) -> Option<(StepIndex, &'s StepOutput)> {
        let arrival = self.focus.arrival?;
        Some((arrival.from?, arrival.output.as_ref()?))
    }

    fn output_variable(&self, name: &str) -> Option<Binding> {
        let ending = self.focus.ending?;
        let Some(outcome) = ending.outcome else {
            return Some(Binding::Value(Json::Null));
        };
        let tool = self.plan.step(self.step).tool;
        let envelope = ending.envelope.get_or_init(|| output_envelope(tool, outcome)).clone();
        let data = self.payloads.view_data(&outcome.output.data, None);
        let view = OutputView::new(OutputPlace::Set, envelope, data);
        Some(Binding::Output(Arc::new(if name == "outcome" { view.as_outcome() } else { view })))
    }

    fn error_variable(&self) -> Option<Binding> {
        let outcome = self.focus.ending?.outcome;
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        Some(Binding::Value(error.map_or(Json::Null, TaskError::to_json)))
    }

    fn event_variable(&self) -> Option<Binding> {
        let (event, step, payload) = match (self.focus.ending, self.focus.arrival) {
            (Some(ending), _) => {
                let payload = self.event_payload(ending.event, ending.outcome);
                (ending.event, Some(self.step), payload)
            }
            (None, Some(arrival)) => (arrival.event, arrival.from, self.arrival_payload(arrival)),
            (None, None) => return None,
        };
        let step = step.map_or("".into(), |step| Json::from(&self.plan.step(step).name));
        Some(Binding::from_map([
            ("name", Binding::Value(event.as_str().into())),
            ("step", Binding::Value(step)),
            ("payload", payload),
        ]))
    }

    /// Value of `event` in the final step, whose tasks can read it.
    pub(super) fn ending_event(&self) -> Option<Json> {
        let arrival = self.focus.arrival.filter(|a| a.event == TriggerEvent::RunEnding)?;
        Some(Json::object([
            ("name", arrival.event.as_str().into()),
            ("step", "".into()),
            ("payload", self.ending_payload(arrival)),
        ]))
    }

    /// Value of `event.payload`: the data of the step, or its error.
    fn event_payload(&self, event: TriggerEvent, outcome: Option<&CommandOutcome>) -> Binding {
        match (event, outcome) {
            (TriggerEvent::CallError, Some(outcome)) => {
                let error = outcome.error.as_ref();
                Binding::Value(error.map_or(Json::Null, TaskError::to_json))
            }
            (_, Some(outcome)) => self.data_binding(self.step, &outcome.output),
            (_, None) => Binding::Value(Json::Null),
        }
    }

    fn arrival_payload(&self, arrival: &Arrival) -> Binding {
        match (arrival.event, self.arrival_output()) {
            (TriggerEvent::PlaybookStarted, _) => {
                self.lookup_name("workload").unwrap_or(Json::Null.into())
            }
            (TriggerEvent::RunEnding, _) => Binding::Value(self.ending_payload(arrival)),
            (TriggerEvent::CallError, _) => {
                let error = arrival.error.as_ref();
                Binding::Value(error.map_or(Json::Null, |error| error.to_json()))
            }
            (_, Some((step, output))) => self.data_binding(step, output),
            (_, None) => Binding::Value(Json::Null),
        }
    }

    /// Status and error with which the execution is about to end, and the steps that failed or were
    /// cancelled.
    fn ending_payload(&self, arrival: &Arrival) -> Json {
        let status = self.state.ending_status().map(|status| Json::from(status.as_str()));
        let error = arrival.error.as_ref();
        let name = |step: StepIndex| Json::from(&self.plan.step(step).name);
        let failed = self.state.uncaught_failure().map(|(_, steps)| steps).unwrap_or_default();
        let is_cancelled = |step: &StepIndex| {
            let latest = self.state.step_state(*step).and_then(|step| step.latest.as_ref());
            latest.is_some_and(|latest| latest.status == StepStatus::Cancelled)
        };
        let cancelled = self.plan.graph().steps().filter(is_cancelled);
        Json::object([
            ("status", status.unwrap_or_default()),
            ("error", error.map_or(Json::Null, |error| error.to_json())),
            ("failed_steps", Json::list(failed.iter().copied().map(name))),
            ("cancelled_steps", Json::list(cancelled.map(name))),
        ])
    }

    fn data_binding(&self, step: StepIndex, output: &StepOutput) -> Binding {
        let labels = self.task_labels(step, output);
        plain_binding(self.payloads.view_data(&output.data, Some(&labels)))
    }

    /// `steps.<name>`
    fn step_facts(&self, name: &str) -> Option<Binding> {
        let index = self.plan.find_step(name)?;
        let state = self.state.step_state(index)?;
        if state.run.is_none() && state.latest.is_none() && !state.is_dead {
            return None;
        }
        let facts = self.plain_facts(name).map(|(fact, value)| (fact, Binding::Value(value)));
        let mut facts: BTreeMap<Arc<str>, Binding> = facts.collect();
        let output = state.last_output().filter(|_| state.run.is_none());
        let data = output.map(|output| self.data_binding(index, output));
        facts.insert("data".into(), data.unwrap_or(Binding::Value(Json::Null)));
        Some(Binding::Map(Arc::new(facts)))
    }

    /// Facts about the last pass of a step, except its data. Absent facts are null.
    pub(super) fn plain_facts(&self, name: &str) -> impl Iterator<Item = (Arc<str>, Json)> + use<> {
        let state = self.plan.find_step(name).and_then(|step| self.state.step_state(step));
        let pass = state.and_then(|state| state.run.as_ref());
        let latest = state.and_then(|state| state.latest.as_ref()).filter(|_| pass.is_none());
        let status = match (pass, latest) {
            (Some(_), _) => "RUNNING",
            (None, Some(latest)) => latest.status.as_str(),
            (None, None) => StepStatus::Skipped.as_str(),
        };
        let started = pass.map(|pass| pass.entered_at);
        let output = latest.and(state).and_then(|state| state.last_output());
        let reference = match output.map(|output| &output.data) {
            Some(EventData::External(reference)) => Some(reference.uri()),
            Some(EventData::Inline(_)) | None => None,
        };
        let error = latest.and_then(|latest| latest.error.as_ref());
        let facts: [(&str, Json); 6] = [
            ("status", status.into()),
            ("run", state.map(|state| state.runs).into()),
            ("error", error.map(|error| error.to_json()).into()),
            ("ref", reference.into()),
            ("started_at", started.or(latest.and_then(|latest| latest.started_at)).into()),
            ("ended_at", latest.map(|latest| latest.ended_at).into()),
        ];
        facts.into_iter().map(|(fact, value)| (fact.into(), value))
    }
}

/// The fields of `output` besides the data for most commands: success in the first attempt.
static SUCCESS_ENVELOPE: LazyLock<Json> =
    LazyLock::new(|| full_envelope(ToolKind::Noop, &CommandOutcome::empty_success()));

/// Returns the fields of `output` besides the data.
fn output_envelope(tool: ToolKind, outcome: &CommandOutcome) -> Json {
    let has_facts = matches!(tool, ToolKind::Http | ToolKind::Postgres | ToolKind::Python);
    let is_default = !has_facts
        && outcome.error.is_none()
        && outcome.attempt == 1
        && outcome.duration.is_none()
        && matches!(outcome.output.data, EventData::Inline(_));
    if is_default {
        return SUCCESS_ENVELOPE.clone();
    }
    full_envelope(tool, outcome)
}

fn full_envelope(tool: ToolKind, outcome: &CommandOutcome) -> Json {
    let error = outcome.error.as_ref();
    let mut envelope = JsonMap::from([
        ("status".into(), Json::from(if error.is_none() { "ok" } else { "error" })),
        ("error".into(), error.map_or(Json::Null, TaskError::to_json)),
        (
            "meta".into(),
            Json::object([
                (
                    "task",
                    error.and_then(|error| error.task.as_ref()).map_or(Json::Null, Json::from),
                ),
                ("attempt", Json::from(outcome.attempt)),
                (
                    "duration_ms",
                    outcome.duration.map_or(Json::Null, |duration| duration.as_ms().into()),
                ),
            ]),
        ),
    ]);
    if let EventData::External(reference) = &outcome.output.data {
        envelope.insert("ref".into(), reference.uri().into());
    }
    if let Some((name, facts)) = tool_facts(tool, outcome) {
        envelope.insert(name.into(), facts);
    }
    Json::from(envelope)
}

/// Tool-specific fields of `output`, as far as data and error contain them.
fn tool_facts(tool: ToolKind, outcome: &CommandOutcome) -> Option<(&'static str, Json)> {
    let code = outcome.error.as_ref().and_then(|error| error.code.clone());
    if tool == ToolKind::Http {
        let EventData::Inline(data) = &outcome.output.data else {
            return None;
        };
        let field = |key: &str| data.get(key).cloned().unwrap_or_default();
        let facts = [("status", field("status_code")), ("headers", field("headers"))];
        return Some(("http", Json::object(facts)));
    }
    if tool == ToolKind::Postgres {
        let code = code.unwrap_or_default();
        return Some(("pg", Json::object([("code", code.clone()), ("sqlstate", code)])));
    }
    if tool == ToolKind::Python {
        let details = outcome.error.as_ref().and_then(|error| error.details.clone());
        return Some(("py", details.unwrap_or_default()));
    }
    None
}

impl TemplateEnvironment for ExecutionEnvironment<'_> {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        match name {
            "execution_id" => {
                let id = self.state.execution_id()?;
                Some(Binding::Value(id.to_string().into()))
            }
            "workload" => Some(plain_binding(
                self.payloads.view_data(&self.state.start_event()?.workload, None),
            )),
            "ctx" | "steps" => Some(Binding::Members(name.into())),
            "keychain" => None,
            "output" | "outcome" => {
                self.output_variable(name).or_else(|| self.resolve_bare_name(name))
            }
            "error" => self.error_variable().or_else(|| self.resolve_bare_name(name)),
            "event" => self.event_variable().or_else(|| self.resolve_bare_name(name)),
            "iter" => {
                let iter = self.focus.iter.cloned();
                Some(Binding::Value(iter.unwrap_or_else(Json::empty_map)))
            }
            "results" => match self.task_results() {
                Some(results) => Some(results),
                None => self.resolve_bare_name(name),
            },
            _ => self.resolve_bare_name(name),
        }
    }

    fn lookup_member(&self, root: &str, key: &str) -> Option<Binding> {
        match root {
            "ctx" => match self.state.ctx.get(key) {
                Some(value) => Some(Binding::Value(value.clone())),
                None => self.step_binding(key).or_else(|| self.workload_value(key)),
            },
            "steps" => self.step_facts(key),
            _ => None,
        }
    }

    fn lookup_all(&self, root: &str) -> Option<Binding> {
        let names = self.plan.graph().steps().map(|step| self.plan.graph().name(step));
        match root {
            "ctx" => {
                let data = names.filter_map(|name| Some((name.clone(), self.step_binding(name)?)));
                Some(Binding::from_layers([
                    Binding::Value(self.state.ctx.clone()),
                    Binding::from_map(data),
                    self.lookup_name("workload")?,
                ]))
            }
            "steps" => Some(Binding::from_map(
                names.filter_map(|name| Some((name.clone(), self.step_facts(name)?))),
            )),
            _ => None,
        }
    }

    fn limits(&self) -> TemplateLimits {
        self.plan.limits()
    }

    fn budget(&self) -> Option<&FuelBudget> {
        self.budget
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.now)
    }
}

impl ExecutionEnvironment<'_> {
    /// Data of each task of the pipeline that has just ended.
    fn task_results(&self) -> Option<Binding> {
        let output = &self.focus.ending?.outcome?.output;
        let labels = self.task_labels(self.step, output);
        let data = self.payloads.view_data(&output.data, Some(&labels));
        data_by_label(&data, &labels).map(plain_binding)
    }
}
