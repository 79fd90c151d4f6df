//! Random playbooks that are valid, end, and contain the outcomes of their tools.
//!
//! The same seed and configuration always give the same text. Every text passes the checker without
//! errors. Arcs lead forward in the order in which steps are planned. An arc that leads back counts
//! itself in a variable of the execution and stops at a bound, so every run ends. Tasks of kind
//! `shell` are written for [`ScriptedOutcomes`](crate::ScriptedOutcomes), and external inputs for
//! [`ExternalInputs`](crate::ExternalInputs). Everything that waits has a timeout.

mod expressions;
mod graph;
mod steps;
mod suspension;
mod tasks;
mod tree;

pub(crate) use tree::DocumentNode;
pub use tree::PlaybookDraft;

use crate::rng::SeededRng;

/// Constructs that a generated playbook may contain.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenConfig {
    /// Maximum number of steps.
    pub max_steps: usize,
    /// Arcs that lead back.
    pub cycles: bool,
    /// Routers that take every arc whose condition is true.
    pub inclusive: bool,
    /// Guards.
    pub guards: bool,
    /// Admission rules.
    pub admission: bool,
    /// Sequential loops.
    pub loops: bool,
    /// Parallel loops.
    pub parallel_loops: bool,
    /// Loops that tolerate failed iterations.
    pub best_effort: bool,
    /// Pipelines of several tasks.
    pub pipelines: bool,
    /// Task policies.
    pub policies: bool,
    /// Tasks that fail, and arcs that catch the failure.
    pub failures: bool,
    /// Templates that cannot be rendered.
    pub template_errors: bool,
    /// Variables of the execution, of the step pass and of the pipeline.
    pub writes: bool,
    /// Reads of steps that may still be running when the reader starts.
    pub races: bool,
    /// A final step.
    pub final_step: bool,
    /// Dead ends that are failures.
    pub no_match_errors: bool,
    /// Tasks that sleep.
    pub sleeps: bool,
    /// Tasks that wait for signals.
    pub waits: bool,
    /// Tasks that ask for approval.
    pub approvals: bool,
    /// Tasks that start children.
    pub children: bool,
    /// Loops over claimed rows.
    pub cursors: bool,
    /// Steps that reuse cached results.
    pub caches: bool,
    /// Steps that wait for a slot.
    pub slots: bool,
    /// Outputs with selected or accumulated parts.
    pub outputs: bool,
    /// Timeouts of steps and of the execution.
    pub timeouts: bool,
    /// Constructs whose meaning the language leaves open: the trigger of a join, the name of a step
    /// in its own arcs, policies that fail a successful attempt, the states of steps, limits on
    /// passes.
    pub open_choices: bool,
}

impl Default for GenConfig {
    /// Every construct with exactly one meaning.
    fn default() -> Self {
        Self { open_choices: false, ..Self::all_constructs() }
    }
}

impl GenConfig {
    /// Returns a configuration with every construct.
    pub const fn all_constructs() -> Self {
        Self {
            max_steps: 8,
            cycles: true,
            inclusive: true,
            guards: true,
            admission: true,
            loops: true,
            parallel_loops: true,
            best_effort: true,
            pipelines: true,
            policies: true,
            failures: true,
            template_errors: true,
            writes: true,
            races: true,
            final_step: true,
            no_match_errors: true,
            sleeps: true,
            waits: true,
            approvals: true,
            children: true,
            cursors: true,
            caches: true,
            slots: true,
            outputs: true,
            timeouts: true,
            open_choices: true,
        }
    }

    /// Disables everything that waits, is claimed, or depends on external inputs.
    #[must_use]
    pub const fn without_external_inputs(self) -> Self {
        Self {
            sleeps: false,
            waits: false,
            approvals: false,
            children: false,
            cursors: false,
            caches: false,
            slots: false,
            timeouts: false,
            ..self
        }
    }

    /// Returns a configuration for playbooks whose result does not depend on the order in which
    /// commands are executed, except for the order of skips and the step that exits last.
    pub const fn order_independent() -> Self {
        Self {
            cycles: false,
            failures: false,
            template_errors: false,
            writes: false,
            races: false,
            no_match_errors: false,
            // The wait that takes a signal depends on which of them waits first.
            waits: false,
            caches: false,
            timeouts: false,
            open_choices: false,
            ..Self::all_constructs()
        }
    }
}

