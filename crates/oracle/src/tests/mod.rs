//! Tests of the oracle on playbooks with manually derived outcomes, and on generated ones.

mod examples;
mod failures;
mod generated;
mod joins;
mod limits_and_caches;
mod loops;
mod policies;
mod routing;
mod start;
mod suspension;
mod writes;

use std::fmt::Write as _;

use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::json::parse;
use noetl_types::{EventType, Json};

use crate::{
    CommandOrder, RunResult, ScriptedOutcomes, ToolOutcomes, interpret_playbook, start_workload,
};

/// Parses a playbook from its text without the header.
fn parse_playbook(text: &str) -> Playbook {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: test }}\n{text}");
    let checked = check(&text, &CheckOptions::default());
    assert_eq!(checked.count_severity(Severity::Error), 0, "{:#?}", checked.diagnostics);
    match checked.document {
        Some(Document::Playbook(playbook)) => *playbook,
        other => panic!("not a playbook: {other:?}"),
    }
}

fn run_with_outcomes(text: &str, outcomes: &dyn ToolOutcomes) -> RunResult {
    let playbook = parse_playbook(text);
    let workload = start_workload(&playbook, &Json::empty_map()).unwrap();
    interpret_playbook(&playbook, workload, outcomes, CommandOrder::IssueOrder).unwrap()
}

fn run_text(text: &str) -> RunResult {
    run_with_outcomes(text, &ScriptedOutcomes)
}

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

/// Formats the history, one line per event. The four events of a successful command are one `W`.
fn format_history(result: &RunResult) -> String {
    let mut lines = String::new();
    let mut rest = result.history.as_slice();
    while let Some((first, more)) = rest.split_first() {
        let index = first.index.map(|index| format!("[{index}]")).unwrap_or_default();
        let kinds: Vec<EventType> = rest.iter().take(4).map(|event| event.event).collect();
        let command_events = [
            EventType::CommandClaimed,
            EventType::CommandStarted,
            EventType::CallDone,
            EventType::CommandCompleted,
        ];
        let is_command = kinds == command_events;
        let label = if is_command { "W" } else { first.event.as_str() };
        writeln!(lines, "{label} {}{index}", first.node).unwrap();
        rest = if is_command { &rest[4..] } else { more };
    }
    lines
}

/// Returns the skipped steps with the reason, in order.
fn skipped_steps(result: &RunResult) -> Vec<String> {
    result.skipped.iter().map(|skip| format!("{}:{}", skip.step, skip.reason.as_str())).collect()
}

/// Returns the steps that were entered, in order.
fn entered_steps(result: &RunResult) -> Vec<&str> {
    let entered = result.history.iter().filter(|event| event.event == EventType::StepEnter);
    entered.map(|event| &*event.node).collect()
}

#[track_caller]
fn assert_data(result: &RunResult, step: &str, data: &str) {
    assert_eq!(result.steps[step].data, parse_json(data), "data of {step}");
}
