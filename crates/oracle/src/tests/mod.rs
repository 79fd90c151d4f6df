//! The oracle on playbooks whose outcome was worked out by hand, and on generated ones.

mod examples;
mod failures;
mod generated;
mod joins;
mod loops;
mod outside;
mod parking;
mod policies;
mod routing;
mod start;
mod writes;

use std::fmt::Write as _;

use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::json::parse;
use noetl_types::{EventType, Json};

use crate::{Outcomes, RunResult, Schedule, Script, interpret, start_workload};

/// A playbook of these steps, after whatever else its text says.
fn playbook(text: &str) -> Playbook {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: test }}\n{text}");
    let checked = check(&text, &CheckOptions::default());
    assert_eq!(
        checked.count(Severity::Error),
        0,
        "{:#?}",
        checked.diagnostics
    );
    match checked.document {
        Some(Document::Playbook(playbook)) => *playbook,
        other => panic!("not a playbook: {other:?}"),
    }
}

fn run_with(text: &str, outcomes: &dyn Outcomes) -> RunResult {
    let playbook = playbook(text);
    let workload = start_workload(&playbook, &Json::empty_map()).unwrap();
    interpret(&playbook, workload, outcomes, Schedule::InOrder).unwrap()
}

fn run(text: &str) -> RunResult {
    run_with(text, &Script)
}

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

/// What happened, a line for each event; the four events of a command that went well are one `W`.
fn told(result: &RunResult) -> String {
    let mut lines = String::new();
    let mut rest = result.history.as_slice();
    while let Some((first, more)) = rest.split_first() {
        let index = first
            .index
            .map(|index| format!("[{index}]"))
            .unwrap_or_default();
        let kinds: Vec<EventType> = rest.iter().take(4).map(|event| event.event).collect();
        let whole = [
            EventType::CommandClaimed,
            EventType::CommandStarted,
            EventType::CallDone,
            EventType::CommandCompleted,
        ];
        let is_whole = kinds == whole;
        let word = if is_whole { "W" } else { first.event.as_str() };
        writeln!(lines, "{word} {}{index}", first.node).unwrap();
        rest = if is_whole { &rest[4..] } else { more };
    }
    lines
}

/// The names of the skipped steps, in order.
fn skips(result: &RunResult) -> Vec<String> {
    result
        .skipped
        .iter()
        .map(|skip| format!("{}:{}", skip.step, skip.reason.as_str()))
        .collect()
}

/// The steps that were entered, in order.
fn entered(result: &RunResult) -> Vec<&str> {
    let entered = result
        .history
        .iter()
        .filter(|event| event.event == EventType::StepEnter);
    entered.map(|event| &*event.node).collect()
}

#[track_caller]
fn assert_data(result: &RunResult, step: &str, data: &str) {
    assert_eq!(result.steps[step].data, json(data), "data of {step}");
}
