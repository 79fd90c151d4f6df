//! What decisions need to know of a playbook, worked out once.
//!
//! A plan is immutable and shared by all runs of one definition. It holds the playbook itself, who
//! can reach whom, what each step's commands must carry, and the bounds of time.

mod arcs;
mod definition;
mod names;
mod reach;
mod reads;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use noetl_playbook::carried::Labels;
use noetl_playbook::graph::{Graph, StepIndex};
use noetl_playbook::model::{
    FailureMode, LoopMode, LoopSource, Playbook, Setting, Step, Tool, ToolKind,
};
use noetl_playbook::template::TemplateLimits;
use noetl_playbook::timeout;
use noetl_types::limits::{MaxAttempts, MaxStepRuns};
use noetl_types::name::NameError;
use noetl_types::{ByteSize, Digest, Millis, StepName, Text};

use crate::loops::Items;
use crate::payload::{INLINE_MAX, Readable};
use crate::step_set::StepSet;

use names::NameIndex;

pub use arcs::ArcPlan;

pub(crate) use reads::{CarriedRead, CarriedValues, Carry, ReadBase, expression};

/// Commands of one loop that may be open at once, whatever a playbook asks for.
pub const MAX_IN_FLIGHT: u32 = 10_000;
/// Those of a parallel loop that does not say.
const DEFAULT_IN_FLIGHT: u32 = 32;

/// What holds where a playbook does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Bytes of data that stay in the log.
    pub inline_max: ByteSize,
    /// Attempts of a command in all, where its worker is lost.
    pub max_attempts: MaxAttempts,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            inline_max: INLINE_MAX,
            max_attempts: MaxAttempts::default(),
        }
    }
}

/// What decisions need to know of a playbook.
#[derive(Debug)]
pub struct Plan {
    playbook: Arc<Playbook>,
    graph: Graph,
    entry: StepIndex,
    reachable: StepSet,
    steps: Vec<StepPlan>,
    by_name: NameIndex,
    max_step_runs: u32,
    limits: TemplateLimits,
    defaults: Defaults,
    uses_slots: bool,
}

/// What decisions need to know of a step.
#[derive(Debug)]
pub struct StepPlan {
    /// Its name.
    pub name: StepName,
    /// The steps that can be reached from it along at least one arc.
    pub reaches: StepSet,
    /// Its arcs, in order.
    pub arcs: Vec<ArcPlan>,
    /// What it loops over.
    pub looping: Option<LoopPlan>,
    /// Time from entering to leaving.
    pub timeout: Option<Millis>,
    /// Time from the first arrival to leaving.
    pub deadline: Option<Millis>,
    /// Time for one attempt of a command.
    pub attempt_deadline: Millis,
    /// What its first task runs.
    pub tool: ToolKind,
    /// Where its data comes from.
    pub labels: Labels,
    /// Bytes of data that stay in the log.
    pub inline_max: ByteSize,
    /// Parts of its data that are read without fetching the rest.
    pub readable: Readable,
    /// Digest of what its data is made by, where results are taken over.
    pub(crate) definition: Option<Digest>,
    pub(crate) carry: Carry,
}

/// What decisions need to know of a loop.
#[derive(Debug)]
pub struct LoopPlan {
    /// The name of the item.
    pub iterator: Text,
    /// Whether iterations run side by side.
    pub is_parallel: bool,
    /// Whether it goes on after a failed iteration.
    pub is_best_effort: bool,
    /// How many commands may be open at once, unless a template tells.
    pub max_in_flight: Option<u32>,
    /// The items, unless a template tells; `None` also where they are not iterable.
    pub items: Option<Items>,
}

/// Why a playbook cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It has no step to begin with.
    #[error("the playbook has no step to begin with")]
    NoEntry,
    /// An arc leads to a step that does not exist.
    #[error("step `{step}` leads to `{target}`, which is not a step")]
    UnknownTarget {
        /// The step.
        step: Arc<str>,
        /// The target.
        target: Arc<str>,
    },
    /// A name that the log cannot hold.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The definition of a step whose results are taken over cannot be written out.
    #[error("step `{step}` cannot be written out: {reason}")]
    Definition {
        /// The step.
        step: Arc<str>,
        /// Why.
        reason: String,
    },
}

impl Plan {
    /// The plan of a playbook that was checked.
    pub fn new(playbook: Arc<Playbook>) -> Result<Self, PlanError> {
        Self::with_limits(playbook, TemplateLimits::default())
    }

    /// The same, with bounds on what one template may cost.
    pub fn with_limits(playbook: Arc<Playbook>, limits: TemplateLimits) -> Result<Self, PlanError> {
        let graph = Graph::new(&playbook);
        let entry = graph.entry().ok_or(PlanError::NoEntry)?;
        let reaches = reach::reaches(&graph);
        let defaults = Defaults::default();
        let mut steps = Vec::with_capacity(graph.len());
        for (index, step) in graph.steps().zip(&playbook.workflow) {
            let reaches = reaches[index.index()].clone();
            steps.push(StepPlan::new(&playbook, &graph, index, step, reaches)?);
        }
        let mut reachable = reaches[entry.index()].clone();
        reachable.insert(entry);
        let max_step_runs = playbook.executor.spec.policy.limits.max_step_runs;
        let max_step_runs = max_step_runs.and_then(|runs| u32::try_from(runs).ok());
        let mut keyed = playbook.workflow.iter().map(|step| &step.concurrency);
        Ok(Self {
            uses_slots: playbook.concurrency.is_some() || keyed.any(Option::is_some),
            max_step_runs: max_step_runs.unwrap_or(MaxStepRuns::default().get()),
            entry,
            reachable,
            by_name: NameIndex::of(&steps),
            steps,
            limits,
            defaults,
            graph,
            playbook,
        })
    }

