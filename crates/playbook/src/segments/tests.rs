use super::*;
use crate::{CheckOptions, Document, check};

fn parse_tasks(pipeline: &str) -> Vec<Task> {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: x }}\nworkflow: [{{ step: s, tool: [{pipeline}] }}]"
    );
    match check(&text, &CheckOptions::default()).document {
        Some(Document::Playbook(playbook)) => playbook.workflow[0].tool.tasks().to_vec(),
        _ => panic!("not a playbook:\n{text}"),
    }
}

const MIXED_PIPELINE: &str = "{ name: a, kind: noop }, { name: b, kind: noop }, { name: c, kind: sleep, for: 1s }, \
         { name: d, kind: playbook, path: x }, { name: e, kind: playbook, path: x, return_result: true }, \
         { name: f, kind: container, image: i, callback: true }, { name: g, kind: noop }";

#[test]
fn pipeline_is_split_at_suspending_tasks() {
    let tasks = parse_tasks(MIXED_PIPELINE);
    let segments: Vec<_> = (0..tasks.len()).map(|index| command_segment(&tasks, index)).collect();
    assert_eq!(segments, [0..2, 0..2, 2..3, 3..4, 4..5, 5..6, 6..7]);
    assert!(is_split(&tasks));
}

#[test]
fn server_runs_tasks_without_worker() {
    let tasks = parse_tasks(MIXED_PIPELINE);
    let on_server: Vec<_> =
        (0..tasks.len()).filter(|index| runs_on_server(&tasks, *index)).collect();
    assert_eq!(on_server, [2, 4]);
}

#[test]
fn single_async_playbook_runs_on_server() {
    let alone = parse_tasks("{ name: d, kind: playbook, path: x, return_result: false }");
    assert!(runs_on_server(&alone, 0) && !is_suspending(&alone[0]) && !is_split(&alone));
}
