//! The beginning of a wait: its command, its timer, and what is there already.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::shift::{Answer, CallSpec, Hitch, Parking};
use noetl_playbook::timeout;
use noetl_types::{CommandId, EventId, Json, JsonMap, Millis, TaskError, TaskErrorKind};

use super::conclude::conclude;
use super::{config, signal};
use crate::decide::draft::Draft;
use crate::decide::segments::{self, Place};
use crate::decide::{Errand, Refused, fence, issue, report};
use crate::event::{
    Broken, ChildCall, ChildOf, CommandAt, CommandTimer, EventKind, Park, TimerStarted,
};
use crate::payload::Data;
use crate::state::Parked;

/// Tasks that one decision may begin and end at once. A pipeline that goes round without waiting for
/// anything would go round for ever inside of one decision.
const MAX_AT_ONCE: u32 = 10_000;
/// The time of a worker's task that nothing bounds.
const LONGEST: Millis = Millis::from_hours(24);

/// Issues a command that waits, and begins the wait.
pub(in crate::decide) fn park(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    cause: EventId,
) -> Result<(), Refused> {
    let seq = draft.state.version().next_seq();
    let job = segments::job(draft, step, index, seq)?;
    let parking = Parking::new(job, 1, &JsonMap::new());
    let mut parking = parking.map_err(|_| draft.broken("step"))?;
    let called = parking.call(&draft.vault());
    let park = match called {
        Ok(spec) => what_for(draft, step, spec)?,
        Err(Hitch::Needs(uri)) => return Err(Refused::NeedsPayload(uri)),
        Err(Hitch::Failed(error)) => Park::Broken(Box::new(Broken { error: *error })),
    };
    let event = issue::issue_parked(draft, step, index, park, cause)?;
    begin(draft, CommandId::from(event))
}

/// What a task waits for; one that cannot be understood waits for nothing and fails.
fn what_for(draft: &mut Draft<'_>, step: StepIndex, spec: CallSpec) -> Result<Park, Refused> {
    let read = config::read(draft, step, spec)?;
    Ok(read.unwrap_or_else(|error| Park::Broken(Box::new(Broken { error }))))
}

/// Begins the wait of a command, in its first attempt or a later one.
pub(super) fn begin(draft: &mut Draft<'_>, command: CommandId) -> Result<(), Refused> {
    let Some((at, parked)) = find(draft, command) else {
        return Err(draft.broken("wait"));
    };
    let time = time_for(draft, &at)?;
    let until = time.map(|time| draft.now.saturating_add(time));
    match &parked.park {
        Park::Sleep(sleep) => {
            let fire_at = until.map_or(sleep.until, |until| until.min(sleep.until));
            start_timer(draft, at, CommandTimer::Sleep, Timing::at(fire_at))
        }
        Park::Wait(_) => {
            if let Some(until) = until {
                start_timer(draft, at, CommandTimer::Wait, Timing::at(until))?;
            }
            signal::look_back(draft, command)
        }
        Park::Approval(_) => match until {
            Some(until) => start_timer(draft, at, CommandTimer::Wait, Timing::at(until)),
            None => Ok(()),
        },
        Park::Child(call) => begin_child(draft, command, at, (&parked, call), time),
        Park::Broken(broken) => {
            let answer = Answer::failed(broken.error.clone());
            end_at_once(draft, command, answer)
        }
        // Its worker begins it.
        Park::Callback(_) => Err(draft.broken("callback")),
    }
}

/// How long one attempt of a task may wait; `None` where it may wait for ever.
fn time_for(draft: &Draft<'_>, at: &CommandAt) -> Result<Option<Millis>, Refused> {
    let step = draft.plan.find(at.step.as_str());
    let step = step.ok_or_else(|| draft.broken("step"))?;
    let place = Place::of(draft, step, at.index)?;
    let task = place.task().ok_or_else(|| draft.broken("task"))?;
    Ok(timeout::of_task(draft.plan.playbook(), task))
}

