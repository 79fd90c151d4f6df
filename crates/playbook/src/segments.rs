//! Divides a pipeline into commands at the tasks that suspend.
//!
//! Owns which tasks wait without occupying a worker, which of them the server executes, and where
//! the commands of a pipeline begin and end. Server and workers both use this module, so they
//! always agree.

use std::ops::Range;

use noetl_types::Json;

use crate::model::{Task, ToolKind};
use crate::template::DynamicValue;

/// True if the task waits without occupying a worker.
pub fn is_suspending(task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Wait | ToolKind::Approval | ToolKind::Sleep => true,
        ToolKind::Playbook => {
            task.config.get("return_step").is_some() || may_be_enabled(task, "return_result")
        }
        ToolKind::Container => may_be_enabled(task, "callback"),
        _ => false,
    }
}

/// True if a flag is set or may be set. The value of a template is known only at run time.
fn may_be_enabled(task: &Task, key: &str) -> bool {
    let is_false = |value: &DynamicValue| value.as_const().and_then(Json::as_bool) == Some(false);
    task.config.get(key).is_some_and(|field| !is_false(&field.value))
}

/// True if the server executes the task. A playbook task that does not wait for its result runs on
/// the server if it is the only task of its step. Inside a pipeline the worker starts it.
pub fn runs_on_server(tasks: &[Task], index: usize) -> bool {
    tasks.get(index).is_some_and(|task| match task.kind.value {
        ToolKind::Container => false,
        ToolKind::Playbook => is_suspending(task) || tasks.len() == 1,
        _ => is_suspending(task),
    })
}

/// Returns the range of tasks that form one command with the task at `index`: only this task if it
/// suspends, else all adjacent tasks that do not suspend.
pub fn command_segment(tasks: &[Task], index: usize) -> Range<usize> {
    if tasks.get(index).is_none_or(is_suspending) {
        return index..index.saturating_add(1).min(tasks.len());
    }
    let start = tasks[..index].iter().rposition(is_suspending).map_or(0, |last| last + 1);
    let end = tasks[index..].iter().position(is_suspending);
    start..end.map_or(tasks.len(), |next| index + next)
}

/// True if the tasks form more than one command.
pub fn is_split(tasks: &[Task]) -> bool {
    tasks.len() > 1 && tasks.iter().any(is_suspending)
}

#[cfg(test)]
mod tests;
