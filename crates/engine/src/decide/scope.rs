//! What a template on the server sees of a run.
//!
//! Owns the precedence of names and what each of them stands for. Every value comes from the state,
//! so from the log; a name is worked out only when a template asks for it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use noetl_playbook::carried::Payloads;
use noetl_playbook::carried::{Labels, data_by_label, external, plain, step_data};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::template::{
    Binding, Data as TemplateData, Need, Output as OutputView, OutputPlace, Scope, TemplateLimits,
};
use noetl_types::{Json, JsonMap, TaskError, Timestamp};

use crate::job::job;
use crate::payload::{Data, NewPayload, Reference};
use crate::plan::Plan;
use crate::state::{Arrival, LeadEvent, Outcome, Output, State, StepStatus};

/// Payloads that can be read: fetched for the decision, or made by it.
#[derive(Clone, Copy)]
pub(super) struct Vault<'s> {
    pub(super) fetched: &'s dyn Payloads,
    pub(super) fresh: &'s [NewPayload],
}

impl Payloads for Vault<'_> {
    fn get(&self, uri: &str) -> Option<Json> {
        let mut fresh = self.fresh.iter();
        let fresh = fresh.find(|payload| payload.reference.uri() == uri);
        fresh.map_or_else(
            || self.fetched.get(uri),
            |payload| Some(payload.content.clone()),
        )
    }
}

impl Vault<'_> {
    pub(super) fn get(&self, reference: &Reference) -> Option<Json> {
        Payloads::get(self, reference.uri())
    }

    /// Data for templates; of a step, where it comes from is known.
    fn view(&self, data: &Data, from: Option<&Labels>) -> TemplateData {
        match data {
            Data::Inline(value) => TemplateData::Inline(value.clone()),
            Data::External(reference) => {
                external(reference.as_json().clone(), self.get(reference), from)
            }
        }
    }
}

/// What a template is about, besides the run as a whole.
#[derive(Clone, Copy)]
pub(super) struct Focus<'s> {
    /// What led here.
    pub(super) arrival: Option<&'s Arrival>,
    /// What became of the step itself, in its own `set` and arcs.
    pub(super) ending: Option<Ending<'s>>,
    /// What `set` wrote under `step.`.
    pub(super) variables: Option<&'s Json>,
    /// What `set` wrote under `iter.`.
    pub(super) iter: Option<&'s Json>,
}

/// What became of a step.
#[derive(Clone, Copy)]
pub(super) struct Ending<'s> {
    pub(super) event: LeadEvent,
    /// Nothing where it was passed over.
    pub(super) outcome: Option<&'s Outcome>,
    /// What `output` says besides the data, once it was asked for.
    pub(super) envelope: &'s OnceCell<Json>,
}

impl<'s> Focus<'s> {
    /// A step that is about to be entered.
    pub(super) fn entering(arrival: &'s Arrival) -> Self {
        Self {
            arrival: Some(arrival),
            ending: None,
            variables: None,
            iter: None,
        }
    }
}

/// What a template on the server sees.
pub(super) struct RunScope<'s> {
    plan: &'s Plan,
    state: &'s State,
    step: StepIndex,
    focus: Focus<'s>,
    vault: Vault<'s>,
    now: Timestamp,
}

impl<'s> RunScope<'s> {
    pub(super) fn new(plan: &'s Plan, state: &'s State, step: StepIndex, focus: Focus<'s>) -> Self {
        Self {
            plan,
            state,
            step,
            focus,
            vault: Vault {
                fetched: &noetl_playbook::carried::NoPayloads,
                fresh: &[],
            },
            now: Timestamp::UNIX_EPOCH,
        }
    }

    pub(super) fn with_payloads(self, vault: Vault<'s>) -> Self {
        Self { vault, ..self }
    }

