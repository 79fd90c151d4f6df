//! A playbook as a graph for Graphviz.

use noetl_playbook::graph::{StepIndex, Target};

use super::flow::Flow;
use super::plan::Plan;
use crate::render::words;

/// Labels are broken into lines of this many columns, and into no more lines than that.
const LABEL_WIDTH: usize = 40;
const LABEL_LINES: usize = 3;

/// Draws a playbook for Graphviz.
pub(crate) fn dot(flow: &Flow) -> String {
    let plan = Plan::new(flow);
    let mut lines = vec![
        format!("digraph {} {{", quoted(&[&flow.name])),
        "  rankdir=TB;".to_owned(),
        "  node [shape=box, style=rounded, fontname=\"Helvetica\"];".to_owned(),
        "  edge [fontname=\"Helvetica\", fontsize=10];".to_owned(),
    ];
    lines.extend(flow.indices().map(|step| node(flow, step)));
    if flow.has_end() {
        lines.push("  finish [label=\"end\", shape=doublecircle];".to_owned());
    }
    if flow.steps.iter().any(|step| step.fails_unmatched) {
        lines.push("  fail [label=\"fail\", shape=octagon, color=red, fontcolor=red];".to_owned());
    }
    for from in flow.indices() {
        for group in plan.groups(from) {
            let to = match group.target {
                Target::Step(step) => id(step),
                Target::End => "finish".to_owned(),
            };
            for at in &group.arcs {
                let taken = flow.step(from).taken(*at);
                lines.push(edge(&id(from), &to, taken.as_deref(), group.back));
            }
        }
        if flow.step(from).fails_unmatched {
            lines.push(edge(&id(from), "fail", Some("no arc holds"), false));
        }
    }
    lines.push("}\n".to_owned());
    lines.join("\n")
}

fn node(flow: &Flow, index: StepIndex) -> String {
    let step = flow.step(index);
    let tools = step.tools.join(" → ");
    let looping = step.looping.as_ref().map(|looping| format!("⟳ {looping}"));
    let guard = step
        .guard
        .as_ref()
        .map(|guard| format!("only when {guard}"));
    let mut texts = vec![&*step.name, &tools];
    texts.extend(looping.as_deref());
    texts.extend(guard.as_deref());
    let mut attributes = format!("label={}", quoted(&texts));
    if flow.final_step == Some(index) {
        attributes += ", peripheries=2, style=\"rounded,dashed\"";
    } else if step.looping.is_some() {
        attributes += ", penwidth=2";
    } else if flow.entry == index {
        attributes += ", style=\"rounded,bold\"";
    }
    format!("  {} [{attributes}];", id(index))
}

fn edge(from: &str, to: &str, taken: Option<&str>, back: bool) -> String {
    let mut attributes = Vec::new();
    if let Some(taken) = taken {
        attributes.push(format!("label={}", quoted(&[taken])));
    }
    if back {
        // A way back must not pull its target below its source.
        attributes.push("style=dashed, constraint=false".to_owned());
    }
    if attributes.is_empty() {
        format!("  {from} -> {to};")
    } else {
        format!("  {from} -> {to} [{}];", attributes.join(", "))
    }
}

/// Names of steps can be words of the format, such as `node`; numbers can not.
fn id(step: StepIndex) -> String {
    format!("s{}", step.0)
}

/// Texts below each other as one quoted label.
fn quoted(texts: &[&str]) -> String {
    let lines: Vec<String> = texts
        .iter()
        .flat_map(|text| words::wrap(&words::visible(text), LABEL_WIDTH, LABEL_LINES, "…"))
        .map(|line| line.replace('\\', "\\\\").replace('"', "\\\""))
        .collect();
    format!("\"{}\"", lines.join("\\n"))
}
