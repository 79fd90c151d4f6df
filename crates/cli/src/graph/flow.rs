//! Data of a drawing, with conditions and loops as text.

use std::sync::Arc;

use noetl_playbook::graph::{EdgeTarget, StepGraph, StepIndex};
use noetl_playbook::model::{
    Condition, Loop, LoopMode, LoopSource, NoMatch, Playbook, RouterMode, Step, ValueOrTemplate,
};

/// Steps of a playbook and the arcs between them.
#[derive(Debug, Clone)]
pub(crate) struct FlowGraph {
    /// Name of the playbook.
    pub(super) name: Arc<str>,
    /// Steps in document order.
    pub(super) steps: Vec<FlowStep>,
    /// First step.
    pub(super) entry: StepIndex,
    /// Step that runs at the end of the run.
    pub(super) final_step: Option<StepIndex>,
    /// Number of cycles.
    pub(super) cycles: usize,
}

#[derive(Debug, Clone)]
pub(super) struct FlowStep {
    pub(super) name: Arc<str>,
    /// Kinds of its tasks, in order.
    pub(super) tools: Vec<&'static str>,
    /// Description of its loop.
    pub(super) looping: Option<String>,
    /// Condition for running the step.
    pub(super) guard: Option<String>,
    /// True if admission rules apply.
    pub(super) admission: bool,
    pub(super) mode: RouterMode,
    /// True if the run fails when no arc matches.
    pub(super) fails_unmatched: bool,
    pub(super) arcs: Vec<FlowArc>,
}

#[derive(Debug, Clone)]
pub(super) struct FlowArc {
    pub(super) target: EdgeTarget,
    /// Condition as an expression.
    pub(super) when: Option<String>,
}

impl FlowGraph {
    /// Builds the graph of a playbook. Returns `None` if no step can run.
    pub(crate) fn new(playbook: &Playbook) -> Option<Self> {
        let graph = StepGraph::new(playbook);
        let no_match_is_error = playbook.executor.spec.no_next_is_error;
        let steps = playbook
            .workflow
            .iter()
            .zip(graph.steps())
            .map(|(step, index)| FlowStep::new(step, index, &graph, no_match_is_error))
            .collect();
        Some(Self {
            name: Arc::clone(&playbook.metadata.name),
            steps,
            entry: graph.entry()?,
            final_step: graph.final_step(),
            cycles: graph.cycles().len(),
        })
    }

    pub(super) fn flow_step(&self, step: StepIndex) -> &FlowStep {
        &self.steps[step.index()]
    }

    /// Indexes of all steps, in document order.
    pub(super) fn step_indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..).map(StepIndex).take(self.steps.len())
    }

    /// True if an arc leads to the implicit `end`.
    pub(super) fn has_implicit_end(&self) -> bool {
        let mut arcs = self.steps.iter().flat_map(|step| &step.arcs);
        arcs.any(|arc| arc.target == EdgeTarget::End)
    }
}

impl FlowStep {
    fn new(step: &Step, index: StepIndex, graph: &StepGraph, no_match_is_error: bool) -> Self {
        let router = step.next.as_ref();
        let arcs: Vec<FlowArc> = router
            .into_iter()
            .flat_map(|router| &router.arcs)
            .zip(graph.edges(index))
            .filter_map(|(arc, edge)| {
                let when = arc.when.as_ref().map(|when| condition_text(&when.value));
                Some(FlowArc { target: edge.target?, when })
            })
            .collect();
        let must_match = router
            .is_some_and(|router| no_match_is_error || router.on_no_match() == NoMatch::Error);
        Self {
            name: Arc::clone(&step.name.value),
            tools: step.tool.tasks().iter().map(|task| task.kind.value.as_str()).collect(),
            looping: step.looping.as_ref().map(loop_description),
            guard: step
                .when
                .as_ref()
                .filter(|when| when.value != Condition::Fixed(true))
                .map(|when| condition_text(&when.value)),
            admission: !step.spec.policy.admit.is_empty(),
            mode: graph.mode(index),
            fails_unmatched: must_match && arcs.iter().all(|arc| arc.when.is_some()),
            arcs,
        }
    }

    /// Condition of an arc as text. `None` if it is always taken after success.
    pub(super) fn arc_condition(&self, index: usize) -> Option<String> {
        let exclusive = self.mode == RouterMode::Exclusive;
        let earlier = &self.arcs[..index];
        if exclusive && earlier.iter().any(|arc| arc.when.is_none()) {
            return Some("never: an earlier arc always matches".to_owned());
        }
        match &self.arcs[index].when {
            Some(when) if exclusive && index > 0 => Some(format!("else if {when}")),
            Some(when) => Some(format!("if {when}")),
            None if exclusive && index > 0 => Some("else".to_owned()),
            None => None,
        }
    }
}

fn condition_text(condition: &Condition) -> String {
    match condition {
        Condition::Fixed(value) => value.to_string(),
        Condition::Test(template) => expression_text(template.source()),
    }
}

/// Expression of a template that contains nothing else, on one line. Other text is unchanged.
fn expression_text(source: &str) -> String {
    let trimmed = source.trim();
    let inner = trimmed
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"))
        .filter(|inner| !inner.contains("{{"));
    let words: Vec<&str> = inner.unwrap_or(trimmed).split_whitespace().collect();
    words.join(" ")
}

fn loop_description(looping: &Loop) -> String {
    let items = match &looping.source {
        LoopSource::In(_) => loop_items(&looping.source),
        LoopSource::Cursor(cursor) => format!("rows claimed from {}", cursor.kind),
    };
    let width = looping.spec.max_in_flight.as_ref().map(|width| match &width.value {
        ValueOrTemplate::Fixed(width) => width.to_string(),
        ValueOrTemplate::Template(template) => expression_text(template.source()),
    });
    let order = match (looping.spec.mode, width) {
        (LoopMode::Sequential, _) => "one by one".to_owned(),
        (LoopMode::Parallel, None) => "in parallel".to_owned(),
        (LoopMode::Parallel, Some(width)) => format!("in parallel, {width} at once"),
        (LoopMode::Cursor, None) => "frame by frame".to_owned(),
        (LoopMode::Cursor, Some(width)) => format!("in frames, {width} at once"),
    };
    format!("for {} in {items}, {order}", looping.iterator.value)
}

/// Collection of a loop, as written in the playbook.
fn loop_items(source: &LoopSource) -> String {
    let value = serde_json::to_value(source).unwrap_or_default();
    match value.get("in") {
        Some(serde_json::Value::String(text)) => expression_text(text),
        Some(serde_json::Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            format!("[{}]", items.join(", "))
        }
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
