//! Draws a playbook as a Mermaid flowchart or as a Graphviz graph.

use std::fmt::Write as _;

use noetl_playbook::graph::{EdgeTarget, StepIndex};

use super::flow::{FlowGraph, FlowStep};
use super::plan::DrawingPlan;
use crate::render::text_layout;

/// Maximum columns and lines of a label.
const LABEL_WIDTH: usize = 40;
const MAX_LABEL_LINES: usize = 3;

/// Arrow between two nodes.
struct ChartEdge {
    from: String,
    to: String,
    condition: Option<String>,
    /// True if it leads back to a step on the current path.
    is_back: bool,
}

/// Arrows of all arcs, and of steps that fail if no arc matches.
fn chart_edges(flow: &FlowGraph) -> Vec<ChartEdge> {
    let plan = DrawingPlan::new(flow);
    let mut edges = Vec::new();
    for index in flow.step_indices() {
        let (step, from) = (flow.flow_step(index), node_id(index));
        for group in plan.groups(index) {
            let to = match group.target {
                EdgeTarget::Step(step) => node_id(step),
                EdgeTarget::End => "finish".to_owned(),
            };
            edges.extend(group.arcs.iter().map(|arc| ChartEdge {
                from: from.clone(),
                to: to.clone(),
                condition: step.arc_condition(*arc),
                is_back: group.is_back,
            }));
        }
        if step.fails_unmatched {
            let condition = Some("no arc matches".to_owned());
            edges.push(ChartEdge { from, to: "fail".to_owned(), condition, is_back: false });
        }
    }
    edges
}

/// Node id. Names of steps can be keywords of the format, such as `end` or `node`, so ids are
/// numbers.
fn node_id(step: StepIndex) -> String {
    format!("s{}", step.0)
}

/// Name, tools, loop and guard of a step.
fn node_texts(step: &FlowStep) -> Vec<String> {
    let mut texts = vec![step.name.to_string(), step.tools.join(" → ")];
    texts.extend(step.looping.as_ref().map(|looping| format!("⟳ {looping}")));
    texts.extend(step.guard.as_ref().map(|guard| format!("only when {guard}")));
    texts
}

/// Lines of a label.
fn label_lines(text: &str) -> Vec<String> {
    let text = text_layout::escape_control(text);
    text_layout::wrap_text(&text, LABEL_WIDTH, MAX_LABEL_LINES, "…")
}

/// Draws a playbook as a Mermaid flowchart.
pub(crate) fn draw_mermaid(flow: &FlowGraph) -> String {
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
    lines.extend(chart_edges(flow).into_iter().map(|edge| {
        let ChartEdge { from, to, condition, is_back } = edge;
        let arrow = if is_back { "-.->" } else { "-->" };
        let label = condition.map(|condition| format!("|\"{}\"|", mermaid_label(&condition)));
        format!("  {from} {arrow}{} {to}", label.unwrap_or_default())
    }));
    lines.join("\n") + "\n"
}

fn mermaid_node(flow: &FlowGraph, index: StepIndex) -> String {
    let step = flow.flow_step(index);
    let texts: Vec<String> = node_texts(step).iter().map(|text| mermaid_label(text)).collect();
    let text = format!("<b>{}</b><br/>{}", texts[0], texts[1..].join("<br/>"));
    let (open, close, class) = if flow.final_step == Some(index) {
        ("{{", "}}", ":::final")
    } else if step.looping.is_some() {
        ("[[", "]]", ":::loop")
    } else if flow.entry == index {
        ("([", "])", "")
    } else {
        ("[", "]", "")
    };
    format!("  {}{open}\"{text}\"{close}{class}", node_id(index))
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
    label_lines(text).into_iter().map(escape).collect::<Vec<_>>().join("<br/>")
}

/// Draws a playbook as a Graphviz graph.
pub(crate) fn draw_dot(flow: &FlowGraph) -> String {
    let mut lines = vec![
        format!("digraph {} {{", quote_label(&[flow.name.as_ref()])),
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
    lines.extend(chart_edges(flow).iter().map(dot_edge));
    lines.push("}\n".to_owned());
    lines.join("\n")
}

fn dot_node(flow: &FlowGraph, index: StepIndex) -> String {
    let step = flow.flow_step(index);
    let mut attributes = format!("label={}", quote_label(&node_texts(step)));
    if flow.final_step == Some(index) {
        attributes += ", peripheries=2, style=\"rounded,dashed\"";
    } else if step.looping.is_some() {
        attributes += ", penwidth=2";
    } else if flow.entry == index {
        attributes += ", style=\"rounded,bold\"";
    }
    format!("  {} [{attributes}];", node_id(index))
}

fn dot_edge(edge: &ChartEdge) -> String {
    let ChartEdge { from, to, condition, is_back } = edge;
    let label = condition.as_ref().map(|condition| format!("label={}", quote_label(&[condition])));
    // An arc that leads back must not move its target below its source.
    let back_style = is_back.then(|| "style=dashed, constraint=false".to_owned());
    let attributes: Vec<String> = label.into_iter().chain(back_style).collect();
    if attributes.is_empty() {
        return format!("  {from} -> {to};");
    }
    format!("  {from} -> {to} [{}];", attributes.join(", "))
}

/// Texts on separate lines as one quoted label.
fn quote_label(texts: &[impl AsRef<str>]) -> String {
    let lines = texts.iter().flat_map(|text| label_lines(text.as_ref()));
    let lines: Vec<String> =
        lines.map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("\"{}\"", lines.join("\\n"))
}
