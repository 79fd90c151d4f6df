//! Random playbooks that are valid, end, and say themselves what their tools answer.
//!
//! The same seed and configuration always give the same text. Every text passes the checker without
//! errors. Steps lead forward along the order in which they are planned; an arc that leads back
//! counts itself in a variable of the execution and stops at a bound, so every run ends. Tasks of
//! kind `shell` are written for [`Script`](crate::Script), and what comes from outside for
//! [`World`](crate::World). Whatever waits has a bound on its time.

mod expressions;
mod graph;
mod parking;
mod steps;
mod tasks;
mod tree;

pub use tree::Draft;
pub(crate) use tree::Node;

use crate::rng::Rng;

/// Which constructs a generated playbook may have.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenConfig {
    /// The most steps.
    pub max_steps: usize,
    /// Arcs that lead back.
    pub cycles: bool,
    /// Routers that take every true arc.
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
    /// Tasks that fail, and arcs that catch it.
    pub failures: bool,
    /// Templates that cannot be rendered.
    pub template_errors: bool,
    /// Variables of the execution, of the run and of the pipeline.
    pub writes: bool,
    /// Reads of steps that need not be over when the reader starts.
    pub races: bool,
    /// A step that runs when the run ends.
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
    /// Steps that take over earlier results.
    pub caches: bool,
    /// Steps that wait for a slot.
    pub slots: bool,
    /// Data of which parts are selected, or which is put together over several runs.
    pub outputs: bool,
    /// Bounds on the time of steps and of the whole run.
    pub timeouts: bool,
    /// Constructs whose meaning the language leaves open: what led to a join, the own name of a step in
    /// its arcs, policies that fail an attempt that went well, the states of steps, bounds on runs.
    pub open_choices: bool,
}

impl Default for GenConfig {
    /// Everything that has one meaning.
    fn default() -> Self {
        Self {
            open_choices: false,
            ..Self::everything()
        }
    }
}

impl GenConfig {
    /// Every construct.
    pub const fn everything() -> Self {
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

    /// The same without anything that waits, is claimed, or comes from outside.
    #[must_use]
    pub const fn without_world(self) -> Self {
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

    /// Playbooks that come to the same whatever the order in which their commands are carried out,
    /// but for the order of the skips and the step that exits last.
    pub const fn confluent() -> Self {
        Self {
            cycles: false,
            failures: false,
            template_errors: false,
            writes: false,
            races: false,
            no_match_errors: false,
            // Which wait takes a signal depends on which of them waits first.
            waits: false,
            caches: false,
            timeouts: false,
            open_choices: false,
            ..Self::everything()
        }
    }
}

/// The playbook of a seed.
pub fn generate(seed: u64, config: &GenConfig) -> Draft {
    let mut rng = Rng::new(seed);
    let count = rng.between(1, config.max_steps.max(1));
    let mut generator = Generator {
        rng,
        config,
        plans: Vec::new(),
        may_fail: false,
        rows: Vec::new(),
    };
    generator.plan(count);
    Draft(generator.document())
}

/// A generator at work.
struct Generator<'c> {
    rng: Rng,
    config: &'c GenConfig,
    /// What is decided of each step before any of them is written, the entry first.
    plans: Vec<Plan>,
    /// Whether a task of the step at hand was given a way to fail.
    may_fail: bool,
    /// What claims find, by step.
    rows: Vec<(String, Node)>,
}

/// What is decided of a step first.
#[derive(Debug, Clone)]
struct Plan {
    name: String,
    arcs: Vec<ArcPlan>,
    /// Steps that lead to it, so that their data is settled when it enters.
    ancestors: Vec<usize>,
    body: Body,
}

/// An arc before it has a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArcPlan {
    /// To a later step.
    Forward(usize),
    /// To the same or an earlier step, counted under a number of its own.
    Back { to: usize, counter: usize },
    /// To the `end` that nobody declares.
    End,
}

/// What a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Single,
    Pipeline,
}

impl Generator<'_> {
    fn document(&mut self) -> Node {
        let mut order: Vec<usize> = (0..self.plans.len()).collect();
        let shuffled = self.rng.percent(40);
        if shuffled {
            for at in (1..order.len()).rev() {
                order.swap(at, self.rng.below(at + 1));
            }
        }
        let mut steps: Vec<Node> = order.iter().map(|step| self.step(*step)).collect();
        let mut spec = Node::map([("policy", self.limits())]);
        let named_start = self.plans.iter().any(|plan| plan.name == "start");
        if shuffled && !named_start {
            spec.push("entry_step", Node::text(self.plans[0].name.clone()));
        }
        if self.config.final_step && self.rng.percent(12) {
            spec.push("final_step", Node::text("cleanup"));
            steps.push(self.final_step());
        }
        if self.config.no_match_errors && self.rng.percent(4) {
            spec.push("no_next_is_error", Node::from(true));
        }
        if self.config.timeouts && self.rng.percent(10) {
            let timeout = self.duration(8);
            spec.push("timeout", timeout);
        }
        let mut document = Node::map([
            ("apiVersion", Node::text("noetl.io/v2")),
            ("kind", Node::text("Playbook")),
            ("metadata", Node::map([("name", Node::text("generated"))])),
            ("executor", Node::map([("spec", spec)])),
            ("workload", self.workload()),
            ("workflow", Node::List(steps)),
        ]);
        if self.config.slots && self.rng.percent(6) {
            let key = Node::map([("key", Node::text("run{{ w1 }}"))]);
            document.push("concurrency", key);
        }
        document
    }

    /// A bound on runs: one that is never reached, unless bounds are to be tried.
    fn limits(&mut self) -> Node {
        let tight = self.config.open_choices && self.rng.percent(10);
        let most = if tight { self.rng.between(1, 3) } else { 400 };
        Node::map([("limits", Node::map([("max_step_runs", Node::from(most))]))])
    }

    fn workload(&mut self) -> Node {
        let items = (0..self.rng.below(4))
            .map(|_| noetl_types::Json::from(self.rng.below(5)))
            .collect::<Vec<_>>();
        Node::map([
            ("w0", Node::from(self.rng.below(5))),
            ("w1", Node::from(self.rng.below(2))),
            ("items", Node::from(items)),
            ("words", Node::text("red, green,\n blue")),
            ("world", self.world()),
        ])
    }

    /// One of several pieces of text.
    fn word<'w>(&mut self, words: &[&'w str]) -> &'w str {
        self.rng.pick(words).copied().unwrap_or_default()
    }
}
