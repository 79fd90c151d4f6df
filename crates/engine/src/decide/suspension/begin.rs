//! Begins waits: issues the command, starts its timer, and delivers signals that are already there.

use noetl_playbook::command_machine::{CallSpec, SuspendedCommand, TaskStartError, ToolResult};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::timeout;
use noetl_types::{CommandId, EventId, Json, JsonMap, Millis, TaskError, TaskErrorKind};

use super::conclude::conclude_wait;
use super::{config, signal};
use crate::decide::draft::Draft;
use crate::decide::segments::{self, SegmentStart};
use crate::decide::{DecisionError, FollowUp, Result, fence, issue, report};
use crate::event::{
    ChildCall, ChildTarget, CommandRef, CommandTimer, EventKind, InvalidTaskConfig, SuspensionKind,
    TimerStarted,
};
use crate::payload::EventData;
use crate::state::SuspendedTask;

/// Maximum number of tasks that one decision may begin and end at once. A pipeline that repeats
/// without waiting would otherwise never end inside one decision.
const MAX_IMMEDIATE_ENDS: u32 = 10_000;
/// Timeout of child executions and callbacks that specify none.
const DEFAULT_WAIT_TIMEOUT: Millis = Millis::from_hours(24);

/// Issues a suspended command, and begins the wait.
pub(in crate::decide) fn suspend_task(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    cause: EventId,
) -> Result<()> {
    let seq = draft.state.version().next_seq();
    let command_spec = segments::server_command_spec(draft, step, index, seq)?;
    let suspended_command = SuspendedCommand::new(command_spec, 1, &JsonMap::new());
    let mut suspended_command = suspended_command.map_err(|_| draft.invariant_error("step"))?;
    let call_spec = suspended_command.render_call(&draft.payload_source());
    let suspension = match call_spec {
        Ok(spec) => parse_suspension(draft, step, spec)?,
        Err(TaskStartError::Needs(uri)) => return Err(DecisionError::NeedsPayload(uri)),
        Err(TaskStartError::Failed(error)) => {
            SuspensionKind::Broken(Box::new(InvalidTaskConfig { error: *error }))
        }
    };
    let event = issue::issue_suspended(draft, step, index, suspension, cause)?;
    begin_wait(draft, CommandId::from(event))
}

/// Parses the condition that a task waits for. A task with an invalid configuration waits for
/// nothing and fails.
fn parse_suspension(
    draft: &mut Draft<'_>,
    step: StepIndex,
    spec: CallSpec,
) -> Result<SuspensionKind> {
    let parsed = config::parse_suspension_config(draft, step, spec)?;
    Ok(parsed.unwrap_or_else(|error| SuspensionKind::Broken(Box::new(InvalidTaskConfig { error }))))
}

/// Begins the wait of a command, in its first or a later attempt.
pub(super) fn begin_wait(draft: &mut Draft<'_>, command: CommandId) -> Result<()> {
    let Some((at, suspended)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("wait"));
    };
    let timeout = attempt_timeout(draft, &at)?;
    let until = timeout.map(|timeout| draft.now.saturating_add(timeout));
    match &suspended.kind {
        SuspensionKind::Sleep(sleep) => {
            let fire_at = until.map_or(sleep.until, |until| until.min(sleep.until));
            start_timer(draft, at, CommandTimer::Sleep, TimerSpec::firing_at(fire_at))
        }
        SuspensionKind::Wait(_) => {
            if let Some(until) = until {
                start_timer(draft, at, CommandTimer::Wait, TimerSpec::firing_at(until))?;
            }
            signal::deliver_earlier_signals(draft, command)
        }
        SuspensionKind::Approval(_) => match until {
            Some(until) => start_timer(draft, at, CommandTimer::Wait, TimerSpec::firing_at(until)),
            None => Ok(()),
        },
        SuspensionKind::Child(call) => begin_child(draft, at, &suspended, call, timeout),
        SuspensionKind::Broken(broken) => {
            let result = ToolResult::failed(broken.error.clone());
            end_at_once(draft, command, result)
        }
        // Only a worker begins a callback.
        SuspensionKind::Callback(_) => Err(draft.invariant_error("callback")),
    }
}

/// Returns the timeout of one attempt of a task. `None` means no timeout.
fn attempt_timeout(draft: &Draft<'_>, at: &CommandRef) -> Result<Option<Millis>> {
    let step = draft.plan.find_step(at.step.as_str());
    let step = step.ok_or_else(|| draft.invariant_error("step"))?;
    let segment_start = SegmentStart::locate(draft, step, at.index)?;
    let task = segment_start.first_task().ok_or_else(|| draft.invariant_error("task"))?;
    Ok(timeout::task_timeout(draft.plan.playbook(), task))
}

