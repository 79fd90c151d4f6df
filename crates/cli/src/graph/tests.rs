//! Drawings of graphs that nobody would write.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_playbook::graph::{StepIndex, Target};
use noetl_playbook::model::RouterMode;
use proptest::prelude::*;

use super::flow::{FlowArc, FlowStep};
use super::{Flow, Look, dot, mermaid, text};
use crate::io::Paint;
use crate::render::words;

/// A flow of as many steps as there are lists, each with arcs to the steps in its list; a number past
/// the last step is `end`, and odd arcs have a condition.
fn flow(arcs: &[Vec<usize>], inclusive: bool) -> Flow {
    let count = arcs.len();
    let steps = arcs.iter().enumerate().map(|(index, targets)| FlowStep {
        name: Arc::from(format!("s{index}").as_str()),
        tools: vec!["noop"],
        looping: None,
        guard: None,
        admission: false,
        mode: if inclusive {
            RouterMode::Inclusive
        } else {
            RouterMode::Exclusive
        },
        fails_unmatched: false,
        arcs: targets
            .iter()
            .enumerate()
            .map(|(at, target)| arc(count, at, *target))
            .collect(),
    });
    Flow {
        name: Arc::from("flow"),
        steps: steps.collect(),
        entry: StepIndex(0),
        final_step: None,
        cycles: 0,
    }
}

fn arc(count: usize, at: usize, target: usize) -> FlowArc {
    let target = match u32::try_from(target) {
        Ok(step) if target < count => Target::Step(StepIndex(step)),
        Ok(_) | Err(_) => Target::End,
    };
    FlowArc {
        target,
        when: (at % 2 == 1).then(|| "workload.n > 3 and workload.m < 4".to_owned()),
    }
}

fn draw(flow: &Flow, width: usize) -> String {
    text(
        flow,
        Look {
            paint: Paint::PLAIN,
            width,
            ascii: false,
        },
    )
}

/// The steps that a drawing has a bullet for, in order of appearance.
fn drawn(drawing: &str) -> Vec<&str> {
    let bullets = drawing
        .lines()
        .filter_map(|line| line.split_once(['●', '○']));
    bullets
        .filter_map(|(_, rest)| rest.split_whitespace().next())
        .collect()
}

fn graphs() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..16).prop_flat_map(|count| {
        prop::collection::vec(prop::collection::vec(0..count + 1, 0..5), count)
    })
}

proptest! {
    #[test]
    fn every_step_is_drawn_once(arcs in graphs(), inclusive: bool) {
        let flow = flow(&arcs, inclusive);
        let drawing = draw(&flow, 100);
        let steps = drawn(&drawing);
        let distinct: BTreeSet<&str> = steps.iter().copied().collect();
        prop_assert_eq!(steps.len(), arcs.len(), "{}", drawing);
        prop_assert_eq!(distinct.len(), arcs.len(), "{}", drawing);
    }

    #[test]
    fn no_line_leaves_the_page(arcs in graphs(), inclusive: bool, width in 60usize..120) {
        let drawing = draw(&flow(&arcs, inclusive), width);
        for line in drawing.lines() {
            prop_assert!(words::columns(line) <= width, "{}", drawing);
        }
    }

    #[test]
    fn charts_have_a_line_for_every_arc(arcs in graphs(), inclusive: bool) {
        let flow = flow(&arcs, inclusive);
        let total: usize = arcs.iter().map(Vec::len).sum();
        let mermaid = mermaid(&flow);
        let arrows = mermaid.lines().filter(|line| line.contains("--> ") || line.contains("-->|") || line.contains("-.->"));
        prop_assert_eq!(arrows.count(), total, "{}", mermaid);
        prop_assert_eq!(dot(&flow).matches(" -> ").count(), total);
    }
}

#[test]
fn a_very_long_chain_is_no_danger() {
    let count = 20_000;
    let arcs: Vec<Vec<usize>> = (1..=count).map(|next| vec![next]).collect();
    assert_eq!(drawn(&draw(&flow(&arcs, false), 100)).len(), count);
}

#[test]
fn neither_are_very_many_decisions_inside_each_other() {
    // Step 2n leads to 2n + 2 and to the leaf 2n + 1.
    let count = 5_000;
    let arcs: Vec<Vec<usize>> = (0..count)
        .map(|step| {
            if step % 2 == 0 {
                vec![step + 2, step + 1]
            } else {
                vec![]
            }
        })
        .collect();
    let drawing = draw(&flow(&arcs, false), 100);
    assert_eq!(drawn(&drawing).len(), count);
    let widest = drawing.lines().map(words::columns).max();
    assert!(widest.is_some_and(|widest| widest <= 100), "{widest:?}");
}

#[test]
fn nor_is_a_step_that_leads_everywhere() {
    let count = 3_000;
    let mut arcs = vec![(1..count).collect::<Vec<_>>()];
    arcs.extend((1..count).map(|_| vec![count - 1]));
    assert_eq!(drawn(&draw(&flow(&arcs, true), 100)).len(), count);
}