    pub(super) fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// What `set` wrote under `step.` in this run of the step.
    pub(super) fn own_variables(&self) -> Option<&'s Json> {
        self.focus.variables
    }

    /// A variable of the step or of the run.
    pub(super) fn variable(&self, name: &str) -> Option<&'s Json> {
        let own = self
            .focus
            .variables
            .and_then(|variables| variables.get(name));
        own.or_else(|| self.state.ctx.get(name))
    }

    /// A name that no part of the language keeps for itself.
    fn bare(&self, name: &str) -> Option<Binding> {
        if let Some(value) = self.variable(name) {
            return Some(Binding::Value(value.clone()));
        }
        self.step_binding(name)
            .or_else(|| self.input(name))
            .or_else(|| self.engine_name(name))
    }

    /// The data of a step that went well, as what it is.
    fn step_binding(&self, name: &str) -> Option<Binding> {
        let (index, output) = self.output_of(name)?;
        Some(self.output_binding(index, output))
    }

    /// The step of a name and the data of its last run that went well.
    pub(super) fn output_of(&self, name: &str) -> Option<(StepIndex, &'s Output)> {
        let index = self.plan.find(name)?;
        // In its own `set` and arcs, the name of a step means what has just come out of it.
        if index == self.step
            && let Some(ending) = self.focus.ending
            && let Some(Outcome {
                output,
                error: None,
                ..
            }) = ending.outcome
        {
            return Some((index, output));
        }
        Some((index, self.state.step(index)?.output.as_ref()?))
    }

    fn output_binding(&self, step: StepIndex, output: &Output) -> Binding {
        let labels = self.labels(step, output);
        let data = self.vault.view(&output.data, Some(&labels));
        Binding::Step(Arc::new(step_data(data, &labels)))
    }

    pub(super) fn labels(&self, step: StepIndex, output: &Output) -> Labels {
        match &output.labels {
            Some(by_label) => Labels::Data(by_label.clone()),
            None => self.plan.step(step).labels.clone(),
        }
    }

    /// A key of the input.
    pub(super) fn input(&self, name: &str) -> Option<Binding> {
        match &self.state.started()?.workload {
            Data::Inline(workload) => workload.get(name).cloned().map(Binding::Value),
            Data::External(reference) => match self.vault.get(reference) {
                Some(workload) => workload.get(name).cloned().map(Binding::Value),
                None => Some(Binding::Needs(Need::Payload {
                    reference: reference.uri().into(),
                })),
            },
        }
    }

    fn engine_name(&self, name: &str) -> Option<Binding> {
        if name == "result" {
            return Some(match self.led_here() {
                Some((step, output)) => self.output_binding(step, output),
                None => Binding::Value(Json::Null),
            });
        }
        self.engine_value(name).map(Binding::Value)
    }

    /// A name of the engine that a playbook may use for itself.
    pub(super) fn engine_value(&self, name: &str) -> Option<Json> {
        let started = self.state.started()?;
        match name {
            "path" => Some(Json::from(&started.path)),
            "version" => Some(Json::from(started.version)),
            "catalog_id" => Some(Json::from(started.catalog_id.to_string())),
            "job" => Some(job(started.execution_id)),
            "step" | "node_name" => Some(Json::from(&self.plan.step(self.step).name)),
            "server_url" => started.server_url.as_ref().map(Json::from),
            _ => None,
        }
    }

    /// The data of the step whose arc led here.
    pub(super) fn led_here(&self) -> Option<(StepIndex, &'s Output)> {
        let arrival = self.focus.arrival?;
        Some((arrival.from?, arrival.output.as_ref()?))
    }

    fn output(&self, name: &str) -> Option<Binding> {
        let ending = self.focus.ending?;
        let Some(outcome) = ending.outcome else {
            return Some(Binding::Value(Json::Null));
        };
        let tool = self.plan.step(self.step).tool;
        let envelope = ending
            .envelope
            .get_or_init(|| envelope(tool, outcome))
            .clone();
        let data = self.vault.view(&outcome.output.data, None);
        let view = OutputView::new(OutputPlace::Set, envelope, data);
        Some(Binding::Output(Arc::new(if name == "outcome" {
            view.as_outcome()
        } else {
            view
        })))
    }

    fn error(&self) -> Option<Binding> {
        let outcome = self.focus.ending?.outcome;
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        Some(Binding::Value(error.map_or(Json::Null, TaskError::to_json)))
    }

    fn event(&self) -> Option<Binding> {
        let (event, step, payload) = match (self.focus.ending, self.focus.arrival) {
            (Some(ending), _) => {
                let payload = self.payload(ending.event, ending.outcome);
                (ending.event, Some(self.step), payload)
            }
            (None, Some(arrival)) => (arrival.event, arrival.from, self.arrival_payload(arrival)),
            (None, None) => return None,
        };
        let step = step.map_or("".into(), |step| Json::from(&self.plan.step(step).name));
        Some(Binding::map([
            ("name", Binding::Value(event.as_str().into())),
            ("step", Binding::Value(step)),
            ("payload", payload),
        ]))
    }

    /// What `event.payload` holds: the data of the step, or the error that it failed with.
    fn payload(&self, event: LeadEvent, outcome: Option<&Outcome>) -> Binding {
        match (event, outcome) {
            (LeadEvent::CallError, Some(outcome)) => {
                let error = outcome.error.as_ref();
                Binding::Value(error.map_or(Json::Null, TaskError::to_json))
            }
            (_, Some(outcome)) => self.data_binding(self.step, &outcome.output),
            (_, None) => Binding::Value(Json::Null),
        }
    }

    fn arrival_payload(&self, arrival: &Arrival) -> Binding {
        match (arrival.event, self.led_here()) {
            (LeadEvent::PlaybookStarted, _) => self.lookup("workload").unwrap_or(Json::Null.into()),
            (LeadEvent::RunEnding, _) => self.ending_payload(arrival),
            (LeadEvent::CallError, _) => {
                let error = arrival.error.as_ref();
                Binding::Value(error.map_or(Json::Null, |error| error.to_json()))
            }
            (_, Some((step, output))) => self.data_binding(step, output),
            (_, None) => Binding::Value(Json::Null),
        }
    }

    /// How the run is about to end, and with what it failed.
    fn ending_payload(&self, arrival: &Arrival) -> Binding {
        let status = self
            .state
            .ending()
            .map(|status| Json::from(status.as_str()));
        let error = arrival.error.as_ref();
        Binding::Value(Json::object([
            ("status", status.unwrap_or_default()),
            ("error", error.map_or(Json::Null, |error| error.to_json())),
        ]))
    }

    fn data_binding(&self, step: StepIndex, output: &Output) -> Binding {
        let labels = self.labels(step, output);
        plain(self.vault.view(&output.data, Some(&labels)))
    }

    /// `steps.<name>`
    fn step_facts(&self, name: &str) -> Option<Binding> {
        let index = self.plan.find(name)?;
        let state = self.state.step(index)?;
        if state.run.is_none() && state.latest.is_none() && !state.is_dead {
            return None;
        }
        let facts = self
            .plain_facts(name)
            .map(|(fact, value)| (fact, Binding::Value(value)));
        let mut facts: BTreeMap<Arc<str>, Binding> = facts.collect();
        let left = state.left_behind().filter(|_| state.run.is_none());
        let data = left.map(|output| self.data_binding(index, output));
        facts.insert("data".into(), data.unwrap_or(Binding::Value(Json::Null)));
        Some(Binding::Map(Arc::new(facts)))
    }

    /// What is known of the last run of a step, but for its data. What it does not have is null.
    pub(super) fn plain_facts(&self, name: &str) -> impl Iterator<Item = (Arc<str>, Json)> + use<> {
        let state = self.plan.find(name).and_then(|step| self.state.step(step));
        let run = state.and_then(|state| state.run.as_ref());
        let latest = state
            .and_then(|state| state.latest.as_ref())
            .filter(|_| run.is_none());
        let status = match (run, latest) {
            (Some(_), _) => "RUNNING",
            (None, Some(latest)) => latest.status.as_str(),
            (None, None) => StepStatus::Skipped.as_str(),
        };
        let started = run.map(|run| run.entered_at);
        let left = latest.and(state).and_then(|state| state.left_behind());
        let reference = match left.map(|output| &output.data) {
            Some(Data::External(reference)) => Some(reference.uri()),
            Some(Data::Inline(_)) | None => None,
        };
        let error = latest.and_then(|latest| latest.error.as_ref());
        let facts: [(&str, Json); 6] = [
            ("status", status.into()),
            ("run", state.map(|state| state.runs).into()),
            ("error", error.map(|error| error.to_json()).into()),
            ("ref", reference.into()),
            (
                "started_at",
                started
                    .or(latest.and_then(|latest| latest.started_at))
                    .into(),
            ),
            ("ended_at", latest.map(|latest| latest.ended_at).into()),
        ];
        facts.into_iter().map(|(fact, value)| (fact.into(), value))
    }
}

