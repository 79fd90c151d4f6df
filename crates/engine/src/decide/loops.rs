//! Loops: issuing iterations, and what comes of them.

use std::sync::Arc;

use noetl_playbook::carried::with_data;
use noetl_playbook::gather;
use noetl_playbook::graph::StepIndex;
use noetl_types::{EventId, Json, TaskError};

use super::draft::{Draft, Trouble};
use super::exit::{self, Success};
use super::routing::Route;
use super::{Refused, failure, issue};
use crate::event::{EventKind, IterationError, LoopDone, StepEnd, errors_json, stats_json};
use crate::loops::{Items, loop_data};
use crate::payload::Data;
use crate::state::{LeadEvent, LoopState, Outcome, Work};

/// Failures that `loop.done` lists. The data of the step has all of them.
const MAX_LISTED_ERRORS: usize = 100;

/// Issues the iterations that may be, and leaves the step when none is left.
pub(super) fn go_on(draft: &mut Draft<'_>, step: StepIndex, cause: EventId) -> Result<(), Refused> {
    while let Some(index) = next_index(draft, step) {
        issue::issue(draft, step, Some(index), cause)?;
    }
    if draft.unfinished(step) > 0 {
        return Ok(());
    }
    let Work::Loop(looping) = &draft.run(step)?.work else {
        return Ok(());
    };
    if let Some(error) = fatal(draft, step, looping) {
        failure::fail(draft, step, error)
    } else if looping.is_complete() {
        match gathered(draft, step, looping) {
            Ok(whole) => finish(draft, step, whole),
            Err(Trouble::Refused(refused)) => Err(refused),
            Err(Trouble::Failed(error)) => failure::fail(draft, step, *error),
        }
    } else {
        // The run fails elsewhere, so the rest can never be issued.
        exit::record(draft, step, StepEnd::Cancelled, &Route::default(), None)
    }
}

/// The iteration to issue now, if any may be.
fn next_index(draft: &Draft<'_>, step: StepIndex) -> Option<u32> {
    let run = draft.state.run(step)?;
    let Work::Loop(looping) = &run.work else {
        return None;
    };
    let plan = draft.step(step).looping.as_ref()?;
    let width = looping.max_in_flight.or(plan.max_in_flight).unwrap_or(1);
    let may_issue = looping.next < looping.iterations
        && draft.unfinished(step) < width as usize
        && !draft.state.is_failing()
        && (plan.is_best_effort || looping.first_failed.is_none());
    may_issue.then_some(looping.next)
}

/// The failure of an iteration that is the failure of the step.
fn fatal(draft: &Draft<'_>, step: StepIndex, looping: &LoopState) -> Option<TaskError> {
    if draft.step(step).looping.as_ref()?.is_best_effort {
        return None;
    }
    let index = looping.first_failed?;
    let error = looping.errors.get(&index)?.clone();
    Some(TaskError {
        index: Some(u64::from(index)),
        ..error
    })
}

/// Data that was put together, with its name.
type Whole = (Arc<str>, Json);

/// The data of the iterations put together, under its name, where the playbook wants that.
fn gathered(
    draft: &Draft<'_>,
    step: StepIndex,
    looping: &LoopState,
) -> Result<Option<Whole>, Trouble> {
    let output = draft.plan.model(step).output.iter();
    let Some(spec) = gather::accumulation(output) else {
        return Ok(None);
    };
    let mut whole = None;
    for index in 0..looping.iterations {
        let part = match looping.results.get(&index) {
            None => continue,
            Some(Data::Inline(value)) => value.clone(),
            Some(Data::External(reference)) => match draft.vault().get(reference) {
                Some(value) => value,
                None => return Err(Refused::NeedsPayload(reference.uri().into()).into()),
            },
        };
        whole = Some(spec.add(whole, &part)?);
    }
    let whole = whole.unwrap_or_else(|| spec.nothing());
    Ok(Some((spec.name_in_loop(), whole)))
}

/// Every iteration has ended: the loop is done.
fn finish(draft: &mut Draft<'_>, step: StepIndex, whole: Option<Whole>) -> Result<(), Refused> {
    let run = draft.run(step)?;
    let Work::Loop(looping) = &run.work else {
        return Ok(());
    };
    let (loop_id, number) = (run.entered, run.number);
    let stats = looping.stats();
    let errors: Vec<IterationError> = looping
        .errors
        .iter()
        .map(|(index, error)| IterationError {
            index: *index,
            error: error.clone(),
        })
        .collect();
    let all_errors = (!errors.is_empty()).then(|| errors_json(&errors));
    let mut data = loop_data(results(looping), stats_json(stats), all_errors);
    if let (Json::Map(map), Some((name, whole))) = (&mut data, whole) {
        Arc::make_mut(map).entry(name).or_insert(whole);
    }
    if let Some(output) = &draft.plan.model(step).output {
        gather::select(&output.select, &mut data);
    }
    draft.emit(EventKind::LoopDone(Box::new(LoopDone {
        step: draft.name(step),
        run: number,
        loop_id,
        stats,
        errors: errors.into_iter().take(MAX_LISTED_ERRORS).collect(),
    })))?;
    let outcome = Outcome {
        output: Data::Inline(with_data(data.clone())).into(),
        ..Outcome::went_well()
    };
    let event = LeadEvent::LoopDone;
    let data = Some(data);
    exit::complete(
        draft,
        step,
        Success {
            event,
            outcome,
            data,
        },
    )
}

/// What came out of the iterations, in order; null where one failed. Data in the result store stays
/// there: its reference takes its place.
fn results(looping: &LoopState) -> Vec<Json> {
    let mut results = vec![Json::Null; looping.iterations as usize];
    for (index, data) in looping.results.iter() {
        if let Some(slot) = results.get_mut(*index as usize) {
            *slot = match data {
                Data::Inline(value) => value.clone(),
                Data::External(reference) => reference.as_json().clone(),
            };
        }
    }
    results
}

/// The item of an iteration.
pub(super) fn item(draft: &Draft<'_>, step: StepIndex, index: u32) -> Result<Json, Refused> {
    let run = draft.run(step)?;
    let Work::Loop(looping) = &run.work else {
        return Ok(Json::Null);
    };
    let constant = draft
        .step(step)
        .looping
        .as_ref()
        .and_then(|looping| looping.items.as_ref());
    match (&looping.items, constant) {
        (None, Some(items)) => Ok(items.get(index)),
        (None, None) => Ok(Json::Null),
        (Some(Data::Inline(value)), _) => Ok(listed(value, index)),
        (Some(Data::External(reference)), _) => match draft.vault().get(reference) {
            Some(value) => Ok(listed(&value, index)),
            None => Err(Refused::NeedsPayload(reference.uri().into())),
        },
    }
}

/// The log keeps items as a list or a number.
fn listed(value: &Json, index: u32) -> Json {
    match Items::of(value) {
        Ok(items) => items.get(index),
        Err(_) => Json::Null,
    }
}
