//! Segments: the commands that a pipeline is split into by tasks that park.

use std::sync::Arc;

use noetl_playbook::carried::Carried;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::Task;
use noetl_playbook::segments;
use noetl_playbook::shift::{Job, MAX_DATA, MAX_TASK_RUNS, Relay};
use noetl_types::{Seq, Text, Timestamp};

use super::draft::Draft;
use super::routing::Route;
use super::{Refused, carry, exit, issue, loops};
use crate::event::StepEnd;
use crate::payload::Data;
use crate::state::{RelayState, Work};

/// Where in its pipeline a command begins.
pub(super) struct Place<'d> {
    pub(super) tasks: &'d [Task],
    /// The task that it begins with.
    pub(super) at: usize,
    /// Which command of the pipeline it is, where there are several.
    pub(super) segment: Option<u32>,
    pub(super) not_before: Option<Timestamp>,
}

impl<'d> Place<'d> {
    /// Where the command begins that is open or comes next.
    pub(super) fn of(
        draft: &Draft<'d>,
        step: StepIndex,
        index: Option<u32>,
    ) -> Result<Self, Refused> {
        let tasks = draft.plan.model(step).tool.tasks();
        let relay = draft.run(step)?.relay(index);
        let Some(relay) = relay else {
            return Ok(Self {
                tasks,
                at: 0,
                segment: segments::is_split(tasks).then_some(0),
                not_before: None,
            });
        };
        let at = relay.onward.place_in(tasks);
        Ok(Self {
            tasks,
            at: at.ok_or_else(|| draft.broken("label"))?,
            segment: Some(relay.segment.saturating_add(1)),
            not_before: relay.not_before,
        })
    }

    pub(super) fn is_on_server(&self) -> bool {
        segments::is_on_server(self.tasks, self.at)
    }

    pub(super) fn task(&self) -> Option<&'d Task> {
        self.tasks.get(self.at)
    }

    /// The tasks that are one command.
    pub(super) fn stretch(&self) -> &'d [Task] {
        &self.tasks[segments::stretch(self.tasks, self.at)]
    }
}

/// What a command carries, with all that those before it hand on.
pub(super) fn carried(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
) -> Result<Carried, Refused> {
    let item = match index {
        Some(index) if draft.step(step).carry.item => Some(loops::item(draft, step, index)?),
        Some(_) | None => None,
    };
    let mut carried = carry::collect(draft, step, item)?;
    if let Some(relay) = draft.run(step)?.relay(index) {
        carried.relay = Some(handed_on(draft, relay)?);
    }
    Ok(carried)
}

fn handed_on(draft: &Draft<'_>, relay: &RelayState) -> Result<Relay, Refused> {
    let results = match &relay.results {
        Data::Inline(results) => results.clone(),
        Data::External(reference) => match draft.vault().get(reference) {
            Some(results) => results,
            None => return Err(Refused::NeedsPayload(reference.uri().into())),
        },
    };
    Ok(Relay {
        onward: relay.onward.clone(),
        results: results.as_map().cloned().unwrap_or_default(),
    })
}

/// The work of a command for the server, which sees the run as it is now.
pub(super) fn job(
    draft: &Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
    issued: Seq,
) -> Result<Job, Refused> {
    let execution_id = draft.execution_id()?;
    let total = match &draft.run(step)?.work {
        Work::Single { .. } | Work::Cursor(_) => 0,
        Work::Loop(looping) => looping.iterations,
    };
    Ok(Job {
        playbook: Arc::clone(draft.plan.playbook()),
        step: Text::from(draft.step(step).name.as_str()),
        execution_id,
        command_id: None,
        worker_id: None,
        idempotency_key: format!("{execution_id}:{issued}").into(),
        carried: carried(draft, step, index)?,
        iteration: index.map(|index| (index, total)),
        frame: None,
        issued_at: draft.now,
        limits: draft.plan.limits(),
        max_data: MAX_DATA,
        max_task_runs: MAX_TASK_RUNS,
    })
}

/// Whether a pipeline waits for its next command.
pub(super) fn is_pending(draft: &Draft<'_>, step: StepIndex, index: Option<u32>) -> bool {
    let run = draft.state.run(step);
    let relay = run.and_then(|run| run.relay(index));
    relay.is_some_and(|relay| relay.is_pending)
}

/// Issues the next command of a pipeline. While the run fails nothing is issued any more, so the
/// pipeline never ends and its step is given up.
pub(super) fn go_on(
    draft: &mut Draft<'_>,
    step: StepIndex,
    index: Option<u32>,
) -> Result<(), Refused> {
    let run = draft.run(step)?;
    let cause = draft.last_event().unwrap_or(run.entered);
    if !draft.state.is_failing() {
        return issue::issue(draft, step, index, cause);
    }
    match run.work {
        Work::Loop(_) => loops::go_on(draft, step, cause),
        // No pipeline is split in a loop over a cursor.
        Work::Single { .. } | Work::Cursor(_) => {
            exit::record(draft, step, StepEnd::Cancelled, &Route::default(), None)
        }
    }
}
