//! What a drawing of a playbook shows, with every condition and loop already put into words.

use std::sync::Arc;

use noetl_playbook::graph::{Graph, StepIndex, Target};
use noetl_playbook::model::{
    Condition, Loop, LoopMode, LoopSource, NoMatch, Playbook, RouterMode, Setting, Step,
};

/// The steps of a playbook and the arcs between them.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    /// The name of the playbook.
    pub(super) name: Arc<str>,
    /// The steps in document order.
    pub(super) steps: Vec<FlowStep>,
    /// The step that runs first.
    pub(super) entry: StepIndex,
    /// The step that runs when the run is about to end.
    pub(super) final_step: Option<StepIndex>,
    /// How many groups of steps turn in a circle.
    pub(super) cycles: usize,
}

/// A step.
#[derive(Debug, Clone)]
pub(super) struct FlowStep {
    pub(super) name: Arc<str>,
    /// The kinds of its tasks, in order.
    pub(super) tools: Vec<&'static str>,
    /// What it loops over and how, in words.
    pub(super) looping: Option<String>,
    /// The condition without which it is skipped.
    pub(super) guard: Option<String>,
    /// Whether rules decide about its admission.
    pub(super) admission: bool,
    pub(super) mode: RouterMode,
    /// Whether the run fails when none of its arcs holds.
    pub(super) fails_unmatched: bool,
    pub(super) arcs: Vec<FlowArc>,
}

/// An arc.
#[derive(Debug, Clone)]
pub(super) struct FlowArc {
    pub(super) target: Target,
    /// Its condition as an expression.
    pub(super) when: Option<String>,
}

impl Flow {
    /// The drawing of a playbook; `None` where no step could run.
    pub(crate) fn new(playbook: &Playbook) -> Option<Self> {
        let graph = Graph::new(playbook);
        let strict = playbook.executor.spec.no_next_is_error;
        let steps = playbook
            .workflow
            .iter()
            .zip(graph.steps())
            .map(|(step, index)| FlowStep::new(step, index, &graph, strict))
            .collect();
        Some(Self {
            name: Arc::clone(&playbook.metadata.name),
            steps,
            entry: graph.entry()?,
            final_step: graph.final_step(),
            cycles: graph.cycles().len(),
        })
    }

    pub(super) fn step(&self, step: StepIndex) -> &FlowStep {
        &self.steps[step.index()]
    }

    /// Every step, in document order.
    pub(super) fn indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..).map(StepIndex).take(self.steps.len())
    }

    /// Whether an arc leads to the `end` that nobody declared.
    pub(super) fn has_end(&self) -> bool {
        let mut arcs = self.steps.iter().flat_map(|step| &step.arcs);
        arcs.any(|arc| arc.target == Target::End)
    }
}

impl FlowStep {
    fn new(step: &Step, index: StepIndex, graph: &Graph, strict: bool) -> Self {
        let router = step.next.as_ref();
        let arcs: Vec<FlowArc> = router
            .into_iter()
            .flat_map(|router| &router.arcs)
            .zip(graph.edges(index))
            .filter_map(|(arc, edge)| {
                let when = arc.when.as_ref().map(|when| condition(&when.value));
                Some(FlowArc {
                    target: edge.target?,
                    when,
                })
            })
            .collect();
        let must_match =
            router.is_some_and(|router| strict || router.on_no_match() == NoMatch::Error);
        Self {
            name: Arc::clone(&step.name.value),
            tools: step
                .tool
                .tasks()
                .iter()
                .map(|task| task.kind.value.as_str())
                .collect(),
            looping: step.looping.as_ref().map(looping),
            guard: step
                .when
                .as_ref()
                .filter(|when| when.value != Condition::Fixed(true))
                .map(|when| condition(&when.value)),
            admission: !step.spec.policy.admit.is_empty(),
            mode: graph.mode(index),
            fails_unmatched: must_match && arcs.iter().all(|arc| arc.when.is_some()),
            arcs,
        }
    }

    /// When an arc is taken, in words; `None` where it always is after success.
    pub(super) fn taken(&self, at: usize) -> Option<String> {
        let exclusive = self.mode == RouterMode::Exclusive;
        let before = &self.arcs[..at];
        if exclusive && before.iter().any(|arc| arc.when.is_none()) {
            return Some("never: an arc before it always holds".to_owned());
        }
        match &self.arcs[at].when {
            Some(when) if exclusive && at > 0 => Some(format!("else if {when}")),
            Some(when) => Some(format!("if {when}")),
            None if exclusive && at > 0 => Some("else".to_owned()),
            None => None,
        }
    }
}

fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Fixed(value) => value.to_string(),
        Condition::Test(template) => expression(template.source()),
    }
}

/// The expression of a template that is nothing else, on one line; any other text as it is.
fn expression(source: &str) -> String {
    let trimmed = source.trim();
    let inner = trimmed
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"))
        .filter(|inner| !inner.contains("{{"));
    let words: Vec<&str> = inner.unwrap_or(trimmed).split_whitespace().collect();
    words.join(" ")
}

fn looping(looping: &Loop) -> String {
    let over = match &looping.source {
        LoopSource::In(_) => items(&looping.source),
        LoopSource::Cursor(cursor) => format!("rows claimed from {}", cursor.kind),
    };
    let width = looping
        .spec
        .max_in_flight
        .as_ref()
        .map(|width| match &width.value {
            Setting::Fixed(width) => width.to_string(),
            Setting::Template(template) => expression(template.source()),
        });
    let way = match (looping.spec.mode, width) {
        (LoopMode::Sequential, _) => "one by one".to_owned(),
        (LoopMode::Parallel, None) => "in parallel".to_owned(),
        (LoopMode::Parallel, Some(width)) => format!("in parallel, {width} at once"),
        (LoopMode::Cursor, None) => "frame by frame".to_owned(),
        (LoopMode::Cursor, Some(width)) => format!("in frames, {width} at once"),
    };
    format!("for {} in {over}, {way}", looping.iterator.value)
}

/// What a loop goes over, as its author wrote it.
fn items(source: &LoopSource) -> String {
    let written = serde_json::to_value(source).unwrap_or_default();
    match written.get("in") {
        Some(serde_json::Value::String(text)) => expression(text),
        Some(serde_json::Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            format!("[{}]", items.join(", "))
        }
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::expression;

    #[test]
    fn a_template_of_one_expression_loses_its_braces() {
        assert_eq!(expression("{{ a  >\n 3 }}"), "a > 3");
        assert_eq!(expression("n > 3"), "n > 3");
        assert_eq!(expression("{{ a }}{{ b }}"), "{{ a }}{{ b }}");
        assert_eq!(expression("x{{ a }}"), "x{{ a }}");
    }
}
