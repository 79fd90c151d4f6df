//! Drawings of generated and very large graphs.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_playbook::graph::{EdgeTarget, StepIndex};
use noetl_playbook::model::RouterMode;
use proptest::prelude::*;

use super::flow::{FlowArc, FlowStep};
use super::{DrawOptions, FlowGraph, draw_dot, draw_mermaid, draw_text};
use crate::io::ColorPaint;
use crate::render::text_layout;

/// Builds a flow with one step per list, and arcs to the steps in that list. A number beyond the
/// last step is `end`. Arcs with an odd index have a condition.
fn build_flow(arcs: &[Vec<usize>], inclusive: bool) -> FlowGraph {
    let count = arcs.len();
    let steps = arcs.iter().enumerate().map(|(index, targets)| FlowStep {
        name: Arc::from(format!("s{index}").as_str()),
        tools: vec!["noop"],
        looping: None,
        guard: None,
        admission: false,
        mode: if inclusive { RouterMode::Inclusive } else { RouterMode::Exclusive },
        fails_unmatched: false,
        arcs: targets
            .iter()
            .enumerate()
            .map(|(index, target)| build_arc(count, index, *target))
            .collect(),
    });
    FlowGraph {
        name: Arc::from("flow"),
        steps: steps.collect(),
        entry: StepIndex(0),
        final_step: None,
        cycles: 0,
    }
}

fn build_arc(count: usize, index: usize, target: usize) -> FlowArc {
    let target = match u32::try_from(target) {
        Ok(step) if target < count => EdgeTarget::Step(StepIndex(step)),
        Ok(_) | Err(_) => EdgeTarget::End,
    };
    FlowArc {
        target,
        when: (index % 2 == 1).then(|| "workload.n > 3 and workload.m < 4".to_owned()),
    }
}

fn draw_text_at_width(flow: &FlowGraph, width: usize) -> String {
    draw_text(flow, DrawOptions { paint: ColorPaint::PLAIN, width, ascii: false })
}

/// Returns the steps with a bullet in a drawing, in order of appearance.
fn drawn_steps(drawing: &str) -> Vec<&str> {
    let bullets = drawing.lines().filter_map(|line| line.split_once(['●', '○']));
    bullets.filter_map(|(_, rest)| rest.split_whitespace().next()).collect()
}

fn any_graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..16).prop_flat_map(|count| {
        prop::collection::vec(prop::collection::vec(0..count + 1, 0..5), count)
    })
}

proptest! {
    #[test]
    fn every_step_is_drawn_once(arcs in any_graph(), inclusive: bool) {
        let flow = build_flow(&arcs, inclusive);
        let drawing = draw_text_at_width(&flow, 100);
        let steps = drawn_steps(&drawing);
        let distinct: BTreeSet<&str> = steps.iter().copied().collect();
        prop_assert_eq!(steps.len(), arcs.len(), "{}", drawing);
        prop_assert_eq!(distinct.len(), arcs.len(), "{}", drawing);
    }

    #[test]
    fn no_line_exceeds_width(arcs in any_graph(), inclusive: bool, width in 60usize..120) {
        let drawing = draw_text_at_width(&build_flow(&arcs, inclusive), width);
        for line in drawing.lines() {
            prop_assert!(text_layout::display_width(line) <= width, "{}", drawing);
        }
    }

    #[test]
    fn charts_have_a_line_for_every_arc(arcs in any_graph(), inclusive: bool) {
        let flow = build_flow(&arcs, inclusive);
        let total: usize = arcs.iter().map(Vec::len).sum();
        let mermaid = draw_mermaid(&flow);
        let arrows = mermaid.lines().filter(|line| line.contains("--> ") || line.contains("-->|") || line.contains("-.->"));
        prop_assert_eq!(arrows.count(), total, "{}", mermaid);
        prop_assert_eq!(draw_dot(&flow).matches(" -> ").count(), total);
    }
}

#[test]
fn draws_very_long_chain() {
    let count = 20_000;
    let arcs: Vec<Vec<usize>> = (1..=count).map(|next| vec![next]).collect();
    assert_eq!(drawn_steps(&draw_text_at_width(&build_flow(&arcs, false), 100)).len(), count);
}

#[test]
fn draws_deeply_nested_decisions() {
    // Step 2n leads to 2n + 2 and to the leaf 2n + 1.
    let count = 5_000;
    let arcs: Vec<Vec<usize>> = (0..count)
        .map(|step| if step % 2 == 0 { vec![step + 2, step + 1] } else { vec![] })
        .collect();
    let drawing = draw_text_at_width(&build_flow(&arcs, false), 100);
    assert_eq!(drawn_steps(&drawing).len(), count);
    let widest = drawing.lines().map(text_layout::display_width).max();
    assert!(widest.is_some_and(|widest| widest <= 100), "{widest:?}");
}

#[test]
fn draws_step_with_many_arcs() {
    let count = 3_000;
    let mut arcs = vec![(1..count).collect::<Vec<_>>()];
    arcs.extend((1..count).map(|_| vec![count - 1]));
    assert_eq!(drawn_steps(&draw_text_at_width(&build_flow(&arcs, true), 100)).len(), count);
}