/// Generates the playbook of a seed.
pub fn generate_playbook(seed: u64, config: &GenConfig) -> PlaybookDraft {
    let mut rng = SeededRng::new(seed);
    let count = rng.number_between(1, config.max_steps.max(1));
    let mut generator =
        Generator { rng, config, plans: Vec::new(), may_fail: false, rows: Vec::new() };
    generator.plan_steps(count);
    PlaybookDraft(generator.document_node())
}

/// State of a generator.
struct Generator<'c> {
    rng: SeededRng,
    config: &'c GenConfig,
    /// Plans of all steps, the entry step first. Made before any step is written.
    plans: Vec<StepPlan>,
    /// True if a task of the current step may fail.
    may_fail: bool,
    /// Rows that claims find, by step.
    rows: Vec<(String, DocumentNode)>,
}

/// Plan of a step.
#[derive(Debug, Clone)]
struct StepPlan {
    name: String,
    arcs: Vec<ArcPlan>,
    /// Steps that lead to it, so that their data is final when it is entered.
    ancestors: Vec<usize>,
    body: StepBody,
}

/// An arc before it has a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArcPlan {
    /// To a later step.
    Forward(usize),
    /// To the same or an earlier step, with its own counter.
    Back { to: usize, counter: usize },
    /// To the undeclared `end`.
    End,
}

/// Tool of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepBody {
    Single,
    Pipeline,
}

impl Generator<'_> {
    fn document_node(&mut self) -> DocumentNode {
        let mut order: Vec<usize> = (0..self.plans.len()).collect();
        let shuffled = self.rng.draw_percent(40);
        if shuffled {
            for index in (1..order.len()).rev() {
                order.swap(index, self.rng.number_below(index + 1));
            }
        }
        let mut steps: Vec<DocumentNode> = order.iter().map(|step| self.step_node(*step)).collect();
        let mut spec = DocumentNode::from_entries([("policy", self.limits_node())]);
        let named_start = self.plans.iter().any(|plan| plan.name == "start");
        if shuffled && !named_start {
            spec.push("entry_step", DocumentNode::from_text(self.plans[0].name.clone()));
        }
        if self.config.final_step && self.rng.draw_percent(12) {
            spec.push("final_step", DocumentNode::from_text("cleanup"));
            steps.push(self.final_step_node());
        }
        if self.config.no_match_errors && self.rng.draw_percent(4) {
            spec.push("no_next_is_error", DocumentNode::from(true));
        }
        if self.config.timeouts && self.rng.draw_percent(10) {
            let timeout = self.duration_node(8);
            spec.push("timeout", timeout);
        }
        let mut document = DocumentNode::from_entries([
            ("apiVersion", DocumentNode::from_text("noetl.io/v2")),
            ("kind", DocumentNode::from_text("Playbook")),
            (
                "metadata",
                DocumentNode::from_entries([("name", DocumentNode::from_text("generated"))]),
            ),
            ("executor", DocumentNode::from_entries([("spec", spec)])),
            ("workload", self.workload_node()),
            ("workflow", DocumentNode::List(steps)),
        ]);
        if self.config.slots && self.rng.draw_percent(6) {
            let key = DocumentNode::from_entries([("key", DocumentNode::from_text("run{{ w1 }}"))]);
            document.push("concurrency", key);
        }
        document
    }

    /// Limits the passes of a step. The limit is never reached, unless limits are to be tested.
    fn limits_node(&mut self) -> DocumentNode {
        let tight = self.config.open_choices && self.rng.draw_percent(10);
        let max_runs = if tight { self.rng.number_between(1, 3) } else { 400 };
        DocumentNode::from_entries([(
            "limits",
            DocumentNode::from_entries([("max_step_runs", DocumentNode::from(max_runs))]),
        )])
    }

    fn workload_node(&mut self) -> DocumentNode {
        let items = (0..self.rng.number_below(4))
            .map(|_| noetl_types::Json::from(self.rng.number_below(5)))
            .collect::<Vec<_>>();
        DocumentNode::from_entries([
            ("w0", DocumentNode::from(self.rng.number_below(5))),
            ("w1", DocumentNode::from(self.rng.number_below(2))),
            ("items", DocumentNode::from(items)),
            ("words", DocumentNode::from_text("red, green,\n blue")),
            ("world", self.external_inputs_node()),
        ])
    }

    /// Picks one of several texts.
    fn pick_text<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        self.rng.pick_item(texts).copied().unwrap_or_default()
    }
}
