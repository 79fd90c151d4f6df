//! Invariants of generated playbooks and their runs.

use std::collections::{BTreeMap, BTreeSet};

use noetl_playbook::graph::{StepGraph, StepIndex};
use noetl_playbook::model::{LoopMode, Playbook, ToolKind, ValueOrTemplate};
use noetl_playbook::{CheckOptions, Severity, check};
use noetl_types::{EventType, ExecutionStatus, Json};

use crate::generate::{GenConfig, PlaybookDraft, generate_playbook};
use crate::{
    CommandOrder, ErrorKind, HistoryEvent, RunResult, ScriptedOutcomes, SkipReason, StepStatus,
    interpret_playbook, shrink_seed, start_workload,
};

const SEEDS: u64 = 300;

fn gen_configs() -> [GenConfig; 3] {
    [GenConfig::default(), GenConfig::all_constructs(), GenConfig::order_independent()]
}

fn run_parsed(playbook: &Playbook, order: CommandOrder) -> RunResult {
    let workload = start_workload(playbook, &Json::empty_map()).unwrap();
    interpret_playbook(playbook, workload, &ScriptedOutcomes, order).unwrap()
}

fn run_draft(draft: &PlaybookDraft, order: CommandOrder) -> RunResult {
    run_parsed(&draft.to_playbook().unwrap(), order)
}

#[test]
fn generated_playbooks_pass_checker() {
    for config in gen_configs() {
        for seed in 0..SEEDS {
            let text = generate_playbook(seed, &config).to_yaml();
            let checked = check(&text, &CheckOptions::default());
            assert_eq!(
                checked.count_severity(Severity::Error),
                0,
                "seed {seed}\n{text}\n{:#?}",
                checked.diagnostics
            );
        }
    }
}

#[test]
fn generation_is_deterministic() {
    for seed in 0..50 {
        let draft = generate_playbook(seed, &GenConfig::all_constructs());
        assert_eq!(draft, generate_playbook(seed, &GenConfig::all_constructs()));
        for order in [CommandOrder::IssueOrder, CommandOrder::Seeded(seed)] {
            assert_eq!(run_draft(&draft, order), run_draft(&draft, order));
        }
    }
}

#[test]
fn every_run_satisfies_invariants() {
    for config in gen_configs() {
        for seed in 0..SEEDS {
            let draft = generate_playbook(seed, &config);
            let playbook = draft.to_playbook().unwrap();
            for order in [CommandOrder::IssueOrder, CommandOrder::Seeded(seed)] {
                let result = run_parsed(&playbook, order);
                if let Err(violation) = check_run_invariants(&playbook, &result) {
                    panic!("seed {seed}, {order:?}: {violation}\n{}\n{result:#?}", draft.to_yaml());
                }
            }
        }
    }
}

/// Checks the invariants of every run.
fn check_run_invariants(playbook: &Playbook, result: &RunResult) -> Result<(), String> {
    let failed = result.status == ExecutionStatus::Failed;
    let count =
        |event: EventType| result.history.iter().filter(|entry| entry.event == event).count();
    let issued = count(EventType::CommandIssued);
    let closed = count(EventType::CommandCompleted)
        + count(EventType::CommandFailed)
        + count(EventType::CommandCancelled);
    let timed_out = execution_timed_out(playbook, result);
    let ends: Vec<bool> = result.history.iter().map(|entry| entry.event.is_terminal()).collect();
    let has_one_end = ends.last() == Some(&true) && ends.iter().filter(|ends| **ends).count() == 1;
    check_all(&[
        (
            timed_out || failed != result.failed_steps.is_empty(),
            "a run fails by a step or its timeout",
        ),
        (failed == result.error_kind.is_some(), "a failed run has an error"),
        (
            timed_out || count(EventType::StepEnter) == count(EventType::StepExit),
            "every entered step exits",
        ),
        (issued == closed, "every issued command is closed"),
        (has_one_end, "exactly one terminal event, at the end"),
    ])?;
    let graph = StepGraph::new(playbook);
    for step in graph.steps() {
        check_step_invariants(&graph, step, result)
            .map_err(|violation| format!("{}: {violation}", graph.name(step)))?;
    }
    check_loop_widths(playbook, result)
}

/// True if the execution timed out.
fn execution_timed_out(playbook: &Playbook, result: &RunResult) -> bool {
    let fired = |entry: &HistoryEvent| entry.event == EventType::TimerFired;
    let mut fired = result.history.iter().filter(|entry| fired(entry));
    fired.any(|entry| entry.node == *playbook.path())
}

