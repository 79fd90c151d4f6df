//! A playbook as a Mermaid flowchart.

use std::fmt::Write as _;

use noetl_playbook::graph::{StepIndex, Target};

use super::flow::Flow;
use super::plan::Plan;
use crate::render::words;

/// Labels are broken into lines of this many columns, and into no more lines than that.
const LABEL_WIDTH: usize = 40;
const LABEL_LINES: usize = 3;

/// Draws a playbook as a Mermaid flowchart.
pub(crate) fn mermaid(flow: &Flow) -> String {
    let plan = Plan::new(flow);
    let mut lines = vec!["flowchart TD".to_owned()];
    lines.extend(flow.indices().map(|step| node(flow, step)));
    let any_loop = flow.steps.iter().any(|step| step.looping.is_some());
    let any_fail = flow.steps.iter().any(|step| step.fails_unmatched);
    let optional = [
        (flow.has_end(), "  finish(((end)))"),
        (any_fail, "  fail{{fail}}:::fail"),
        (any_loop, "  classDef loop stroke-width:3px"),
        (
            flow.final_step.is_some(),
            "  classDef final stroke-width:3px,stroke-dasharray:6 3",
        ),
        (any_fail, "  classDef fail stroke:#c00,color:#c00"),
    ];
    lines.extend(
        optional
            .iter()
            .filter(|(used, _)| *used)
            .map(|(_, line)| (*line).to_owned()),
    );
    for from in flow.indices() {
        for group in plan.groups(from) {
            let to = match group.target {
                Target::Step(step) => id(step),
                Target::End => "finish".to_owned(),
            };
            let line = if group.back { "-.->" } else { "-->" };
            for at in &group.arcs {
                let label = flow
                    .step(from)
                    .taken(*at)
                    .map(|taken| format!("|\"{}\"|", label(&taken)));
                lines.push(format!(
                    "  {} {line}{} {to}",
                    id(from),
                    label.unwrap_or_default()
                ));
            }
        }
        if flow.step(from).fails_unmatched {
            lines.push(format!("  {} -->|\"no arc holds\"| fail", id(from)));
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn node(flow: &Flow, index: StepIndex) -> String {
    let step = flow.step(index);
    let mut text = format!(
        "<b>{}</b><br/>{}",
        label(&step.name),
        label(&step.tools.join(" → "))
    );
    let remarks = [
        step.looping.as_ref().map(|looping| format!("⟳ {looping}")),
        step.guard
            .as_ref()
            .map(|guard| format!("only when {guard}")),
    ];
    for remark in remarks.iter().flatten() {
        // Writing into a string can not fail.
        let _ = write!(text, "<br/>{}", label(remark));
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
    format!("  {}{open}\"{text}\"{close}{class}", id(index))
}

/// Names of steps can be words of Mermaid, such as `end`; numbers can not.
fn id(step: StepIndex) -> String {
    format!("s{}", step.0)
}

/// A text inside the quotes of a label, with what means something there written as an entity.
fn label(text: &str) -> String {
    let escape = |line: String| {
        let mut escaped = String::with_capacity(line.len());
        for letter in line.chars() {
            match letter {
                '"' | '#' | '%' | '<' | '>' | '&' | '`' | ';' | '\\' => {
                    let _ = write!(escaped, "#{};", u32::from(letter));
                }
                letter => escaped.push(letter),
            }
        }
        escaped
    };
    let lines = words::wrap(&words::visible(text), LABEL_WIDTH, LABEL_LINES, "…");
    lines
        .into_iter()
        .map(escape)
        .collect::<Vec<_>>()
        .join("<br/>")
}
