//! Draws a playbook as a Mermaid flowchart.

use std::fmt::Write as _;

use noetl_playbook::graph::{EdgeTarget, StepIndex};

use super::flow::FlowGraph;
use super::plan::DrawingPlan;
use crate::render::text_layout;

/// Maximum columns and lines of a label.
const LABEL_WIDTH: usize = 40;
const MAX_LABEL_LINES: usize = 3;

/// Draws a playbook as a Mermaid flowchart.
pub(crate) fn draw_mermaid(flow: &FlowGraph) -> String {
    let plan = DrawingPlan::new(flow);
    let mut lines = vec!["flowchart TD".to_owned()];
    lines.extend(flow.step_indices().map(|step| mermaid_node(flow, step)));
    let has_loop = flow.steps.iter().any(|step| step.looping.is_some());
    let has_failure = flow.steps.iter().any(|step| step.fails_unmatched);
    let optional = [
        (flow.has_implicit_end(), "  finish(((end)))"),
        (has_failure, "  fail{{fail}}:::fail"),
        (has_loop, "  classDef loop stroke-width:3px"),
        (flow.final_step.is_some(), "  classDef final stroke-width:3px,stroke-dasharray:6 3"),
        (has_failure, "  classDef fail stroke:#c00,color:#c00"),
    ];
    lines.extend(
        optional.iter().filter(|(is_used, _)| *is_used).map(|(_, line)| (*line).to_owned()),
    );
    for from in flow.step_indices() {
        for group in plan.groups(from) {
            let to = match group.target {
                EdgeTarget::Step(step) => mermaid_id(step),
                EdgeTarget::End => "finish".to_owned(),
            };
            let arrow = if group.is_back { "-.->" } else { "-->" };
            for arc in &group.arcs {
                let label = flow
                    .flow_step(from)
                    .arc_condition(*arc)
                    .map(|condition| format!("|\"{}\"|", mermaid_label(&condition)));
                lines.push(format!(
                    "  {} {arrow}{} {to}",
                    mermaid_id(from),
                    label.unwrap_or_default()
                ));
            }
        }
        if flow.flow_step(from).fails_unmatched {
            lines.push(format!("  {} -->|\"no arc matches\"| fail", mermaid_id(from)));
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn mermaid_node(flow: &FlowGraph, index: StepIndex) -> String {
    let step = flow.flow_step(index);
    let mut text = format!(
        "<b>{}</b><br/>{}",
        mermaid_label(&step.name),
        mermaid_label(&step.tools.join(" → "))
    );
    let notes = [
        step.looping.as_ref().map(|looping| format!("⟳ {looping}")),
        step.guard.as_ref().map(|guard| format!("only when {guard}")),
    ];
    for note in notes.iter().flatten() {
        // Writing to a string cannot fail.
        let _ = write!(text, "<br/>{}", mermaid_label(note));
    }
    let (open, close, class) = if flow.final_step == Some(index) {
        ("{{", "}}", ":::final")
    } else if step.looping.is_some() {
        ("[[", "]]", ":::loop")
    } else if flow.entry == index {
        ("([", "])", "")
    } else {
        ("[", "]", "")
    };
    format!("  {}{open}\"{text}\"{close}{class}", mermaid_id(index))
}

/// Node id. Names of steps can be Mermaid keywords, such as `end`, so ids are numbers.
fn mermaid_id(step: StepIndex) -> String {
    format!("s{}", step.0)
}

/// Escapes a text for a quoted label, with special characters as entities.
fn mermaid_label(text: &str) -> String {
    let escape = |line: String| {
        let mut escaped = String::with_capacity(line.len());
        for c in line.chars() {
            match c {
                '"' | '#' | '%' | '<' | '>' | '&' | '`' | ';' | '\\' => {
                    let _ = write!(escaped, "#{};", u32::from(c));
                }
                c => escaped.push(c),
            }
        }
        escaped
    };
    let lines = text_layout::wrap_text(
        &text_layout::escape_control(text),
        LABEL_WIDTH,
        MAX_LABEL_LINES,
        "…",
    );
    lines.into_iter().map(escape).collect::<Vec<_>>().join("<br/>")
}