/// What `output` says besides the data of nearly every command: that it went well at once.
static WENT_WELL: LazyLock<Json> =
    LazyLock::new(|| full_envelope(ToolKind::Noop, &Outcome::went_well()));

/// What `output` says besides the data.
fn envelope(tool: ToolKind, outcome: &Outcome) -> Json {
    let has_facts = matches!(tool, ToolKind::Http | ToolKind::Postgres | ToolKind::Python);
    let is_usual = !has_facts
        && outcome.error.is_none()
        && outcome.attempt == 1
        && outcome.duration.is_none()
        && matches!(outcome.output.data, Data::Inline(_));
    if is_usual {
        return WENT_WELL.clone();
    }
    full_envelope(tool, outcome)
}

fn full_envelope(tool: ToolKind, outcome: &Outcome) -> Json {
    let error = outcome.error.as_ref();
    let mut envelope = JsonMap::from([
        (
            "status".into(),
            Json::from(if error.is_none() { "ok" } else { "error" }),
        ),
        ("error".into(), error.map_or(Json::Null, TaskError::to_json)),
        (
            "meta".into(),
            Json::object([
                (
                    "task",
                    error
                        .and_then(|error| error.task.as_ref())
                        .map_or(Json::Null, Json::from),
                ),
                ("attempt", Json::from(outcome.attempt)),
                (
                    "duration_ms",
                    outcome
                        .duration
                        .map_or(Json::Null, |took| took.as_ms().into()),
                ),
            ]),
        ),
    ]);
    if let Data::External(reference) = &outcome.output.data {
        envelope.insert("ref".into(), reference.uri().into());
    }
    if let Some((name, facts)) = tool_facts(tool, outcome) {
        envelope.insert(name.into(), facts);
    }
    Json::from(envelope)
}

