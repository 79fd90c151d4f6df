//! Generated playbooks: valid, ending, and obeying what must hold of every run.

use std::collections::{BTreeMap, BTreeSet};

use noetl_playbook::graph::{Graph, StepIndex};
use noetl_playbook::model::{LoopMode, Playbook, Setting, ToolKind};
use noetl_playbook::{CheckOptions, Severity, check};
use noetl_types::{EventType, ExecutionStatus, Json};

use crate::generate::{Draft, GenConfig, generate};
use crate::{
    ErrorKind, Happening, RunResult, Schedule, Script, SkipReason, StepStatus, interpret,
    shrink_seed, start_workload,
};

const SEEDS: u64 = 300;

fn configs() -> [GenConfig; 3] {
    [
        GenConfig::default(),
        GenConfig::everything(),
        GenConfig::confluent(),
    ]
}

fn run(playbook: &Playbook, schedule: Schedule) -> RunResult {
    let workload = start_workload(playbook, &Json::empty_map()).unwrap();
    interpret(playbook, workload, &Script, schedule).unwrap()
}

fn run_draft(draft: &Draft, schedule: Schedule) -> RunResult {
    run(&draft.playbook().unwrap(), schedule)
}

#[test]
fn every_text_passes_the_checker() {
    for config in configs() {
        for seed in 0..SEEDS {
            let text = generate(seed, &config).text();
            let checked = check(&text, &CheckOptions::default());
            assert_eq!(
                checked.count(Severity::Error),
                0,
                "seed {seed}\n{text}\n{:#?}",
                checked.diagnostics
            );
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_text_and_result() {
    for seed in 0..50 {
        let draft = generate(seed, &GenConfig::everything());
        assert_eq!(draft, generate(seed, &GenConfig::everything()));
        for schedule in [Schedule::InOrder, Schedule::Seeded(seed)] {
            assert_eq!(run_draft(&draft, schedule), run_draft(&draft, schedule));
        }
    }
}

#[test]
fn every_run_obeys_the_invariants() {
    for config in configs() {
        for seed in 0..SEEDS {
            let draft = generate(seed, &config);
            let playbook = draft.playbook().unwrap();
            for schedule in [Schedule::InOrder, Schedule::Seeded(seed)] {
                let result = run(&playbook, schedule);
                if let Err(broken) = invariants(&playbook, &result) {
                    panic!(
                        "seed {seed}, {schedule:?}: {broken}\n{}\n{result:#?}",
                        draft.text()
                    );
                }
            }
        }
    }
}

/// What must hold of every run, whatever the playbook.
fn invariants(playbook: &Playbook, result: &RunResult) -> Result<(), String> {
    let failed = result.status == ExecutionStatus::Failed;
    let count = |event: EventType| {
        result
            .history
            .iter()
            .filter(|told| told.event == event)
            .count()
    };
    let issued = count(EventType::CommandIssued);
    let closed = count(EventType::CommandCompleted)
        + count(EventType::CommandFailed)
        + count(EventType::CommandCancelled);
    let timed_out = timed_out(playbook, result);
    let ends: Vec<bool> = result
        .history
        .iter()
        .map(|told| told.event.is_terminal())
        .collect();
    let one_end = ends.last() == Some(&true) && ends.iter().filter(|ends| **ends).count() == 1;
    obeyed(&[
        (
            timed_out || failed != result.failed_steps.is_empty(),
            "a run fails by its steps or its time",
        ),
        (
            failed == result.error_kind.is_some(),
            "a failed run has an error",
        ),
        (
            timed_out || count(EventType::StepEnter) == count(EventType::StepExit),
            "what is entered exits",
        ),
        (issued == closed, "what is issued is closed"),
        (one_end, "exactly one terminal event, at the end"),
    ])?;
    let graph = Graph::new(playbook);
    for step in graph.steps() {
        accounted(&graph, step, result).map_err(|law| format!("{}: {law}", graph.name(step)))?;
    }
    widths(playbook, result)
}

/// Whether the time of the whole run was over.
fn timed_out(playbook: &Playbook, result: &RunResult) -> bool {
    let fired = |told: &Happening| told.event == EventType::TimerFired;
    let mut fired = result.history.iter().filter(|told| fired(told));
    fired.any(|told| told.node == *playbook.path())
}

/// The first law that is broken.
fn obeyed(laws: &[(bool, &str)]) -> Result<(), String> {
    match laws.iter().find(|(holds, _)| !holds) {
        Some((_, law)) => Err((*law).to_owned()),
        None => Ok(()),
    }
}

/// What must hold of every step.
fn accounted(graph: &Graph, step: StepIndex, result: &RunResult) -> Result<(), String> {
    let name = graph.name(step);
    let state = &result.steps[name];
    let runs = usize::try_from(state.runs).unwrap();
    let entries = result
        .history
        .iter()
        .filter(|told| told.event == EventType::StepEnter && told.node == *name)
        .count();
    let skips: Vec<SkipReason> = result
        .skipped
        .iter()
        .filter(|skip| skip.step == *name)
        .map(|skip| skip.reason)
        .collect();
    let deaths = skips
        .iter()
        .filter(|reason| **reason == SkipReason::NotRouted)
        .count();
    let reached = graph.reachable(graph.entry())[step.index()];
    let passed = runs > 0 || !skips.is_empty();
    let good = result.status == ExecutionStatus::Completed;
    obeyed(&[
        (runs == entries, "runs are entries"),
        (
            graph.on_cycle(step) || runs <= 1,
            "a step off every cycle runs at most once",
        ),
        (
            state.status != StepStatus::Running || result.error_kind == Some(ErrorKind::Timeout),
            "nothing is left running",
        ),
        (
            deaths == 0 || (deaths == skips.len() && deaths == 1 && runs == 0),
            "death is final and told once",
        ),
        (
            passed || !reached || !good,
            "every step of a good run is accounted for",
        ),
        (
            reached || !passed || Some(step) == graph.final_step(),
            "nothing is reached without arcs",
        ),
    ])
}

/// No loop has more open commands than it may.
fn widths(playbook: &Playbook, result: &RunResult) -> Result<(), String> {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for told in &result.history {
        let width = match &playbook
            .step(&told.node)
            .and_then(|step| step.looping.as_ref())
        {
            None => 1,
            Some(looping) => match (
                looping.spec.mode,
                looping
                    .spec
                    .max_in_flight
                    .as_ref()
                    .map(|width| &width.value),
            ) {
                (LoopMode::Parallel | LoopMode::Cursor, Some(Setting::Fixed(width))) => {
                    usize::try_from(*width).unwrap()
                }
                (LoopMode::Parallel, Some(Setting::Template(_)) | None) => 32,
                (LoopMode::Sequential, _) | (LoopMode::Cursor, Some(_) | None) => 1,
            },
        };
        let open = open.entry(&told.node).or_default();
        *open += usize::from(told.event == EventType::CommandIssued);
        let closing = [
            EventType::CommandCompleted,
            EventType::CommandFailed,
            EventType::CommandCancelled,
        ];
        *open -= usize::from(closing.contains(&told.event));
        if *open > width {
            return Err(format!("{} has {open} open commands", told.node));
        }
    }
    Ok(())
}

#[test]
fn without_races_the_order_of_work_does_not_matter() {
    for seed in 0..SEEDS {
        let draft = generate(seed, &GenConfig::confluent());
        let mut runs = (0..4).map(|order| {
            let schedule = if order == 0 {
                Schedule::InOrder
            } else {
                Schedule::Seeded(order)
            };
            let result = run_draft(&draft, schedule);
            let skipped: BTreeSet<_> = result.skipped.into_iter().collect();
            (result.status, result.steps, skipped, result.ctx)
        });
        let first = runs.next().unwrap();
        assert!(
            runs.all(|other| other == first),
            "seed {seed}\n{}",
            draft.text()
        );
    }
}

/// Constructs that are known by their text.
const WRITTEN: [&str; 43] = [
    "final_step",
    "entry_step",
    "admit",
    "parallel",
    "inclusive",
    "best_effort",
    "on_no_match",
    "do: retry",
    "do: jump",
    "do: break",
    "do: fail",
    "do: continue",
    "on_unmatched",
    "max_in_flight",
    "step: end",
    "_prev",
    "iter.i",
    "step.p",
    "ctx.m.",
    "previous",
    "message",
    "kind: sleep",
    "until",
    "kind: wait",
    "mode: all",
    "lookback",
    "kind: approval",
    "quorum",
    "approvers",
    "on_timeout",
    "kind: playbook",
    "return_step",
    "result_step",
    "mode: cursor",
    "process: frame",
    "cache",
    "ttl",
    "select",
    "accumulate",
    "manifest_as",
    "concurrency",
    "priority",
    "timeout",
];

/// What runs come to.
const COME_TO: [&str; 27] = [
    "COMPLETED",
    "FAILED",
    "timeout",
    "transform",
    "routing",
    "template",
    "schema",
    "limit",
    "unknown",
    "skip guard",
    "skip admission",
    "skip not_routed",
    "step PENDING",
    "step COMPLETED",
    "step FAILED",
    "step CANCELLED",
    "step SKIPPED",
    "second run",
    "caught",
    "child",
    "timer.started",
    "timer.fired",
    "signal.received",
    "command.cancelled",
    "ran out of time",
    "kept signal",
    "cached",
];

/// A generator that stops writing a construct would make every comparison with it pass.
#[test]
fn every_construct_occurs() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for seed in 0..SEEDS {
        let draft = generate(seed, &GenConfig::everything());
        let text = draft.text();
        seen.extend(
            WRITTEN
                .iter()
                .filter(|word| text.contains(**word))
                .map(|word| (*word).to_owned()),
        );
        let result = run_draft(&draft, Schedule::InOrder);
        seen.insert(result.status.as_str().to_owned());
        seen.extend(result.error_kind.map(|kind| kind.as_str().to_owned()));
        let playbook = draft.playbook().unwrap();
        if timed_out(&playbook, &result) {
            seen.insert("ran out of time".to_owned());
        }
        for (before, told) in result.history.iter().zip(result.history.iter().skip(1)) {
            seen.insert(told.event.as_str().to_owned());
            if told.event == EventType::SignalReceived && told.node == *playbook.path() {
                seen.insert("kept signal".to_owned());
            }
            if told.event == EventType::CallDone && before.event == EventType::StepEnter {
                seen.insert("cached".to_owned());
            }
        }
        seen.extend(
            result
                .skipped
                .iter()
                .map(|skip| format!("skip {}", skip.reason.as_str())),
        );
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
    let missing: Vec<_> = WRITTEN
        .iter()
        .chain(&COME_TO)
        .filter(|word| !seen.contains(**word))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_switch_that_is_off_is_obeyed() {
    let plain = GenConfig {
        max_steps: 4,
        loops: false,
        parallel_loops: false,
        guards: false,
        ..GenConfig::confluent().without_world()
    };
    for seed in 0..SEEDS {
        let playbook = generate(seed, &plain).playbook().unwrap();
        assert!(playbook.workflow.len() <= 5);
        for step in &playbook.workflow {
            assert!(
                step.looping.is_none() && step.when.is_none() && step.set.is_empty(),
                "seed {seed}"
            );
            let parks = |kind: ToolKind| kind.is_server_side();
            let tasks = step.tool.tasks();
            assert!(
                !tasks.iter().any(|task| parks(task.kind.value)),
                "seed {seed}"
            );
            assert!(
                step.concurrency.is_none()
                    && step.spec.cache.is_none()
                    && step.spec.timeout.is_none(),
                "seed {seed}"
            );
        }
        assert!(Graph::new(&playbook).cycles().is_empty(), "seed {seed}");
    }
}

#[test]
fn a_failing_playbook_is_made_small() {
    // Stands for a disagreement: a guard skips a step after another one has failed and was caught.
    let disagrees = |playbook: &Playbook| {
        let result = run(playbook, Schedule::InOrder);
        let guarded = result
            .skipped
            .iter()
            .any(|skip| skip.reason == SkipReason::Guard);
        let caught = result.steps.values().any(|step| step.error_kind.is_some());
        guarded && caught && result.status == ExecutionStatus::Completed
    };
    let config = GenConfig::default();
    let found = (0..500)
        .find_map(|seed| shrink_seed(seed, &config, &mut |playbook, _| disagrees(playbook)));
    let small = found.unwrap();
    let playbook = small.playbook().unwrap();
    assert!(disagrees(&playbook));
    assert!(playbook.workflow.len() <= 3, "{}", small.text());
    assert!(small.text().lines().count() < 40, "{}", small.text());
    assert_eq!(shrink_seed(0, &config, &mut |_, _| false), None);
}
