//! Draws a playbook as a Graphviz graph.

use noetl_playbook::graph::{EdgeTarget, StepIndex};

use super::flow::FlowGraph;
use super::plan::DrawingPlan;
use crate::render::text_layout;

/// Maximum columns and lines of a label.
const LABEL_WIDTH: usize = 40;
const MAX_LABEL_LINES: usize = 3;

/// Draws a playbook as a Graphviz graph.
pub(crate) fn draw_dot(flow: &FlowGraph) -> String {
    let plan = DrawingPlan::new(flow);
    let mut lines = vec![
        format!("digraph {} {{", quote_label(&[&flow.name])),
        "  rankdir=TB;".to_owned(),
        "  node [shape=box, style=rounded, fontname=\"Helvetica\"];".to_owned(),
        "  edge [fontname=\"Helvetica\", fontsize=10];".to_owned(),
    ];
    lines.extend(flow.step_indices().map(|step| dot_node(flow, step)));
    if flow.has_implicit_end() {
        lines.push("  finish [label=\"end\", shape=doublecircle];".to_owned());
    }
    if flow.steps.iter().any(|step| step.fails_unmatched) {
        lines.push("  fail [label=\"fail\", shape=octagon, color=red, fontcolor=red];".to_owned());
    }
    for from in flow.step_indices() {
        for group in plan.groups(from) {
            let to = match group.target {
                EdgeTarget::Step(step) => dot_id(step),
                EdgeTarget::End => "finish".to_owned(),
            };
            for arc in &group.arcs {
                let condition = flow.flow_step(from).arc_condition(*arc);
                lines.push(dot_edge(&dot_id(from), &to, condition.as_deref(), group.is_back));
            }
        }
        if flow.flow_step(from).fails_unmatched {
            lines.push(dot_edge(&dot_id(from), "fail", Some("no arc matches"), false));
        }
    }
    lines.push("}\n".to_owned());
    lines.join("\n")
}

fn dot_node(flow: &FlowGraph, index: StepIndex) -> String {
    let step = flow.flow_step(index);
    let tools = step.tools.join(" → ");
    let looping = step.looping.as_ref().map(|looping| format!("⟳ {looping}"));
    let guard = step.guard.as_ref().map(|guard| format!("only when {guard}"));
    let mut texts = vec![&*step.name, &tools];
    texts.extend(looping.as_deref());
    texts.extend(guard.as_deref());
    let mut attributes = format!("label={}", quote_label(&texts));
    if flow.final_step == Some(index) {
        attributes += ", peripheries=2, style=\"rounded,dashed\"";
    } else if step.looping.is_some() {
        attributes += ", penwidth=2";
    } else if flow.entry == index {
        attributes += ", style=\"rounded,bold\"";
    }
    format!("  {} [{attributes}];", dot_id(index))
}

fn dot_edge(from: &str, to: &str, condition: Option<&str>, is_back: bool) -> String {
    let mut attributes = Vec::new();
    if let Some(condition) = condition {
        attributes.push(format!("label={}", quote_label(&[condition])));
    }
    if is_back {
        // An arc that leads back must not move its target below its source.
        attributes.push("style=dashed, constraint=false".to_owned());
    }
    if attributes.is_empty() {
        format!("  {from} -> {to};")
    } else {
        format!("  {from} -> {to} [{}];", attributes.join(", "))
    }
}

/// Node id. Names of steps can be keywords of the format, such as `node`, so ids are numbers.
fn dot_id(step: StepIndex) -> String {
    format!("s{}", step.0)
}

/// Texts on separate lines as one quoted label.
fn quote_label(texts: &[&str]) -> String {
    let lines: Vec<String> = texts
        .iter()
        .flat_map(|text| {
            text_layout::wrap_text(
                &text_layout::escape_control(text),
                LABEL_WIDTH,
                MAX_LABEL_LINES,
                "…",
            )
        })
        .map(|line| line.replace('\\', "\\\\").replace('"', "\\\""))
        .collect();
    format!("\"{}\"", lines.join("\\n"))
}
