//! Joins, skips and cycles on thousands of small graphs.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::event::SkipReason;
use noetl_engine::{EventKind, StepStage};
use noetl_playbook::graph::{StepGraph, StepIndex};
use noetl_testkit::sim::{ChaosScheduler, FaultRates, Simulation};
use noetl_types::{ExecutionStatus, StepName};

use crate::properties::generate::{random_graph, seeded_rng, step_naming_tool};

/// Number of graphs per test in the default suite.
const GRAPH_COUNT: u64 = 7_000;

/// Runs a graph to its end with reports in random order.
fn run_graph(seed: u64, acyclic: bool) -> Simulation {
    let mut sim = Simulation::from_playbook(random_graph(seed, acyclic))
        .with_tools(step_naming_tool(seed))
        .with_light_checks();
    sim.start().unwrap();
    let mut scheduler =
        ChaosScheduler::new(seeded_rng(seed, "world").next_u64(), FaultRates::NO_FAULTS);
    scheduler.run_watched(&mut sim, &mut check_step_liveness);
    sim
}

/// Checks after every decision that each step reachable from the entry has run, waits, is skipped,
/// or is still reachable from a live step, and that no skipped step is.
fn check_step_liveness(sim: &Simulation) {
    let (state, graph) = (sim.state(), sim.plan().graph());
    if state.is_ended() || state.is_failing() {
        return;
    }
    let live = graph
        .steps()
        .filter(|step| matches!(state.step_stage(*step), StepStage::Waiting | StepStage::Running));
    let alive = graph.reachable_from(live);
    let from_entry = graph.reachable_from(graph.entry());
    for step in graph.steps() {
        let is_alive = alive[step.index()];
        match state.step_stage(step) {
            StepStage::Idle => {
                assert_eq!(from_entry[step.index()], is_alive, "{}", sim.format_log());
            }
            StepStage::Dead => assert!(!is_alive, "{}", sim.format_log()),
            StepStage::Waiting | StepStage::Running | StepStage::Passed => {}
        }
    }
}

/// Log positions of step events.
#[derive(Default)]
struct StepTimeline {
    /// Positions at which each pass of each step was entered.
    entered: BTreeMap<StepName, Vec<usize>>,
    exited: BTreeMap<StepName, Vec<(usize, Vec<StepName>)>>,
    skipped: BTreeMap<StepName, Vec<usize>>,
    end_count: usize,
}

fn collect_timeline(sim: &Simulation) -> StepTimeline {
    let mut timeline = StepTimeline::default();
    for (position, event) in sim.log().iter().enumerate() {
        match &event.kind {
            EventKind::StepEntered(entered) => {
                timeline.entered.entry(entered.step.clone()).or_default().push(position);
            }
            EventKind::StepExited(exited) => {
                let exit = (position, exited.next.clone());
                timeline.exited.entry(exited.step.clone()).or_default().push(exit);
            }
            EventKind::StepSkipped(skipped) => {
                assert_eq!(skipped.reason, SkipReason::NotRouted);
                timeline.skipped.entry(skipped.step.clone()).or_default().push(position);
            }
            EventKind::PlaybookCompleted { .. }
            | EventKind::PlaybookFailed(_)
            | EventKind::PlaybookCancelled(_) => timeline.end_count += 1,
            _ => {}
        }
    }
    timeline
}

#[test]
fn acyclic_steps_run_once_after_all_taken_arcs() {
    for seed in 0..GRAPH_COUNT {
        let sim = run_graph(seed, true);
        let timeline = collect_timeline(&sim);
        let graph = sim.plan().graph();
        assert_eq!(
            (sim.status(), timeline.end_count),
            (ExecutionStatus::Completed, 1),
            "{}",
            sim.format_log()
        );
        // A step runs exactly once if a taken arc leads to it, after all such arcs.
        let mut led_to: BTreeMap<StepName, usize> = BTreeMap::new();
        for (at, next) in timeline.exited.values().flatten() {
            for target in next {
                let last = led_to.entry(target.clone()).or_default();
                *last = (*last).max(*at);
            }
        }
        for step in graph.steps() {
            let name: StepName = graph.name(step).parse().unwrap();
            let entered = timeline.entered.get(&name).cloned().unwrap_or_default();
            let is_entry = graph.entry() == Some(step);
            let is_led_to = is_entry || led_to.contains_key(&name);
            assert_eq!(entered.len(), usize::from(is_led_to), "{name}\n{}", sim.format_log());
            if let (Some(entered), Some(last)) = (entered.first(), led_to.get(&name)) {
                assert!(entered > last, "{name} did not wait\n{}", sim.format_log());
            }
            let is_reachable = graph.reachable_from(graph.entry())[step.index()];
            let skips = timeline.skipped.get(&name).map_or(0, Vec::len);
            assert_eq!(
                skips,
                usize::from(is_reachable && !is_led_to),
                "{name}\n{}",
                sim.format_log()
            );
        }
    }
}

#[test]
fn execution_of_any_graph_ends() {
    let mut ends = BTreeSet::new();
    for seed in 0..2 * GRAPH_COUNT {
        let sim = run_graph(seed, false);
        let timeline = collect_timeline(&sim);
        let graph = sim.plan().graph();
        assert_eq!(timeline.end_count, 1, "{}", sim.format_log());
        ends.insert(sim.status());
        for step in graph.steps() {
            let name: StepName = graph.name(step).parse().unwrap();
            let runs = timeline.entered.get(&name).map_or(0, Vec::len);
            if !graph.is_on_cycle(step) {
                assert!(runs <= 1, "{name} is on no cycle\n{}", sim.format_log());
            }
            let skips = timeline.skipped.get(&name).map_or(0, Vec::len);
            assert!(skips == 0 || (runs == 0 && skips == 1), "{name}\n{}", sim.format_log());
        }
    }
    // Some cycles exceed the limit, others end.
    assert_eq!(ends, BTreeSet::from([ExecutionStatus::Completed, ExecutionStatus::Failed]));
}

/// Runs the same checks on far more graphs.
#[test]
#[ignore = "takes minutes"]
fn heavy_execution_of_any_graph_ends() {
    for seed in 0..300_000 {
        let sim = run_graph(seed, seed % 2 == 0);
        assert_eq!(collect_timeline(&sim).end_count, 1, "{}", sim.format_log());
    }
}

/// If steps on a cycle wait for each other, the one that has waited longest proceeds.
#[test]
fn mutually_blocked_joins_proceed() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: b }, { step: a }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b, when: "{{ steps.b.run is none }}" }, { step: out }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: a, when: "{{ steps.a.run is none }}" }, { step: out }] } }
  - { step: out, tool: { kind: noop } }
"#,
    )
    .run();
    insta::assert_snapshot!(sim.format_log());
    let graph: &StepGraph = sim.plan().graph();
    assert!(graph.share_cycle(StepIndex(1), StepIndex(2)));
}
