//! Loops over a cursor: issuing frames and finishing the loop.

use noetl_playbook::command_context::add_data_alias;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{FrameRetry, Loop, ValueOrTemplate};
use noetl_types::{ByteSize, EventId, Json, Millis, TaskError};

use super::draft::{Draft, StepEvalError};
use super::environment::{ExecutionEnvironment, TemplateFocus};
use super::exit::{self, StepSuccess};
use super::rendering::{FieldLocation, TemplateField};
use super::routing::SelectedArcs;
use super::{DecisionError, failure, issue};
use crate::event::{
    CursorEntered, CursorSettings, EventKind, IterationError, LoopDone, StepEnd, errors_json,
    stats_json,
};
use crate::loops::loop_data;
use crate::payload::EventData;
use crate::plan::MAX_LOOP_IN_FLIGHT;
use crate::state::{CommandOutcome, CursorState, StepWork, TriggerEvent};

/// Maximum number of failures in `loop.done`. The data of the step contains more of them.
const MAX_LISTED_ERRORS: usize = 100;
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
    let max_in_flight = model.spec.max_in_flight.as_ref();
    let max_in_flight = max_in_flight.map(|max_in_flight| &max_in_flight.value);
    let max_attempts = match frame.retry_mode {
        Some(FrameRetry::None) => 1,
        Some(FrameRetry::Frame) | None => settings.read_count(
            "max_attempts",
            frame.max_attempts.as_ref(),
            DEFAULT_FRAME_ATTEMPTS,
        )?,
    };
    let chains = match loop_plan.max_in_flight {
        Some(chains) => chains,
        None => settings.read_count_field(TemplateField::MaxInFlight, max_in_flight, 1)?,
    };
    Ok(CursorEntered {
        iterator: loop_plan.iterator.clone(),
        terms: CursorSettings {
            chains: chains.clamp(1, MAX_LOOP_IN_FLIGHT),
            max_rows: settings.read_count("max_rows", frame.max_rows.as_ref(), 1)?,
            max_time: settings.read_duration(
                "max_seconds",
                frame.max_seconds.as_ref(),
                DEFAULT_FRAME_TIME,
            )?,
            max_bytes: settings.read_size(
                "max_bytes",
                frame.max_bytes.as_ref(),
                DEFAULT_FRAME_SIZE,
            )?,
            lease: settings.read_duration(
                "lease_seconds",
                frame.lease_seconds.as_ref(),
                DEFAULT_FRAME_LEASE,
            )?,
            heartbeat: settings.read_duration(
                "heartbeat_seconds",
                frame.heartbeat_seconds.as_ref(),
                DEFAULT_FRAME_HEARTBEAT,
            )?,
            max_attempts,
        },
    })
}

/// Reads settings that may be templates.
struct SettingReader<'s> {
    step: &'s noetl_types::StepName,
    environment: &'s ExecutionEnvironment<'s>,
}

impl SettingReader<'_> {
    fn read_setting<T: Copy>(
        &self,
        field: TemplateField<'_>,
        setting: Option<&ValueOrTemplate<T>>,
        default: T,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, StepEvalError> {
        let location = FieldLocation { step: self.step, field };
        match setting {
            None => Ok(default),
            Some(setting) => location.resolve_setting(setting, self.environment, read),
        }
    }

    fn read_count_field(
        &self,
        field: TemplateField<'_>,
        setting: Option<&ValueOrTemplate<u32>>,
        default: u32,
    ) -> Result<u32, StepEvalError> {
        self.read_setting(field, setting, default, |value| {
            let count = u32::try_from(value.as_u64()?).ok()?;
            (count > 0).then_some(count)
        })
    }

    fn read_count(
        &self,
        name: &'static str,
        setting: Option<&ValueOrTemplate<u32>>,
        default: u32,
    ) -> Result<u32, StepEvalError> {
        self.read_count_field(TemplateField::Frame(name), setting, default)
    }

    fn read_duration(
        &self,
        name: &'static str,
        setting: Option<&ValueOrTemplate<Millis>>,
        default: Millis,
    ) -> Result<Millis, StepEvalError> {
        let read = |value: &Json| Millis::from_json(value).ok();
        self.read_setting(TemplateField::Frame(name), setting, default, read)
    }

    fn read_size(
        &self,
        name: &'static str,
        setting: Option<&ValueOrTemplate<ByteSize>>,
        default: ByteSize,
    ) -> Result<ByteSize, StepEvalError> {
        let read = |value: &Json| ByteSize::from_json(value).ok();
        self.read_setting(TemplateField::Frame(name), setting, default, read)
    }
}

/// Issues the next frames, and leaves the step when every chain has ended.
pub(super) fn continue_cursor(
    draft: &mut Draft<'_>,
    step: StepIndex,
    cause: EventId,
) -> Result<(), DecisionError> {
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
fn finish_cursor(draft: &mut Draft<'_>, step: StepIndex) -> Result<(), DecisionError> {
    let pass = draft.active_pass(step)?;
    let StepWork::Cursor(cursor) = &pass.work else {
        return Ok(());
    };
    let (loop_id, number, stats) = (pass.entered, pass.number, cursor.loop_stats());
    let mut errors: Vec<IterationError> = cursor.errors.values().cloned().collect();
    // Sort by frame, regardless of their order of completion. Rows of a frame keep their order.
    errors.sort_by_key(|error| error.index);
    let all_errors = (!errors.is_empty()).then(|| errors_json(&errors));
    let data = loop_data(Vec::new(), stats_json(stats), all_errors);
    draft.emit_event(EventKind::LoopDone(Box::new(LoopDone {
        step: draft.step_name(step),
        run: number,
        loop_id,
        stats,
        errors: errors.into_iter().take(MAX_LISTED_ERRORS).collect(),
    })))?;
    let outcome = CommandOutcome {
        output: EventData::Inline(add_data_alias(data.clone())).into(),
        ..CommandOutcome::empty_success()
    };
    let success = StepSuccess { event: TriggerEvent::LoopDone, outcome, data: Some(data) };
    exit::complete_step(draft, step, success)
}