/// Returns the first violated invariant.
fn check_all(checks: &[(bool, &str)]) -> Result<(), String> {
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, message)) => Err((*message).to_owned()),
        None => Ok(()),
    }
}

/// Checks the invariants of every step.
fn check_step_invariants(
    graph: &StepGraph,
    step: StepIndex,
    result: &RunResult,
) -> Result<(), String> {
    let name = graph.name(step);
    let state = &result.steps[name];
    let runs = usize::try_from(state.runs).unwrap();
    let entries = result
        .history
        .iter()
        .filter(|entry| entry.event == EventType::StepEnter && entry.node == *name)
        .count();
    let skips: Vec<SkipReason> =
        result.skipped.iter().filter(|skip| skip.step == *name).map(|skip| skip.reason).collect();
    let dead_skips = skips.iter().filter(|reason| **reason == SkipReason::NotRouted).count();
    let reachable = graph.reachable_from(graph.entry())[step.index()];
    let passed = runs > 0 || !skips.is_empty();
    let succeeded = result.status == ExecutionStatus::Completed;
    check_all(&[
        (runs == entries, "every pass is an entry"),
        (graph.is_on_cycle(step) || runs <= 1, "a step outside of cycles runs at most once"),
        (
            state.status != StepStatus::Running || result.error_kind == Some(ErrorKind::Timeout),
            "no step is left running",
        ),
        (
            dead_skips == 0 || (dead_skips == skips.len() && dead_skips == 1 && runs == 0),
            "a dead step stays dead and is skipped once",
        ),
        (
            passed || !reachable || !succeeded,
            "every reachable step of a successful run has run or was skipped",
        ),
        (reachable || !passed || Some(step) == graph.final_step(), "no step runs without an arc"),
    ])
}

/// Checks that no loop exceeds its limit of open commands.
fn check_loop_widths(playbook: &Playbook, result: &RunResult) -> Result<(), String> {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &result.history {
        let width = match &playbook.find_step(&entry.node).and_then(|step| step.looping.as_ref()) {
            None => 1,
            Some(looping) => match (
                looping.spec.mode,
                looping.spec.max_in_flight.as_ref().map(|width| &width.value),
            ) {
                (LoopMode::Parallel | LoopMode::Cursor, Some(ValueOrTemplate::Fixed(width))) => {
                    usize::try_from(*width).unwrap()
                }
                (LoopMode::Parallel, Some(ValueOrTemplate::Template(_)) | None) => 32,
                (LoopMode::Sequential, _) | (LoopMode::Cursor, Some(_) | None) => 1,
            },
        };
        let open = open.entry(&entry.node).or_default();
        *open += usize::from(entry.event == EventType::CommandIssued);
        let closing =
            [EventType::CommandCompleted, EventType::CommandFailed, EventType::CommandCancelled];
        *open -= usize::from(closing.contains(&entry.event));
        if *open > width {
            return Err(format!("{} has {open} open commands", entry.node));
        }
    }
    Ok(())
}

#[test]
fn race_free_result_is_order_independent() {
    for seed in 0..SEEDS {
        let draft = generate_playbook(seed, &GenConfig::order_independent());
        let mut runs = (0..4).map(|number| {
            let order =
                if number == 0 { CommandOrder::IssueOrder } else { CommandOrder::Seeded(number) };
            let result = run_draft(&draft, order);
            let skipped: BTreeSet<_> = result.skipped.into_iter().collect();
            (result.status, result.steps, skipped, result.ctx)
        });
        let first = runs.next().unwrap();
        assert!(runs.all(|other| other == first), "seed {seed}\n{}", draft.to_yaml());
    }
}

/// Constructs that must occur in generated texts.
const EXPECTED_CONSTRUCTS: [&str; 43] = [
    "final_step", "entry_step", "admit", "parallel", "inclusive", "best_effort", "on_no_match",
    "do: retry", "do: jump", "do: break", "do: fail", "do: continue", "on_unmatched",
    "max_in_flight", "step: end", "_prev", "iter.i", "step.p", "ctx.m.", "previous", "message",
    "kind: sleep", "until", "kind: wait", "mode: all", "lookback", "kind: approval", "quorum",
    "approvers", "on_timeout", "kind: playbook", "return_step", "result_step", "mode: cursor",
    "process: frame", "cache", "ttl", "select", "accumulate", "manifest_as", "concurrency",
    "priority", "timeout",
];