/// Requests the start of a child execution, and waits for its end if the task requires it. Each
/// attempt is a new execution.
fn begin_child(
    draft: &mut Draft<'_>,
    at: CommandRef,
    suspended: &SuspendedTask,
    call: &ChildCall,
    timeout: Option<Millis>,
) -> Result<()> {
    let is_first = suspended.attempt == 1;
    let child = if is_first { call.child } else { draft.new_execution_id()? };
    let depth = draft.state.start_event().map_or(0, |started| started.depth);
    draft.follow_ups.push(FollowUp::StartChild {
        call: Box::new(ChildCall { child, ..call.clone() }),
        depth: depth.saturating_add(1),
    });
    if call.waits {
        let fire_at = draft.now.saturating_add(timeout.unwrap_or(DEFAULT_WAIT_TIMEOUT));
        let timer_spec =
            TimerSpec { child: (!is_first).then_some(child), ..TimerSpec::firing_at(fire_at) };
        return start_timer(draft, at, CommandTimer::Child, timer_spec);
    }
    let (key, target) = match &call.of {
        ChildTarget::Path(path) => ("path", Json::from(path)),
        ChildTarget::CatalogId(id) => ("catalog_id", Json::from(id.to_string())),
    };
    let data = Json::object([
        ("status", Json::from("started")),
        ("execution_id", Json::from(child.to_string())),
        (key, target),
        ("async", Json::Bool(true)),
    ]);
    end_at_once(draft, at.command, ToolResult::ok(data))
}

/// Suspends a command until the work that its worker started reports its end.
pub(in crate::decide) fn suspend_for_callback(
    draft: &mut Draft<'_>,
    at: CommandRef,
    started: Json,
) -> Result<()> {
    let timeout = attempt_timeout(draft, &at)?.unwrap_or(DEFAULT_WAIT_TIMEOUT);
    let timer_spec = TimerSpec {
        started: Some(started),
        ..TimerSpec::firing_at(draft.now.saturating_add(timeout))
    };
    start_timer(draft, at, CommandTimer::Callback, timer_spec)
}

/// Data of a timer that starts.
pub(super) struct TimerSpec {
    pub(super) fire_at: noetl_types::Timestamp,
    pub(super) child: Option<noetl_types::ExecutionId>,
    pub(super) started: Option<Json>,
    pub(super) set: JsonMap,
}

impl TimerSpec {
    pub(super) fn firing_at(fire_at: noetl_types::Timestamp) -> Self {
        Self { fire_at, child: None, started: None, set: JsonMap::new() }
    }
}

pub(super) fn start_timer(
    draft: &mut Draft<'_>,
    at: CommandRef,
    timer: CommandTimer,
    spec: TimerSpec,
) -> Result<()> {
    draft.emit_event(EventKind::TimerStarted(Box::new(TimerStarted {
        at,
        timer,
        fire_at: spec.fire_at,
        child: spec.child,
        started: spec.started,
        set: spec.set,
    })))?;
    Ok(())
}

/// Ends a wait that has nothing to wait for. The command is processed later in the decision.
pub(super) fn end_at_once(
    draft: &mut Draft<'_>,
    command: CommandId,
    result: ToolResult,
) -> Result<()> {
    draft.pass_count += 1;
    let closed = if draft.pass_count > MAX_IMMEDIATE_ENDS {
        let Some((at, _)) = find_suspended(draft, command) else {
            return Err(draft.invariant_error("wait"));
        };
        let message = format!("step `{}` loops without waiting for anything", at.step);
        let error = TaskError::new(TaskErrorKind::Limit, message);
        Some(report::close_failed(draft, &at, error, EventData::default().into())?)
    } else {
        conclude_wait(draft, command, result)?
    };
    if let Some(closed) = closed {
        *draft.deferred_counts.entry(closed.step).or_default() += 1;
        draft.closed_at_once.push_back(closed);
    }
    Ok(())
}

/// Finds a suspended command.
pub(super) fn find_suspended(
    draft: &Draft<'_>,
    command: CommandId,
) -> Option<(CommandRef, SuspendedTask)> {
    let open = draft.state.command(command)?;
    let suspended = open.suspended_task()?.clone();
    Some((fence::command_ref(draft, command, open), suspended))
}
