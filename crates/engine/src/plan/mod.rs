//! Execution plan of a playbook, computed once per definition.
//!
//! A plan is immutable and shared by all executions of one definition. It contains the playbook,
//! the reachability of its steps, the context that the commands of each step need, and the time
//! limits.

mod arcs;
mod definition;
mod names;
mod reachability;
mod reads;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use noetl_playbook::command_context::StepDataLabels;
use noetl_playbook::graph::{StepGraph, StepIndex};
use noetl_playbook::model::{
    FailureMode, LoopMode, LoopSource, Playbook, Step, Tool, ToolKind, ValueOrTemplate,
};
use noetl_playbook::template::TemplateLimits;
use noetl_playbook::timeout;
use noetl_types::limits::{MaxAttempts, MaxStepPasses};
use noetl_types::name::NameError;
use noetl_types::{ByteSize, Digest, Millis, StepName, Text};

use crate::loops::LoopItems;
use crate::payload::{ExtractionRules, MAX_INLINE_SIZE};
use crate::step_set::StepSet;

use names::NameIndex;

pub use arcs::ArcPlan;

pub(crate) use reads::{ContextNeeds, NeededRead, NeededValues, ReadBase, path_expression};

/// Maximum number of open commands of one loop, regardless of the playbook.
pub const MAX_LOOP_IN_FLIGHT: u32 = 10_000;
/// Default number of open commands of a parallel loop.
const DEFAULT_LOOP_IN_FLIGHT: u32 = 32;

/// Values used where a playbook specifies none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanDefaults {
    /// Size limit of data stored inline in events.
    pub inline_max: ByteSize,
    /// Maximum number of attempts of a command whose workers are lost.
    pub max_attempts: MaxAttempts,
}

impl Default for PlanDefaults {
    fn default() -> Self {
        Self { inline_max: MAX_INLINE_SIZE, max_attempts: MaxAttempts::default() }
    }
}

/// Execution plan of a playbook.
#[derive(Debug)]
pub struct Plan {
    playbook: Arc<Playbook>,
    graph: StepGraph,
    entry_step: StepIndex,
    reachable_steps: StepSet,
    steps: Vec<StepPlan>,
    by_name: NameIndex,
    max_step_runs: u32,
    limits: TemplateLimits,
    defaults: PlanDefaults,
    uses_slots: bool,
}

/// Plan of a step.
#[derive(Debug)]
pub struct StepPlan {
    /// Name of the step.
    pub name: StepName,
    /// Steps that can be reached from it along at least one arc.
    pub reaches: StepSet,
    /// Its arcs, in order.
    pub arcs: Vec<ArcPlan>,
    /// Plan of its loop.
    pub loop_plan: Option<LoopPlan>,
    /// Maximum time from entry to exit.
    pub timeout: Option<Millis>,
    /// Maximum time from the first arrival to exit.
    pub deadline: Option<Millis>,
    /// Maximum time of one attempt of a command.
    pub attempt_deadline: Millis,
    /// Tool of its first task.
    pub tool: ToolKind,
    /// Task labels by which its data can be addressed.
    pub labels: StepDataLabels,
    /// Size limit of data stored inline in events.
    pub inline_max: ByteSize,
    /// Parts of its data that a reference contains.
    pub extraction_rules: ExtractionRules,
    /// Digest of its definition, if it has a cache.
    pub(crate) definition: Option<Digest>,
    pub(crate) context_needs: ContextNeeds,
}

/// Plan of a loop.
#[derive(Debug)]
pub struct LoopPlan {
    /// Name of the item variable.
    pub iterator: Text,
    /// True if iterations run in parallel.
    pub is_parallel: bool,
    /// True if the loop continues after a failed iteration.
    pub is_best_effort: bool,
    /// Maximum number of open commands, or `None` if a template determines it.
    pub max_in_flight: Option<u32>,
    /// The items, or `None` if a template determines them or they are not iterable.
    pub items: Option<LoopItems>,
}