/// Outcomes that must occur in runs.
const EXPECTED_OUTCOMES: [&str; 27] = [
    "COMPLETED", "FAILED", "timeout", "transform", "routing", "template", "schema", "limit",
    "unknown", "skip guard", "skip admission", "skip not_routed", "step PENDING", "step COMPLETED",
    "step FAILED", "step CANCELLED", "step SKIPPED", "second run", "caught", "child",
    "timer.started", "timer.fired", "signal.received", "command.cancelled", "execution timed out",
    "buffered signal", "cached",
];

/// Guards against a generator that no longer writes a construct: comparisons would pass without it.
#[test]
fn every_construct_occurs() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for seed in 0..SEEDS {
        let draft = generate_playbook(seed, &GenConfig::all_constructs());
        let text = draft.to_yaml();
        seen.extend(
            EXPECTED_CONSTRUCTS
                .iter()
                .filter(|construct| text.contains(**construct))
                .map(|construct| (*construct).to_owned()),
        );
        let result = run_draft(&draft, CommandOrder::IssueOrder);
        seen.insert(result.status.as_str().to_owned());
        seen.extend(result.error_kind.map(|kind| kind.as_str().to_owned()));
        let playbook = draft.to_playbook().unwrap();
        if execution_timed_out(&playbook, &result) {
            seen.insert("execution timed out".to_owned());
        }
        for (before, entry) in result.history.iter().zip(result.history.iter().skip(1)) {
            seen.insert(entry.event.as_str().to_owned());
            if entry.event == EventType::SignalReceived && entry.node == *playbook.path() {
                seen.insert("buffered signal".to_owned());
            }
            if entry.event == EventType::CallDone && before.event == EventType::StepEnter {
                seen.insert("cached".to_owned());
            }
        }
        seen.extend(result.skipped.iter().map(|skip| format!("skip {}", skip.reason.as_str())));
        for step in result.steps.values() {
            seen.insert(format!("step {}", step.status.as_str()));
            if step.runs > 1 {
                seen.insert("second run".to_owned());
            }
            if step.error_kind.is_some() && result.error_kind.is_none() {
                seen.insert("caught".to_owned());
            }
        }
    }
    let missing: Vec<_> = EXPECTED_CONSTRUCTS
        .iter()
        .chain(&EXPECTED_OUTCOMES)
        .filter(|expected| !seen.contains(**expected))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn disabled_constructs_are_not_generated() {
    let config = GenConfig {
        max_steps: 4,
        loops: false,
        parallel_loops: false,
        guards: false,
        ..GenConfig::order_independent().without_external_inputs()
    };
    for seed in 0..SEEDS {
        let playbook = generate_playbook(seed, &config).to_playbook().unwrap();
        assert!(playbook.workflow.len() <= 5);
        for step in &playbook.workflow {
            assert!(
                step.looping.is_none() && step.when.is_none() && step.set.is_empty(),
                "seed {seed}"
            );
            let suspends = |kind: ToolKind| kind.is_server_side();
            let tasks = step.tool.tasks();
            assert!(!tasks.iter().any(|task| suspends(task.kind.value)), "seed {seed}");
            assert!(
                step.concurrency.is_none()
                    && step.spec.cache.is_none()
                    && step.spec.timeout.is_none(),
                "seed {seed}"
            );
        }
        assert!(StepGraph::new(&playbook).cycles().is_empty(), "seed {seed}");
    }
}

#[test]
fn shrinks_failing_playbook() {
    // Stands for a disagreement: a guard skips a step after another one has failed and was caught.
    let disagrees = |playbook: &Playbook| {
        let result = run_parsed(playbook, CommandOrder::IssueOrder);
        let guarded = result.skipped.iter().any(|skip| skip.reason == SkipReason::Guard);
        let caught = result.steps.values().any(|step| step.error_kind.is_some());
        guarded && caught && result.status == ExecutionStatus::Completed
    };
    let config = GenConfig::default();
    let found = (0..500)
        .find_map(|seed| shrink_seed(seed, &config, &mut |playbook, _| disagrees(playbook)));
    let small = found.unwrap();
    let playbook = small.to_playbook().unwrap();
    assert!(disagrees(&playbook));
    assert!(playbook.workflow.len() <= 3, "{}", small.to_yaml());
    assert!(small.to_yaml().lines().count() < 40, "{}", small.to_yaml());
    assert_eq!(shrink_seed(0, &config, &mut |_, _| false), None);
}
