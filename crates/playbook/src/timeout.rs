//! Time limits of tasks and commands.
//!
//! A worker stops a task attempt after these durations, and they bound the lease of a command.

use noetl_types::Millis;

use crate::model::{Loop, LoopSource, Playbook, Step, Task, ToolKind};

/// Timeout of a task attempt if neither the task nor its kind sets one.
const DEFAULT_TASK_TIMEOUT: Millis = Millis::from_secs(3600);
/// Timeout of a command attempt whose tasks may run more than once or have no time limit.
const MAX_COMMAND_TIMEOUT: Millis = Millis::from_hours(24);

/// Returns the time limit of one task attempt. `None` means unlimited.
pub fn task_timeout(playbook: &Playbook, task: &Task) -> Option<Millis> {
    match task.spec.timeout {
        Some(timeout) => Some(timeout),
        None => tool_timeout(playbook, task.kind.value),
    }
}

/// Returns the time limit of one tool call that does not belong to a task, such as the claim of a
/// frame.
pub(crate) fn tool_timeout(playbook: &Playbook, kind: ToolKind) -> Option<Millis> {
    let default = playbook.executor.spec.policy.defaults.timeout;
    match kind.spec().timeout_secs {
        Some(0) => None,
        Some(secs) => Some(Millis::from_secs(secs)),
        None => Some(default.unwrap_or(DEFAULT_TASK_TIMEOUT)),
    }
}

/// Returns the time limit of one command attempt: the sum of its tasks' limits, unless a policy or
/// the rows of a frame may run a task more than once.
pub fn command_timeout(playbook: &Playbook, step: &Step) -> Millis {
    if let Some(Loop { source: LoopSource::Cursor(_), .. }) = &step.looping {
        return MAX_COMMAND_TIMEOUT;
    }
    pipeline_timeout(playbook, step.tool.tasks())
}

/// Returns the time limit of one attempt of a command that runs these tasks of a pipeline.
pub fn pipeline_timeout(playbook: &Playbook, tasks: &[Task]) -> Millis {
    let single_run = |task: &Task| match task.spec.policy {
        Some(_) => None,
        None => task_timeout(playbook, task),
    };
    let mut tasks = tasks.iter().map(single_run);
    let sum = tasks.try_fold(Millis::ZERO, |sum, task| Some(sum.saturating_add(task?)));
    sum.unwrap_or(MAX_COMMAND_TIMEOUT)
}
