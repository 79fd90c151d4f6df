//! Loops over a cursor: issuing frames and finishing the loop.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{FrameRetry, Loop, ValueOrTemplate};
use noetl_types::{ByteSize, EventId, Json, Millis, TaskError};

use super::draft::{Draft, StepEvalError};
use super::environment::{ExecutionEnvironment, TemplateFocus};
use super::rendering::{FieldLocation, TemplateField};
use super::routing::SelectedArcs;
use super::{Result, exit, failure, issue, loops};
use crate::event::{CursorEntered, CursorSettings, IterationError, StepEnd};
use crate::loops::loop_data;
use crate::plan::MAX_LOOP_IN_FLIGHT;
use crate::state::{CursorState, StepWork};

/// Default settings of frames.
const DEFAULT_FRAME_TIME: Millis = Millis::from_secs(30);
const DEFAULT_FRAME_SIZE: ByteSize = ByteSize::from_mib(64);
const DEFAULT_FRAME_LEASE: Millis = Millis::from_secs(120);
const DEFAULT_FRAME_HEARTBEAT: Millis = Millis::from_secs(30);
const DEFAULT_FRAME_ATTEMPTS: u32 = 3;

/// Resolves the cursor settings of a step that is about to be entered.
pub(super) fn resolve_cursor(
    draft: &Draft<'_>,
    step: StepIndex,
    model: &Loop,
    focus: TemplateFocus<'_>,
) -> Result<CursorEntered, StepEvalError> {
    let step_plan = draft.step_plan(step);
    let Some(loop_plan) = &step_plan.loop_plan else {
        return Err(draft.invariant_error("loop").into());
    };
    let environment = draft.environment(step, focus);
    let settings = SettingReader { step: &step_plan.name, environment: &environment };
    let frame = &model.spec.frame;
    let max_attempts = match frame.retry_mode {
        Some(FrameRetry::None) => 1,
        Some(FrameRetry::Frame) | None => settings.read_frame(
            "max_attempts",
            frame.max_attempts.as_ref(),
            DEFAULT_FRAME_ATTEMPTS,
            read_count,
        )?,
    };
    let chains = match (loop_plan.max_in_flight, &model.spec.max_in_flight) {
        (Some(chains), _) => chains,
        (None, Some(chains)) => {
            settings.read(TemplateField::MaxInFlight, &chains.value, read_count)?
        }
        (None, None) => 1,
    };
    Ok(CursorEntered {
        iterator: loop_plan.iterator.clone(),
        terms: CursorSettings {
            chains: chains.clamp(1, MAX_LOOP_IN_FLIGHT),
            max_rows: settings.read_frame("max_rows", frame.max_rows.as_ref(), 1, read_count)?,
            max_time: settings.read_frame(
                "max_seconds",
                frame.max_seconds.as_ref(),
                DEFAULT_FRAME_TIME,
                read_duration,
            )?,
            max_bytes: settings.read_frame(
                "max_bytes",
                frame.max_bytes.as_ref(),
                DEFAULT_FRAME_SIZE,
                |value| ByteSize::from_json(value).ok(),
            )?,
            lease: settings.read_frame(
                "lease_seconds",
                frame.lease_seconds.as_ref(),
                DEFAULT_FRAME_LEASE,
                read_duration,
            )?,
            heartbeat: settings.read_frame(
                "heartbeat_seconds",
                frame.heartbeat_seconds.as_ref(),
                DEFAULT_FRAME_HEARTBEAT,
                read_duration,
            )?,
            max_attempts,
        },
    })
}

fn read_count(value: &Json) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok().filter(|count| *count > 0)
}

fn read_duration(value: &Json) -> Option<Millis> {
    Millis::from_json(value).ok()
}

/// Reads settings that may be templates.
struct SettingReader<'s> {
    step: &'s noetl_types::StepName,
    environment: &'s ExecutionEnvironment<'s>,
}

impl SettingReader<'_> {
    fn read<T: Copy>(
        &self,
        field: TemplateField<'_>,
        setting: &ValueOrTemplate<T>,
        read: fn(&Json) -> Option<T>,
    ) -> Result<T, StepEvalError> {
        let location = FieldLocation { step: self.step, field };
        location.resolve_setting(setting, self.environment, read)
    }

    fn read_frame<T: Copy>(
        &self,
        name: &'static str,
        setting: Option<&ValueOrTemplate<T>>,
        default: T,
        read: fn(&Json) -> Option<T>,
    ) -> Result<T, StepEvalError> {
        match setting {
            None => Ok(default),
            Some(setting) => self.read(TemplateField::Frame(name), setting, read),
        }
    }
}

/// Issues the next frames, and leaves the step when every chain has ended.
pub(super) fn continue_cursor(
    draft: &mut Draft<'_>,
    step: StepIndex,
    cause: EventId,
) -> Result<()> {
    while let Some(frame) = next_frame(draft, step) {
        issue::issue_command(draft, step, Some(frame), cause)?;
    }
    if draft.unfinished_commands(step) > 0 {
        return Ok(());
    }
    let StepWork::Cursor(cursor) = &draft.active_pass(step)?.work else {
        return Ok(());
    };
    if let Some(error) = fatal_frame_error(draft, step, cursor) {
        failure::fail_step(draft, step, error)
    } else if cursor.is_complete() {
        finish_cursor(draft, step)
    } else {
        // Another step fails the execution, so no chain can end.
        exit::record_exit(draft, step, StepEnd::Cancelled, &SelectedArcs::default(), None)
    }
}

/// Returns the frame to issue now, if any.
fn next_frame(draft: &Draft<'_>, step: StepIndex) -> Option<u32> {
    let StepWork::Cursor(cursor) = &draft.state.active_pass(step)?.work else {
        return None;
    };
    let used_chains = draft.unfinished_commands(step) + cursor.ended as usize;
    let may_issue = used_chains < cursor.terms.chains as usize
        && !draft.state.is_failing()
        && (is_best_effort(draft, step) || cursor.first_failed.is_none());
    may_issue.then_some(cursor.next)
}

fn is_best_effort(draft: &Draft<'_>, step: StepIndex) -> bool {
    let loop_plan = draft.step_plan(step).loop_plan.as_ref();
    loop_plan.is_some_and(|loop_plan| loop_plan.is_best_effort)
}

/// Returns the failure of a frame that fails the step.
fn fatal_frame_error(
    draft: &Draft<'_>,
    step: StepIndex,
    cursor: &CursorState,
) -> Option<TaskError> {
    let failed = cursor.first_failed.as_ref()?;
    (!is_best_effort(draft, step))
        .then(|| TaskError { index: Some(u64::from(failed.index)), ..failed.error.clone() })
}

/// Finishes the loop after every chain has ended.
fn finish_cursor(draft: &mut Draft<'_>, step: StepIndex) -> Result<()> {
    let StepWork::Cursor(cursor) = &draft.active_pass(step)?.work else {
        return Ok(());
    };
    let stats = cursor.loop_stats();
    let mut errors: Vec<IterationError> = cursor.errors.values().cloned().collect();
    // Sort by frame, regardless of their order of completion. Rows of a frame keep their order.
    errors.sort_by_key(|error| error.index);
    let data = loop_data(Vec::new(), stats, &errors);
    loops::end_loop(draft, step, stats, errors, data)
}
