//! Segments: how tasks that park divide a pipeline into commands.
//!
//! Owns which tasks wait without a worker, which of them the server carries out, and where the
//! commands of a pipeline begin and end. Both sides of a run ask here, so they cannot disagree.

use std::ops::Range;

use noetl_types::Json;

use crate::model::{Task, ToolKind};
use crate::template::Dynamic;

/// Whether a task waits without a worker.
pub fn parks(task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Wait | ToolKind::Approval | ToolKind::Sleep => true,
        ToolKind::Playbook => {
            task.config.get("return_step").is_some() || is_asked_for(task, "return_result")
        }
        ToolKind::Container => is_asked_for(task, "callback"),
        ToolKind::Noop
        | ToolKind::Python
        | ToolKind::Shell
        | ToolKind::Http
        | ToolKind::Postgres
        | ToolKind::Sqlite
        | ToolKind::Duckdb
        | ToolKind::Ducklake
        | ToolKind::Workbook
        | ToolKind::Nats
        | ToolKind::Artifact
        | ToolKind::ResultFetch
        | ToolKind::Rhai
        | ToolKind::Transfer
        | ToolKind::Mcp
        | ToolKind::Script
        | ToolKind::Subscription
        | ToolKind::Snowflake
        | ToolKind::Gcs
        | ToolKind::Gateway
        | ToolKind::Secrets
        | ToolKind::Iterator
        | ToolKind::Playbooks
        | ToolKind::Agent
        | ToolKind::Wasm
        | ToolKind::Sink
        | ToolKind::Save
        | ToolKind::Auth
        | ToolKind::TaskSequence => false,
    }
}

/// Whether a switch is on, or may be: a template tells only when it runs.
fn is_asked_for(task: &Task, key: &str) -> bool {
    let is_false = |value: &Dynamic| value.as_const().and_then(Json::as_bool) == Some(false);
    task.config
        .get(key)
        .is_some_and(|field| !is_false(&field.value))
}

/// Whether the server carries a task out. A playbook that is only started needs no worker where it
/// is all that its step does; inside of a pipeline the worker starts it in passing.
pub fn is_on_server(tasks: &[Task], at: usize) -> bool {
    tasks.get(at).is_some_and(|task| match task.kind.value {
        ToolKind::Container => false,
        ToolKind::Playbook => parks(task) || tasks.len() == 1,
        _ => parks(task),
    })
}

/// The tasks that are one command with the task at a place: itself where it parks, else all around
/// it that do not.
pub fn stretch(tasks: &[Task], at: usize) -> Range<usize> {
    if tasks.get(at).is_none_or(parks) {
        return at..at.saturating_add(1).min(tasks.len());
    }
    let start = tasks[..at]
        .iter()
        .rposition(parks)
        .map_or(0, |last| last + 1);
    let end = tasks[at..].iter().position(parks);
    start..end.map_or(tasks.len(), |next| at + next)
}

/// Whether the tasks are more than one command.
pub fn is_split(tasks: &[Task]) -> bool {
    tasks.len() > 1 && tasks.iter().any(parks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckOptions, Document, check};

    fn tasks(pipeline: &str) -> Vec<Task> {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: x }}\nworkflow: [{{ step: s, tool: [{pipeline}] }}]"
        );
        match check(&text, &CheckOptions::default()).document {
            Some(Document::Playbook(playbook)) => playbook.workflow[0].tool.tasks().to_vec(),
            _ => panic!("not a playbook:\n{text}"),
        }
    }

    const MIXED: &str = "{ name: a, kind: noop }, { name: b, kind: noop }, { name: c, kind: sleep, for: 1s }, \
         { name: d, kind: playbook, path: x }, { name: e, kind: playbook, path: x, return_result: true }, \
         { name: f, kind: container, image: i, callback: true }, { name: g, kind: noop }";

    #[test]
    fn a_pipeline_is_cut_where_a_task_parks() {
        let tasks = tasks(MIXED);
        let stretches: Vec<_> = (0..tasks.len()).map(|at| stretch(&tasks, at)).collect();
        assert_eq!(stretches, [0..2, 0..2, 2..3, 3..4, 4..5, 5..6, 6..7]);
        assert!(is_split(&tasks));
    }

    #[test]
    fn the_server_takes_what_needs_no_worker() {
        let tasks = tasks(MIXED);
        let on_server: Vec<_> = (0..tasks.len())
            .filter(|at| is_on_server(&tasks, *at))
            .collect();
        assert_eq!(on_server, [2, 4]);
    }

    #[test]
    fn a_started_playbook_alone_is_the_servers() {
        let alone = tasks("{ name: d, kind: playbook, path: x, return_result: false }");
        assert!(is_on_server(&alone, 0) && !parks(&alone[0]) && !is_split(&alone));
    }
}