/// Error in a playbook that prevents its execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The playbook has no entry step.
    #[error("the playbook has no entry step")]
    NoEntry,
    /// An arc leads to a step that does not exist.
    #[error("step `{step}` leads to `{target}`, which is not a step")]
    UnknownTarget {
        /// The step.
        step: Arc<str>,
        /// The target.
        target: Arc<str>,
    },
    /// A step name is not a valid name in the log.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The definition of a step with a cache cannot be serialized.
    #[error("cannot serialize step `{step}`: {reason}")]
    Definition {
        /// The step.
        step: Arc<str>,
        /// The cause.
        reason: String,
    },
}

impl Plan {
    /// Builds the plan of a validated playbook.
    pub fn new(playbook: Arc<Playbook>) -> Result<Self, PlanError> {
        Self::with_limits(playbook, TemplateLimits::default())
    }

    /// Builds the plan with limits on template rendering.
    pub fn with_limits(playbook: Arc<Playbook>, limits: TemplateLimits) -> Result<Self, PlanError> {
        let graph = StepGraph::new(&playbook);
        let entry = graph.entry().ok_or(PlanError::NoEntry)?;
        let reaches = reachability::reachable_sets(&graph);
        let defaults = PlanDefaults::default();
        let mut steps = Vec::with_capacity(graph.len());
        for (index, step) in graph.steps().zip(&playbook.workflow) {
            let reaches = reaches[index.index()].clone();
            steps.push(StepPlan::new(&playbook, &graph, index, step, reaches)?);
        }
        let mut reachable = reaches[entry.index()].clone();
        reachable.insert(entry);
        let max_step_runs = playbook.executor.spec.policy.limits.max_step_runs;
        let max_step_runs = max_step_runs.and_then(|runs| u32::try_from(runs).ok());
        let mut step_slots = playbook.workflow.iter().map(|step| &step.concurrency);
        Ok(Self {
            uses_slots: playbook.concurrency.is_some() || step_slots.any(Option::is_some),
            max_step_runs: max_step_runs.unwrap_or(MaxStepPasses::default().get()),
            entry_step: entry,
            reachable_steps: reachable,
            by_name: NameIndex::from_steps(&steps),
            steps,
            limits,
            defaults,
            graph,
            playbook,
        })
    }

    /// Replaces the default values.
    #[must_use]
    pub fn with_defaults(mut self, defaults: PlanDefaults) -> Self {
        for (step_plan, step) in self.steps.iter_mut().zip(&self.playbook.workflow) {
            step_plan.inline_max = max_inline_size(&self.playbook, step, defaults);
        }
        self.defaults = defaults;
        self
    }

    /// The playbook.
    pub fn playbook(&self) -> &Arc<Playbook> {
        &self.playbook
    }