/// Has a child started, and waits for its end where that is wanted. Each attempt is a run of its own.
fn begin_child(
    draft: &mut Draft<'_>,
    command: CommandId,
    at: CommandAt,
    (parked, call): (&Parked, &ChildCall),
    time: Option<Millis>,
) -> Result<(), Refused> {
    let is_first = parked.attempt == 1;
    let child = if is_first {
        call.child
    } else {
        draft.new_execution()?
    };
    let depth = draft.state.started().map_or(0, |started| started.depth);
    draft.errands.push(Errand::StartChild {
        call: Box::new(ChildCall {
            child,
            ..call.clone()
        }),
        depth: depth.saturating_add(1),
    });
    if call.waits {
        let fire_at = draft.now.saturating_add(time.unwrap_or(LONGEST));
        let timing = Timing {
            child: (!is_first).then_some(child),
            ..Timing::at(fire_at)
        };
        return start_timer(draft, at, CommandTimer::Child, timing);
    }
    let (key, of) = match &call.of {
        ChildOf::Path(path) => ("path", Json::from(path)),
        ChildOf::CatalogId(id) => ("catalog_id", Json::from(id.to_string())),
    };
    let data = Json::object([
        ("status", Json::from("started")),
        ("execution_id", Json::from(child.to_string())),
        (key, of),
        ("async", Json::Bool(true)),
    ]);
    end_at_once(draft, command, Answer::ok(data))
}

/// Parks what a worker has started until it tells its end.
pub(in crate::decide) fn park_callback(
    draft: &mut Draft<'_>,
    at: CommandAt,
    started: Json,
) -> Result<(), Refused> {
    let time = time_for(draft, &at)?.unwrap_or(LONGEST);
    let timing = Timing {
        started: Some(started),
        ..Timing::at(draft.now.saturating_add(time))
    };
    start_timer(draft, at, CommandTimer::Callback, timing)
}

/// What the beginning of a timer tells.
pub(super) struct Timing {
    pub(super) fire_at: noetl_types::Timestamp,
    pub(super) child: Option<noetl_types::ExecutionId>,
    pub(super) started: Option<Json>,
    pub(super) set: JsonMap,
}

impl Timing {
    pub(super) fn at(fire_at: noetl_types::Timestamp) -> Self {
        Self {
            fire_at,
            child: None,
            started: None,
            set: JsonMap::new(),
        }
    }
}

pub(super) fn start_timer(
    draft: &mut Draft<'_>,
    at: CommandAt,
    timer: CommandTimer,
    timing: Timing,
) -> Result<(), Refused> {
    draft.emit(EventKind::TimerStarted(Box::new(TimerStarted {
        at,
        timer,
        fire_at: timing.fire_at,
        child: timing.child,
        started: timing.started,
        set: timing.set,
    })))?;
    Ok(())
}

/// Ends a wait that had nothing to wait for. What follows comes later in the decision.
pub(super) fn end_at_once(
    draft: &mut Draft<'_>,
    command: CommandId,
    answer: Answer,
) -> Result<(), Refused> {
    draft.passes += 1;
    let closing = if draft.passes > MAX_AT_ONCE {
        let Some((at, _)) = find(draft, command) else {
            return Err(draft.broken("wait"));
        };
        let message = format!("step `{}` goes round without waiting for anything", at.step);
        let error = TaskError::new(TaskErrorKind::Limit, message);
        Some(report::close_failed(
            draft,
            &at,
            error,
            Data::default().into(),
        )?)
    } else {
        conclude(draft, command, answer)?
    };
    if let Some(closing) = closing {
        *draft.still_held.entry(closing.step).or_default() += 1;
        draft.at_once.push_back(closing);
    }
    Ok(())
}

/// A command that waits.
pub(super) fn find(draft: &Draft<'_>, command: CommandId) -> Option<(CommandAt, Parked)> {
    let open = draft.state.command(command)?;
    let parked = open.parked()?.clone();
    Some((fence::at(draft, command, open), parked))
}