/// What a tool tells in its own words, as far as data and error hold it.
fn tool_facts(tool: ToolKind, outcome: &Outcome) -> Option<(&'static str, Json)> {
    let code = outcome.error.as_ref().and_then(|error| error.code.clone());
    if tool == ToolKind::Http {
        let Data::Inline(data) = &outcome.output.data else {
            return None;
        };
        let part = |key: &str| data.get(key).cloned().unwrap_or_default();
        let facts = [
            ("status", part("status_code")),
            ("headers", part("headers")),
        ];
        return Some(("http", Json::object(facts)));
    }
    if tool == ToolKind::Postgres {
        let code = code.unwrap_or_default();
        return Some((
            "pg",
            Json::object([("code", code.clone()), ("sqlstate", code)]),
        ));
    }
    if tool == ToolKind::Python {
        let details = outcome
            .error
            .as_ref()
            .and_then(|error| error.details.clone());
        return Some(("py", details.unwrap_or_default()));
    }
    None
}

impl Scope for RunScope<'_> {
    fn lookup(&self, name: &str) -> Option<Binding> {
        match name {
            "execution_id" => {
                let id = self.state.execution_id()?;
                Some(Binding::Value(id.to_string().into()))
            }
            "workload" => Some(plain(
                self.vault.view(&self.state.started()?.workload, None),
            )),
            "ctx" | "steps" => Some(Binding::Members(name.into())),
            "keychain" => None,
            "output" | "outcome" => self.output(name).or_else(|| self.bare(name)),
            "error" => self.error().or_else(|| self.bare(name)),
            "event" => self.event().or_else(|| self.bare(name)),
            "iter" => {
                let iter = self.focus.iter.cloned();
                Some(Binding::Value(iter.unwrap_or_else(Json::empty_map)))
            }
            "results" => match self.results() {
                Some(results) => Some(results),
                None => self.bare(name),
            },
            _ => self.bare(name),
        }
    }

    fn member(&self, root: &str, key: &str) -> Option<Binding> {
        match root {
            "ctx" => match self.state.ctx.get(key) {
                Some(value) => Some(Binding::Value(value.clone())),
                None => self.step_binding(key).or_else(|| self.input(key)),
            },
            "steps" => self.step_facts(key),
            _ => None,
        }
    }

    fn whole(&self, root: &str) -> Option<Binding> {
        let names = self
            .plan
            .graph()
            .steps()
            .map(|step| self.plan.graph().name(step));
        match root {
            "ctx" => {
                let data = names.filter_map(|name| Some((name.clone(), self.step_binding(name)?)));
                Some(Binding::layers([
                    Binding::Value(self.state.ctx.clone()),
                    Binding::map(data),
                    self.lookup("workload")?,
                ]))
            }
            "steps" => {
                Some(Binding::map(names.filter_map(|name| {
                    Some((name.clone(), self.step_facts(name)?))
                })))
            }
            _ => None,
        }
    }

    fn limits(&self) -> TemplateLimits {
        self.plan.limits()
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.now)
    }
}

impl RunScope<'_> {
    /// The data of each task of the pipeline that has just ended.
    fn results(&self) -> Option<Binding> {
        let output = &self.focus.ending?.outcome?.output;
        let labels = self.labels(self.step, output);
        let data = self.vault.view(&output.data, Some(&labels));
        data_by_label(&data, &labels).map(plain)
    }
}
