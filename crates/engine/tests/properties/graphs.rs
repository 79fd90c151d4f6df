//! Joins, skips and cycles on thousands of small graphs.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::event::SkipReason;
use noetl_engine::{EventKind, StepStage};
use noetl_playbook::graph::{Graph, StepIndex};
use noetl_testkit::sim::{Chaos, Odds, Sim};
use noetl_types::{ExecutionStatus, StepName};

use crate::generate::{draw, graph, naming_tool};

/// Graphs of the usual run of the tests.
const GRAPHS: u64 = 7_000;

/// Runs a graph to its end, reports coming in any order.
fn run(seed: u64, acyclic: bool) -> Sim {
    let mut sim = Sim::of_playbook(graph(seed, acyclic))
        .with_tools(naming_tool(seed))
        .lightly();
    sim.start().unwrap();
    let mut world = Chaos::new(draw(seed, "world").next(), Odds::CALM);
    world.drive_watched(&mut sim, &mut nothing_is_forgotten);
    sim
}

/// After every decision each step that the entry reaches has run, waits, is skipped, or can still be
/// reached from a live one; and nothing that was skipped can.
fn nothing_is_forgotten(sim: &Sim) {
    let (state, graph) = (sim.state(), sim.plan().graph());
    if state.is_ended() || state.is_failing() {
        return;
    }
    let live = graph.steps().filter(|step| {
        matches!(
            state.step_stage(*step),
            StepStage::Waiting | StepStage::Running
        )
    });
    let alive = graph.reachable(live);
    let from_entry = graph.reachable(graph.entry());
    for step in graph.steps() {
        let is_alive = alive[step.index()];
        match state.step_stage(step) {
            StepStage::Idle => assert_eq!(from_entry[step.index()], is_alive, "{}", sim.table()),
            StepStage::Dead => assert!(!is_alive, "{}", sim.table()),
            StepStage::Waiting | StepStage::Running | StepStage::Passed => {}
        }
    }
}

/// What happened to the steps, in order.
#[derive(Default)]
struct Story {
    /// Where each run of each step began and ended in the log.
    entered: BTreeMap<StepName, Vec<usize>>,
    exited: BTreeMap<StepName, Vec<(usize, Vec<StepName>)>>,
    skipped: BTreeMap<StepName, Vec<usize>>,
    ends: usize,
}

fn story(sim: &Sim) -> Story {
    let mut story = Story::default();
    for (at, event) in sim.log().iter().enumerate() {
        match &event.kind {
            EventKind::StepEntered(entered) => {
                story
                    .entered
                    .entry(entered.step.clone())
                    .or_default()
                    .push(at);
            }
            EventKind::StepExited(exited) => {
                let exit = (at, exited.next.clone());
                story
                    .exited
                    .entry(exited.step.clone())
                    .or_default()
                    .push(exit);
            }
            EventKind::StepSkipped(skipped) => {
                assert_eq!(skipped.reason, SkipReason::NotRouted);
                story
                    .skipped
                    .entry(skipped.step.clone())
                    .or_default()
                    .push(at);
            }
            EventKind::PlaybookCompleted { .. }
            | EventKind::PlaybookFailed(_)
            | EventKind::PlaybookCancelled(_) => story.ends += 1,
            _ => {}
        }
    }
    story
}

#[test]
fn on_an_acyclic_graph_a_step_runs_once_and_after_all_that_leads_to_it() {
    for seed in 0..GRAPHS {
        let sim = run(seed, true);
        let story = story(&sim);
        let graph = sim.plan().graph();
        assert_eq!(
            (sim.status(), story.ends),
            (ExecutionStatus::Completed, 1),
            "{}",
            sim.table()
        );
        // A step runs exactly when a taken arc leads to it, once, and after all of those.
        let mut led_to: BTreeMap<StepName, usize> = BTreeMap::new();
        for (at, next) in story.exited.values().flatten() {
            for target in next {
                let last = led_to.entry(target.clone()).or_default();
                *last = (*last).max(*at);
            }
        }
        for step in graph.steps() {
            let name: StepName = graph.name(step).parse().unwrap();
            let entered = story.entered.get(&name).cloned().unwrap_or_default();
            let is_entry = graph.entry() == Some(step);
            let is_led_to = is_entry || led_to.contains_key(&name);
            assert_eq!(
                entered.len(),
                usize::from(is_led_to),
                "{name}\n{}",
                sim.table()
            );
            if let (Some(entered), Some(last)) = (entered.first(), led_to.get(&name)) {
                assert!(entered > last, "{name} did not wait\n{}", sim.table());
            }
            let is_reachable = graph.reachable(graph.entry())[step.index()];
            let skips = story.skipped.get(&name).map_or(0, Vec::len);
            assert_eq!(
                skips,
                usize::from(is_reachable && !is_led_to),
                "{name}\n{}",
                sim.table()
            );
        }
    }
}

#[test]
fn on_any_graph_a_run_ends() {
    let mut ends = BTreeSet::new();
    for seed in 0..2 * GRAPHS {
        let sim = run(seed, false);
        let story = story(&sim);
        let graph = sim.plan().graph();
        assert_eq!(story.ends, 1, "{}", sim.table());
        ends.insert(sim.status());
        for step in graph.steps() {
            let name: StepName = graph.name(step).parse().unwrap();
            let runs = story.entered.get(&name).map_or(0, Vec::len);
            if !graph.on_cycle(step) {
                assert!(runs <= 1, "{name} is on no cycle\n{}", sim.table());
            }
            let skips = story.skipped.get(&name).map_or(0, Vec::len);
            assert!(
                skips == 0 || (runs == 0 && skips == 1),
                "{name}\n{}",
                sim.table()
            );
        }
    }
    // Some of them go round too often, some find their way out.
    assert_eq!(
        ends,
        BTreeSet::from([ExecutionStatus::Completed, ExecutionStatus::Failed])
    );
}

/// Far more of the same; for a quiet hour.
#[test]
#[ignore = "takes minutes"]
fn heavy_on_very_many_graphs_a_run_ends() {
    for seed in 0..300_000 {
        let sim = run(seed, seed % 2 == 0);
        assert_eq!(story(&sim).ends, 1, "{}", sim.table());
    }
}

/// Steps that wait for each other on a cycle: the one that has waited longest goes on.
#[test]
fn joins_that_block_each_other() {
    let sim = Sim::of(
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
    insta::assert_snapshot!(sim.table());
    let graph: &Graph = sim.plan().graph();
    assert!(graph.on_cycle_with(StepIndex(1), StepIndex(2)));
}
