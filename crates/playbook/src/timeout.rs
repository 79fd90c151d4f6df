//! How long tasks and commands may take.
//!
//! A worker stops an attempt of a task by these numbers, and the lease of a command is bounded by
//! the same ones.

use noetl_types::Millis;

use crate::model::{Loop, LoopSource, Playbook, Step, Task, ToolKind};

/// Time for an attempt of a task that does not say, nor its kind.
const TASK: Millis = Millis::from_secs(3600);
/// Time for an attempt of a command whose tasks may run again, or have no bound of their own.
const LONGEST_COMMAND: Millis = Millis::from_hours(24);

/// How long one attempt of a task may take; `None` where it may wait for ever.
pub fn of_task(playbook: &Playbook, task: &Task) -> Option<Millis> {
    match task.spec.timeout {
        Some(own) => Some(own),
        None => of_kind(playbook, task.kind.value),
    }
}

/// How long one call of a tool may take that no task describes: the claim of a frame.
pub(crate) fn of_kind(playbook: &Playbook, kind: ToolKind) -> Option<Millis> {
    let default = playbook.executor.spec.policy.defaults.timeout;
    match kind.spec().timeout_secs {
        Some(0) => None,
        Some(of_kind) => Some(Millis::from_secs(of_kind)),
        None => Some(default.unwrap_or(TASK)),
    }
}

/// How long one attempt of a command may take: the sum of its tasks, unless a policy or the rows of a
/// frame may run a task more than once.
pub fn of_command(playbook: &Playbook, step: &Step) -> Millis {
    if let Some(Loop {
        source: LoopSource::Cursor(_),
        ..
    }) = &step.looping
    {
        return LONGEST_COMMAND;
    }
    of_tasks(playbook, step.tool.tasks())
}

/// The same for a command that is a part of its pipeline.
pub fn of_tasks(playbook: &Playbook, tasks: &[Task]) -> Millis {
    let of_task = |task: &Task| match task.spec.policy {
        Some(_) => None,
        None => of_task(playbook, task),
    };
    let mut tasks = tasks.iter().map(of_task);
    let sum = tasks.try_fold(Millis::ZERO, |sum, task| Some(sum.saturating_add(task?)));
    sum.unwrap_or(LONGEST_COMMAND)
}
