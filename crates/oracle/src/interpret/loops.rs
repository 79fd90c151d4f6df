//! Loops: their items, the number of open iterations, and their result.

use std::sync::Arc;

use noetl_playbook::model::{FailureMode, LoopMode, LoopSource, OutputSpec, ValueOrTemplate};
use noetl_types::json::parse;
use noetl_types::{EventType, Json, JsonMap};

use super::interpreter::Interpreter;
use crate::names::StepValue;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, CommandFailure, LoopItem, PipelineProgress, output};
use crate::reachability::find_step;

/// Maximum open commands of a parallel loop that does not set it.
const DEFAULT_MAX_IN_FLIGHT: usize = 32;

/// State of a running loop.
#[derive(Debug, Clone)]
pub(super) struct LoopState {
    items: Vec<Json>,
    width: usize,
    /// Index of the next iteration to issue.
    next_index: usize,
    open_iterations: usize,
    /// Data by index. Null if an iteration failed or is not done.
    results: Vec<Json>,
    /// Failures by index, in order of completion.
    errors: Vec<(usize, CommandFailure)>,
    /// True if an iteration has failed and its end is not processed yet.
    has_pending_failure: bool,
    /// True if an iteration could not continue because the run failed elsewhere.
    is_cut_short: bool,
}

/// Reason for which a loop does not start.
enum LoopStartError {
    /// A template could not be rendered. Not catchable.
    Template(CommandFailure),
    /// The value has no items. A failure of the step like any other.
    Schema(CommandFailure),
}

impl Interpreter<'_> {
    /// Evaluates the loop of a step that was just entered, and issues its first commands.
    pub(super) fn start_loop(&mut self, step: usize) {
        match self.evaluate_loop(step) {
            Err(LoopStartError::Template(failure)) => self.fail_uncaught(step, &failure),
            Err(LoopStartError::Schema(failure)) => self.fail_step(step, failure),
            Ok(state) => {
                if let Some(pass) = self.running.get_mut(&step) {
                    pass.loop_state = Some(state);
                }
                self.advance_loop(step);
            }
        }
    }

    fn evaluate_loop(&self, step: usize) -> Result<LoopState, LoopStartError> {
        let template_error =
            |error| LoopStartError::Template(CommandFailure::from_render_error(&error));
        let schema_error = |message: &str| {
            LoopStartError::Schema(CommandFailure::from_task_error(&TaskError::new(
                ErrorKind::Schema,
                message,
            )))
        };
        let (Some(looping), Some(pass)) = (&self.step_model(step).looping, self.running.get(&step))
        else {
            return Err(schema_error("the step has no loop"));
        };
        let LoopSource::In(source) = &looping.source else {
            return Err(schema_error("a cursor is not a list"));
        };
        let environment = self
            .execution_view(pass)
            .template_names(&self.step_model(step).name.value)
            .to_environment();
        let value = source.value.render(&environment).map_err(template_error)?.value;
        let items = loop_items(&value).ok_or_else(|| schema_error("the value has no items"))?;
        let width = match (
            looping.spec.mode,
            looping.spec.max_in_flight.as_ref().map(|width| &width.value),
        ) {
            // One command at a time.
            (LoopMode::Sequential | LoopMode::Cursor, _) => 1,
            (LoopMode::Parallel, None) => DEFAULT_MAX_IN_FLIGHT,
            (LoopMode::Parallel, Some(ValueOrTemplate::Fixed(width))) => {
                usize::try_from(*width).unwrap_or(DEFAULT_MAX_IN_FLIGHT)
            }
            (LoopMode::Parallel, Some(ValueOrTemplate::Template(width))) => {
                let width = width.render(&environment).map_err(template_error)?.value.as_u64();
                let width = width
                    .filter(|width| *width > 0)
                    .ok_or_else(|| schema_error("max_in_flight is below 1"))?;
                usize::try_from(width).unwrap_or(DEFAULT_MAX_IN_FLIGHT)
            }
        };
        let results = vec![Json::Null; items.len()];
        Ok(LoopState {
            items,
            width,
            next_index: 0,
            open_iterations: 0,
            results,
            errors: Vec::new(),
            has_pending_failure: false,
            is_cut_short: false,
        })
    }

    /// Records the outcome of an iteration.
    pub(super) fn finish_iteration(
        &mut self,
        step: usize,
        index: usize,
        outcome: Result<StepValue, CommandFailure>,
    ) {
        if let Some(state) = self.running.get_mut(&step).and_then(|pass| pass.loop_state.as_mut()) {
            state.open_iterations -= 1;
            match outcome {
                Ok(value) => state.results[index] = value.data,
                Err(failure) => {
                    // Choice: a loop that fails has no data.
                    let data = Json::Null;
                    let error = add_error_index(&failure.error, index);
                    let kind = failure.kind;
                    state.errors.push((index, CommandFailure { kind, error, data }));
                }
            }
        }
        self.advance_loop(step);
    }

    /// Stops issuing: a command of the loop has failed, and its failure is not processed yet.
    pub(super) fn stop_issuing(&mut self, command: &Command<'_>) {
        let step = find_step(self.playbook, &command.step.name.value).unwrap_or_default();
        let pass = self.running.get_mut(&step);
        if let Some(state) = pass.and_then(|pass| pass.loop_state.as_mut()) {
            state.has_pending_failure = true;
        }
    }

    /// Ends an iteration, or a step without a loop, that cannot continue because the run has
    /// failed.
    pub(super) fn end_interrupted(&mut self, step: usize, index: Option<usize>) {
        let pass = self.running.get_mut(&step);
        match (index, pass.and_then(|pass| pass.loop_state.as_mut())) {
            (Some(_), Some(state)) => {
                state.open_iterations -= 1;
                state.is_cut_short = true;
                self.advance_loop(step);
            }
            (Some(_) | None, _) => self.cancel_pass(step),
        }
    }

    /// Issues the commands that may be issued, and ends the loop when none are open.
    fn advance_loop(&mut self, step: usize) {
        let tolerant = self.step_model(step).spec.policy.failure.mode == FailureMode::BestEffort;
        let stopped = self.is_stopped();
        loop {
            let Some(state) = self.running.get_mut(&step).and_then(|pass| pass.loop_state.as_mut())
            else {
                return;
            };
            // The first failed iteration stops issuing, and so does a failure elsewhere.
            let has_failed = !tolerant && (state.has_pending_failure || !state.errors.is_empty());
            if has_failed
                || stopped
                || state.open_iterations >= state.width
                || state.next_index >= state.items.len()
            {
                break;
            }
            let item = LoopItem {
                index: state.next_index,
                total: state.items.len(),
                value: state.items[state.next_index].clone(),
            };
            state.next_index += 1;
            state.open_iterations += 1;
            let progress = PipelineProgress::new(self.step_model(step), Some(&item));
            self.issue_command(step, Some(item), progress);
        }
        let Some(state) = self.running.get(&step).and_then(|pass| pass.loop_state.clone()) else {
            return;
        };
        if state.open_iterations > 0 {
            return;
        }
        if let (false, Some((_, failure))) = (tolerant, state.errors.first()) {
            self.fail_step(step, failure.clone());
        } else if state.is_cut_short || state.next_index < state.items.len() {
            self.cancel_pass(step);
        } else {
            self.complete_loop(step, &state);
        }
    }

    /// Completes the loop. Choice: if the results cannot be accumulated, the step fails.
    fn complete_loop(&mut self, step: usize, state: &LoopState) {
        match state.loop_data(self.step_model(step).output.as_ref()) {
            Ok(data) => {
                self.log_step(EventType::LoopDone, step);
                let labels = None;
                self.complete_step(step, "loop.done", StepValue { data, labels });
            }
            Err(limit) => {
                let error = TaskError::new(ErrorKind::Limit, format!("more than {limit} items"));
                self.fail_step(step, CommandFailure::from_task_error(&error));
            }
        }
    }
}

