//! Loops over a cursor: chains of frames, and what comes of them.

use noetl_playbook::carried::with_data;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{FrameRetry, Loop, Setting};
use noetl_types::{ByteSize, EventId, Json, Millis, TaskError};

use super::draft::{Draft, Trouble};
use super::eval::{Field, Site};
use super::exit::{self, Success};
use super::routing::Route;
use super::scope::{Focus, RunScope};
use super::{Refused, failure, issue};
use crate::event::{
    CursorEntered, CursorTerms, EventKind, IterationError, LoopDone, StepEnd, errors_json,
    stats_json,
};
use crate::loops::loop_data;
use crate::payload::Data;
use crate::plan::MAX_IN_FLIGHT;
use crate::state::{CursorState, LeadEvent, Outcome, Work};

/// Failures that `loop.done` lists. The data of the step has more of them.
const MAX_LISTED_ERRORS: usize = 100;
/// What a frame is, where the playbook does not say.
const MAX_TIME: Millis = Millis::from_secs(30);
const MAX_BYTES: ByteSize = ByteSize::from_mib(64);
const LEASE: Millis = Millis::from_secs(120);
const HEARTBEAT: Millis = Millis::from_secs(30);
const MAX_ATTEMPTS: u32 = 3;

/// How a step that is about to be entered goes through the rows of its cursor.
pub(super) fn entered(
    draft: &Draft<'_>,
    step: StepIndex,
    written: &Loop,
    focus: Focus<'_>,
) -> Result<CursorEntered, Trouble> {
    let facts = draft.step(step);
    let Some(looping) = &facts.looping else {
        return Err(draft.broken("loop").into());
    };
    let scope = draft.scope(step, focus);
    let settings = Settings {
        step: &facts.name,
        scope: &scope,
    };
    let frame = &written.spec.frame;
    let width = written.spec.max_in_flight.as_ref();
    let width = width.map(|width| &width.value);
    let max_attempts = match frame.retry_mode {
        Some(FrameRetry::None) => 1,
        Some(FrameRetry::Frame) | None => {
            settings.count("max_attempts", frame.max_attempts.as_ref(), MAX_ATTEMPTS)?
        }
    };
    let chains = match looping.max_in_flight {
        Some(chains) => chains,
        None => settings.count_of(Field::MaxInFlight, width, 1)?,
    };
    Ok(CursorEntered {
        iterator: looping.iterator.clone(),
        terms: CursorTerms {
            chains: chains.clamp(1, MAX_IN_FLIGHT),
            max_rows: settings.count("max_rows", frame.max_rows.as_ref(), 1)?,
            max_time: settings.time("max_seconds", frame.max_seconds.as_ref(), MAX_TIME)?,
            max_bytes: settings.size("max_bytes", frame.max_bytes.as_ref(), MAX_BYTES)?,
            lease: settings.time("lease_seconds", frame.lease_seconds.as_ref(), LEASE)?,
            heartbeat: settings.time(
                "heartbeat_seconds",
                frame.heartbeat_seconds.as_ref(),
                HEARTBEAT,
            )?,
            max_attempts,
        },
    })
}

/// Settings that may be templates.
struct Settings<'s> {
    step: &'s noetl_types::StepName,
    scope: &'s RunScope<'s>,
}

impl Settings<'_> {
    fn read<T: Copy>(
        &self,
        field: Field<'_>,
        setting: Option<&Setting<T>>,
        default: T,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, Trouble> {
        let site = Site {
            step: self.step,
            field,
        };
        match setting {
            None => Ok(default),
            Some(setting) => site.setting(setting, self.scope, read),
        }
    }

    fn count_of(
        &self,
        field: Field<'_>,
        setting: Option<&Setting<u32>>,
        default: u32,
    ) -> Result<u32, Trouble> {
        self.read(field, setting, default, |value| {
            let count = u32::try_from(value.as_u64()?).ok()?;
            (count > 0).then_some(count)
        })
    }

    fn count(
        &self,
        name: &'static str,
        setting: Option<&Setting<u32>>,
        default: u32,
    ) -> Result<u32, Trouble> {
        self.count_of(Field::Frame(name), setting, default)
    }

    fn time(
        &self,
        name: &'static str,
        setting: Option<&Setting<Millis>>,
        default: Millis,
    ) -> Result<Millis, Trouble> {
        let read = |value: &Json| Millis::from_json(value).ok();
        self.read(Field::Frame(name), setting, default, read)
    }

    fn size(
        &self,
        name: &'static str,
        setting: Option<&Setting<ByteSize>>,
        default: ByteSize,
    ) -> Result<ByteSize, Trouble> {
        let read = |value: &Json| ByteSize::from_json(value).ok();
        self.read(Field::Frame(name), setting, default, read)
    }
}

/// Issues the frames that may be, and leaves the step when every chain has ended.
pub(super) fn go_on(draft: &mut Draft<'_>, step: StepIndex, cause: EventId) -> Result<(), Refused> {
    while let Some(frame) = next_frame(draft, step) {
        issue::issue(draft, step, Some(frame), cause)?;
    }
    if draft.unfinished(step) > 0 {
        return Ok(());
    }
    let Work::Cursor(cursor) = &draft.run(step)?.work else {
        return Ok(());
    };
    if let Some(error) = fatal(draft, step, cursor) {
        failure::fail(draft, step, error)
    } else if cursor.is_complete() {
        finish(draft, step)
    } else {
        // The run fails elsewhere, so no chain can come to its end.
        exit::record(draft, step, StepEnd::Cancelled, &Route::default(), None)
    }
}

/// The frame to issue now, if any may be.
fn next_frame(draft: &Draft<'_>, step: StepIndex) -> Option<u32> {
    let Work::Cursor(cursor) = &draft.state.run(step)?.work else {
        return None;
    };
    let taken = draft.unfinished(step) + cursor.ended as usize;
    let may_issue = taken < cursor.terms.chains as usize
        && !draft.state.is_failing()
        && (is_best_effort(draft, step) || cursor.first_failed.is_none());
    may_issue.then_some(cursor.next)
}

fn is_best_effort(draft: &Draft<'_>, step: StepIndex) -> bool {
    let looping = draft.step(step).looping.as_ref();
    looping.is_some_and(|looping| looping.is_best_effort)
}

/// The failure of a frame that is the failure of the step.
fn fatal(draft: &Draft<'_>, step: StepIndex, cursor: &CursorState) -> Option<TaskError> {
    let failed = cursor.first_failed.as_ref()?;
    (!is_best_effort(draft, step)).then(|| TaskError {
        index: Some(u64::from(failed.index)),
        ..failed.error.clone()
    })
}

/// Every chain has ended: the loop is done.
fn finish(draft: &mut Draft<'_>, step: StepIndex) -> Result<(), Refused> {
    let run = draft.run(step)?;
    let Work::Cursor(cursor) = &run.work else {
        return Ok(());
    };
    let (loop_id, number, stats) = (run.entered, run.number, cursor.stats());
    let mut errors: Vec<IterationError> = cursor.errors.values().cloned().collect();
    // In the order of frames, whichever of them was done first; rows of a frame stay as they ran.
    errors.sort_by_key(|error| error.index);
    let all_errors = (!errors.is_empty()).then(|| errors_json(&errors));
    let data = loop_data(Vec::new(), stats_json(stats), all_errors);
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
    let success = Success {
        event: LeadEvent::LoopDone,
        outcome,
        data: Some(data),
    };
    exit::complete(draft, step, success)
}
