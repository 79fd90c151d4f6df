//! Loops: issuing iterations and finishing the loop.

use std::sync::Arc;

use noetl_playbook::command_context::add_data_alias;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::output_data;
use noetl_types::{EventId, Json, TaskError};

use super::draft::{Draft, StepEvalError};
use super::exit::{self, StepSuccess};
use super::routing::SelectedArcs;
use super::{DecisionError, Result, failure, issue};
use crate::event::{EventKind, IterationError, LoopDone, LoopStats, StepEnd};
use crate::loops::{LoopItems, loop_data};
use crate::payload::EventData;
use crate::state::{CommandOutcome, LoopState, StepWork, TriggerEvent};

/// Maximum number of failures in `loop.done`. The data of the step contains more of them.
const MAX_LISTED_ERRORS: usize = 100;

/// Issues the next iterations, and leaves the step when all have ended.
pub(super) fn continue_loop(draft: &mut Draft<'_>, step: StepIndex, cause: EventId) -> Result<()> {
    while let Some(index) = next_iteration(draft, step) {
        issue::issue_command(draft, step, Some(index), cause)?;
    }
    if draft.unfinished_commands(step) > 0 {
        return Ok(());
    }
    let StepWork::Loop(looping) = &draft.active_pass(step)?.work else {
        return Ok(());
    };
    if let Some(error) = fatal_iteration_error(draft, step, looping) {
        failure::fail_step(draft, step, error)
    } else if looping.is_complete() {
        match accumulate_results(draft, step, looping) {
            Ok(total) => finish_loop(draft, step, total),
            Err(StepEvalError::Decision(error)) => Err(error),
            Err(StepEvalError::Task(error)) => failure::fail_step(draft, step, *error),
        }
    } else {
        // Another step fails the execution, so the rest can never be issued.
        exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)
    }
}

/// Returns the iteration to issue now, if any.
fn next_iteration(draft: &Draft<'_>, step: StepIndex) -> Option<u32> {
    let pass = draft.state.active_pass(step)?;
    let StepWork::Loop(looping) = &pass.work else {
        return None;
    };
    let plan = draft.step_plan(step).loop_plan.as_ref()?;
    let width = looping.max_in_flight.or(plan.max_in_flight).unwrap_or(1);
    let may_issue = looping.next < looping.iterations
        && draft.unfinished_commands(step) < width as usize
        && !draft.state.is_failing()
        && (plan.is_best_effort || looping.first_failed.is_none());
    may_issue.then_some(looping.next)
}

/// Returns the failure of an iteration that fails the step.
fn fatal_iteration_error(
    draft: &Draft<'_>,
    step: StepIndex,
    looping: &LoopState,
) -> Option<TaskError> {
    if draft.step_plan(step).loop_plan.as_ref()?.is_best_effort {
        return None;
    }
    let index = looping.first_failed?;
    let error = looping.errors.get(&index)?.clone();
    Some(TaskError { index: Some(u64::from(index)), ..error })
}

/// Accumulated data and its name.
type NamedTotal = (Arc<str>, Json);

/// Accumulates the data of the iterations under its name, if the playbook requests that.
fn accumulate_results(
    draft: &Draft<'_>,
    step: StepIndex,
    looping: &LoopState,
) -> Result<Option<NamedTotal>, StepEvalError> {
    let output = draft.plan.step_model(step).output.iter();
    let Some(spec) = output_data::find_accumulation(output) else {
        return Ok(None);
    };
    let mut total = None;
    for index in 0..looping.iterations {
        let part = match looping.results.get(&index) {
            None => continue,
            Some(EventData::Inline(value)) => value.clone(),
            Some(EventData::External(reference)) => match draft.payload_source().get(reference) {
                Some(value) => value,
                None => return Err(DecisionError::NeedsPayload(reference.uri().into()).into()),
            },
        };
        total = Some(spec.add_part(total, &part)?);
    }
    let total = total.unwrap_or_else(|| spec.initial_value());
    Ok(Some((spec.loop_key(), total)))
}

/// Finishes the loop after every iteration has ended.
fn finish_loop(draft: &mut Draft<'_>, step: StepIndex, total: Option<NamedTotal>) -> Result<()> {
    let StepWork::Loop(looping) = &draft.active_pass(step)?.work else {
        return Ok(());
    };
    let stats = looping.loop_stats();
    let errors = looping.errors.iter();
    let errors: Vec<IterationError> = errors
        .map(|(index, error)| IterationError { index: *index, error: error.clone() })
        .collect();
    let mut data = loop_data(iteration_results(looping), stats, &errors);
    if let (Json::Map(map), Some((name, total))) = (&mut data, total) {
        Arc::make_mut(map).entry(name).or_insert(total);
    }
    if let Some(output) = &draft.plan.step_model(step).output {
        output_data::apply_select(&output.select, &mut data);
    }
    end_loop(draft, step, stats, errors, data)
}

/// Records the end of a loop and completes its step.
pub(super) fn end_loop(
    draft: &mut Draft<'_>,
    step: StepIndex,
    stats: LoopStats,
    mut errors: Vec<IterationError>,
    data: Json,
) -> Result<()> {
    let pass = draft.active_pass(step)?;
    let (run, loop_id) = (pass.number, pass.entered);
    errors.truncate(MAX_LISTED_ERRORS);
    let done = LoopDone { step: draft.step_name(step), run, loop_id, stats, errors };
    draft.emit_event(EventKind::LoopDone(Box::new(done)))?;
    let outcome = CommandOutcome {
        output: EventData::Inline(add_data_alias(data.clone())).into(),
        ..CommandOutcome::empty_success()
    };
    let success = StepSuccess { event: TriggerEvent::LoopDone, outcome, data: Some(data) };
    exit::complete_step(draft, step, success)
}

/// Returns the results of the iterations in order, with null for failed ones. Data in the result
/// store stays there, represented by its reference.
fn iteration_results(looping: &LoopState) -> Vec<Json> {
    let mut results = vec![Json::Null; looping.iterations as usize];
    for (index, data) in looping.results.iter() {
        if let Some(result) = results.get_mut(*index as usize) {
            *result = match data {
                EventData::Inline(value) => value.clone(),
                EventData::External(reference) => reference.as_json().clone(),
            };
        }
    }
    results
}

/// Returns the item of an iteration.
pub(super) fn iteration_item(draft: &Draft<'_>, step: StepIndex, index: u32) -> Result<Json> {
    let pass = draft.active_pass(step)?;
    let StepWork::Loop(looping) = &pass.work else {
        return Ok(Json::Null);
    };
    let constant =
        draft.step_plan(step).loop_plan.as_ref().and_then(|looping| looping.items.as_ref());
    match (&looping.items, constant) {
        (None, Some(items)) => Ok(items.get(index)),
        (None, None) => Ok(Json::Null),
        (Some(EventData::Inline(value)), _) => Ok(item_at(value, index)),
        (Some(EventData::External(reference)), _) => match draft.payload_source().get(reference) {
            Some(value) => Ok(item_at(&value, index)),
            None => Err(DecisionError::NeedsPayload(reference.uri().into())),
        },
    }
}

/// Returns an item. The log stores items as a list or a number.
fn item_at(value: &Json, index: u32) -> Json {
    match LoopItems::from_value(value) {
        Ok(items) => items.get(index),
        Err(_) => Json::Null,
    }
}