    /// Graph of its steps.
    pub fn graph(&self) -> &StepGraph {
        &self.graph
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Always false: a plan has at least one step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Finds a step by name.
    pub fn find_step(&self, name: &str) -> Option<StepIndex> {
        let mut candidates = self.by_name.candidates(name);
        candidates.find(|step| self.step(*step).name == *name)
    }

    /// Plan of a step.
    pub fn step(&self, step: StepIndex) -> &StepPlan {
        &self.steps[step.index()]
    }

    /// A step as parsed from the playbook.
    pub fn step_model(&self, step: StepIndex) -> &Step {
        &self.playbook.workflow[step.index()]
    }

    /// Maximum time of the whole execution.
    pub fn execution_timeout(&self) -> Option<Millis> {
        self.playbook.executor.spec.timeout
    }

    /// Maximum time of the final step and the steps after it, if the playbook specifies it.
    pub(crate) fn final_step_timeout(&self) -> Option<Millis> {
        self.playbook.executor.spec.final_step_timeout
    }

    /// Step that runs when the execution is about to end.
    pub fn final_step(&self) -> Option<StepIndex> {
        self.graph.final_step()
    }

    /// Returns true if executions may request or hold slots.
    pub fn uses_slots(&self) -> bool {
        self.uses_slots
    }

    pub(crate) fn entry_step(&self) -> StepIndex {
        self.entry_step
    }

    pub(crate) fn reachable_steps(&self) -> &StepSet {
        &self.reachable_steps
    }

    pub(crate) fn max_step_runs(&self) -> u32 {
        self.max_step_runs
    }

    pub(crate) fn defaults(&self) -> PlanDefaults {
        self.defaults
    }

    pub(crate) fn limits(&self) -> TemplateLimits {
        self.limits
    }
}

impl StepPlan {
    fn new(
        playbook: &Playbook,
        graph: &StepGraph,
        index: StepIndex,
        step: &Step,
        reaches: StepSet,
    ) -> Result<Self, PlanError> {
        let first = step.tool.tasks().first();
        Ok(Self {
            name: StepName::new(Arc::clone(&step.name.value))?,
            reaches,
            arcs: arcs::plan_arcs(graph, index, step)?,
            loop_plan: step.looping.as_ref().map(|_| LoopPlan::new(step)),
            timeout: step.spec.timeout,
            deadline: step.spec.policy.lifecycle.deadline,
            attempt_deadline: timeout::command_timeout(playbook, step),
            tool: first.map_or(ToolKind::Noop, |task| task.kind.value),
            labels: task_labels(step),
            inline_max: max_inline_size(playbook, step, PlanDefaults::default()),
            extraction_rules: extraction_rules(step),
            definition: definition::definition_digest(playbook, step)?,
            context_needs: reads::context_needs(playbook, step),
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
        let setting = spec.and_then(|spec| spec.max_in_flight.as_ref());
        let items = step.looping.as_ref().and_then(|looping| match &looping.source {
            LoopSource::In(items) => items.as_const(),
            LoopSource::Cursor(_) => None,
        });
        Self {
            iterator: step
                .looping
                .as_ref()
                .map_or_else(|| "item".into(), |looping| Text::from(&*looping.iterator.value)),
            is_parallel,
            is_best_effort: step.spec.policy.failure.mode == FailureMode::BestEffort,
            max_in_flight: match setting.map(|width| &width.value) {
                _ if !is_parallel && !is_cursor => Some(1),
                None if is_cursor => Some(1),
                None => Some(DEFAULT_LOOP_IN_FLIGHT),
                Some(ValueOrTemplate::Fixed(width)) => Some((*width).clamp(1, MAX_LOOP_IN_FLIGHT)),
                Some(ValueOrTemplate::Template(_)) => None,
            },
            items: items.and_then(|items| LoopItems::from_value(items).ok()),
        }
    }
}

fn task_labels(step: &Step) -> StepDataLabels {
    let tasks = match &step.tool {
        _ if step.looping.is_some() => return StepDataLabels::Loop,
        Tool::Single(_) => &[],
        Tool::Pipeline(tasks) => tasks.as_slice(),
    };
    StepDataLabels::Names(tasks.iter().map(|task| Arc::clone(&task.label.value)).collect())
}

fn extraction_rules(step: &Step) -> ExtractionRules {
    let task = match &step.tool {
        Tool::Single(task) if step.looping.is_none() => task.output.as_ref(),
        Tool::Single(_) | Tool::Pipeline(_) => None,
    };
    ExtractionRules::from_outputs(step.output.iter().chain(task))
}

fn max_inline_size(playbook: &Playbook, step: &Step, defaults: PlanDefaults) -> ByteSize {
    let configured = step.output.as_ref().and_then(|output| output.inline_max_bytes);
    match configured {
        Some(bytes) => bytes,
        None if playbook.executor.spec.policy.results.reference_first => ByteSize::default(),
        None => defaults.inline_max,
    }
}