impl LoopState {
    /// Returns `{results, stats, data}`, with `errors` if iterations failed.
    fn loop_data(&self, output: Option<&OutputSpec>) -> Result<Json, u64> {
        let results = Json::from(self.results.clone());
        let failed = self.errors.len();
        let stats = [
            ("total", self.items.len()),
            ("success", self.items.len() - failed),
            ("failed", failed),
        ];
        let stats = Json::object(stats.map(|(name, count)| (name, Json::from(count))));
        let mut data = vec![("results", results.clone()), ("stats", stats), ("data", results)];
        if failed > 0 {
            // Choice: in order of index, like the results.
            let mut errors = self.errors.clone();
            errors.sort_by_key(|(index, _)| *index);
            let entry = |(index, failure): &(usize, CommandFailure)| {
                Json::object([("index", Json::from(*index)), ("error", failure.error.clone())])
            };
            data.push(("errors", Json::list(errors.iter().map(entry))));
        }
        let mut data: JsonMap = data.into_iter().map(|(key, value)| (key.into(), value)).collect();
        if let Some(spec) = output::enabled_accumulation(output) {
            let is_failed = |index: &usize| self.errors.iter().any(|(failed, _)| failed == index);
            let successful = self.results.iter().enumerate();
            let successful = successful.filter(|(index, _)| !is_failed(index));
            let successful: Vec<Json> = successful.map(|(_, data)| data.clone()).collect();
            let accumulated = output::accumulate_parts(spec, &successful)?;
            let name = spec.manifest_as.clone();
            let name = name.unwrap_or_else(|| "accumulated".into());
            data.entry(name).or_insert(accumulated);
        }
        let selects = output.map(|output| &*output.select).unwrap_or_default();
        Ok(output::apply_selection(Json::from(data), selects))
    }
}

/// Returns the items of a list, the entries of a map, the parts of a text, or the numbers below a
/// number.
fn loop_items(value: &Json) -> Option<Vec<Json>> {
    match value {
        Json::List(items) => Some(items.to_vec()),
        Json::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Json)| {
                Json::object([("key", Json::Str(key.clone())), ("value", value.clone())])
            };
            Some(map.iter().map(entry).collect())
        }
        Json::Str(text) => {
            if let Ok(Json::List(items)) = parse(text.as_bytes()) {
                return Some(items.to_vec());
            }
            let parts = text.split([',', '\n']).map(str::trim);
            let parts = parts.filter(|part| !part.is_empty());
            Some(parts.map(Json::from).collect())
        }
        Json::Int(count) => Some((0..*count).map(Json::from).collect()),
        Json::Null | Json::Bool(_) | Json::UInt(_) | Json::Float(_) => None,
    }
}

fn add_error_index(error: &Json, index: usize) -> Json {
    let mut error: JsonMap = error.as_map().cloned().unwrap_or_default();
    error.insert("index".into(), Json::from(index));
    Json::from(error)
}