    /// The same where something else holds that the playbook does not say.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Defaults) -> Self {
        for (facts, step) in self.steps.iter_mut().zip(&self.playbook.workflow) {
            facts.inline_max = inline_max(&self.playbook, step, defaults);
        }
        self.defaults = defaults;
        self
    }

    /// The playbook.
    pub fn playbook(&self) -> &Arc<Playbook> {
        &self.playbook
    }

    /// Its steps as a graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is no step; never so.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A step by its name.
    pub fn find(&self, name: &str) -> Option<StepIndex> {
        let mut same = self.by_name.with_hash_of(name);
        same.find(|step| self.step(*step).name == *name)
    }

    /// What is known of a step.
    pub fn step(&self, step: StepIndex) -> &StepPlan {
        &self.steps[step.index()]
    }

    /// A step as its author wrote it.
    pub fn model(&self, step: StepIndex) -> &Step {
        &self.playbook.workflow[step.index()]
    }

    /// Time for the whole run.
    pub fn timeout(&self) -> Option<Millis> {
        self.playbook.executor.spec.timeout
    }

    /// The step that runs when the run is about to end.
    pub fn final_step(&self) -> Option<StepIndex> {
        self.graph.final_step()
    }

    /// Whether a run of it may have slots or want some.
    pub fn uses_slots(&self) -> bool {
        self.uses_slots
    }

    pub(crate) fn entry(&self) -> StepIndex {
        self.entry
    }

    pub(crate) fn reachable(&self) -> &StepSet {
        &self.reachable
    }

    pub(crate) fn max_step_runs(&self) -> u32 {
        self.max_step_runs
    }

    pub(crate) fn defaults(&self) -> Defaults {
        self.defaults
    }

    pub(crate) fn limits(&self) -> TemplateLimits {
        self.limits
    }
}

impl StepPlan {
    fn new(
        playbook: &Playbook,
        graph: &Graph,
        index: StepIndex,
        step: &Step,
        reaches: StepSet,
    ) -> Result<Self, PlanError> {
        let first = step.tool.tasks().first();
        Ok(Self {
            name: StepName::new(Arc::clone(&step.name.value))?,
            reaches,
            arcs: arcs::plan(graph, index, step)?,
            looping: step.looping.as_ref().map(|_| LoopPlan::new(step)),
            timeout: step.spec.timeout,
            deadline: step.spec.policy.lifecycle.deadline,
            attempt_deadline: timeout::of_command(playbook, step),
            tool: first.map_or(ToolKind::Noop, |task| task.kind.value),
            labels: labels(step),
            inline_max: inline_max(playbook, step, Defaults::default()),
            readable: readable(step),
            definition: definition::digest(playbook, step)?,
            carry: reads::carry(playbook, step),
        })
    }
}

impl LoopPlan {
    fn new(step: &Step) -> Self {
        let spec = step.looping.as_ref().map(|looping| &looping.spec);
        let is_cursor = step
            .looping
            .as_ref()
            .is_some_and(|looping| matches!(looping.source, LoopSource::Cursor(_)));
        let is_parallel = spec.is_some_and(|spec| spec.mode == LoopMode::Parallel);
        let written = spec.and_then(|spec| spec.max_in_flight.as_ref());
        let items = step
            .looping
            .as_ref()
            .and_then(|looping| match &looping.source {
                LoopSource::In(items) => items.as_const(),
                LoopSource::Cursor(_) => None,
            });
        Self {
            iterator: step.looping.as_ref().map_or_else(
                || "item".into(),
                |looping| Text::from(&*looping.iterator.value),
            ),
            is_parallel,
            is_best_effort: step.spec.policy.failure.mode == FailureMode::BestEffort,
            max_in_flight: match written.map(|width| &width.value) {
                _ if !is_parallel && !is_cursor => Some(1),
                None if is_cursor => Some(1),
                None => Some(DEFAULT_IN_FLIGHT),
                Some(Setting::Fixed(width)) => Some((*width).clamp(1, MAX_IN_FLIGHT)),
                Some(Setting::Template(_)) => None,
            },
            items: items.and_then(|items| Items::of(items).ok()),
        }
    }
}

fn labels(step: &Step) -> Labels {
    let tasks = match &step.tool {
        _ if step.looping.is_some() => return Labels::Loop,
        Tool::Single(_) => &[],
        Tool::Pipeline(tasks) => tasks.as_slice(),
    };
    Labels::Names(
        tasks
            .iter()
            .map(|task| Arc::clone(&task.label.value))
            .collect(),
    )
}

fn readable(step: &Step) -> Readable {
    let task = match &step.tool {
        Tool::Single(task) if step.looping.is_none() => task.output.as_ref(),
        Tool::Single(_) | Tool::Pipeline(_) => None,
    };
    Readable::of(step.output.iter().chain(task))
}

fn inline_max(playbook: &Playbook, step: &Step, defaults: Defaults) -> ByteSize {
    let written = step
        .output
        .as_ref()
        .and_then(|output| output.inline_max_bytes);
    match written {
        Some(bytes) => bytes,
        None if playbook.executor.spec.policy.reference_first => ByteSize::default(),
        None => defaults.inline_max,
    }
}
