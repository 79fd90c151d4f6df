//! Invariants of a state, as predicates shared by tests and debug builds.
//!
//! Contains no engine logic: a predicate inspects a state and reports the violated invariant.

use noetl_playbook::graph::StepIndex;

use crate::plan::Plan;
use crate::state::{ExecutionPhase, ExecutionStage, ExecutionState, StepStage, StepWork};

/// A violated invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvariantViolation {
    /// The set of active steps differs from the steps that are running or waiting.
    #[error("the set of active steps is wrong for step {0}")]
    Active(u32),
    /// The set of waiting steps differs from the steps with arrivals.
    #[error("the set of waiting steps is wrong for step {0}")]
    Waiting(u32),
    /// The set of undecided steps is wrong.
    #[error("the set of undecided steps is wrong for step {0}")]
    Undecided(u32),
    /// A command belongs to no active step pass, or the pass has a wrong command count.
    #[error("the open command count of step {0} is wrong")]
    OpenCommands(u32),
    /// More iterations are open or ended than were issued, or more were issued than exist.
    #[error("the iteration counts of step {0} are wrong")]
    Iterations(u32),
    /// Closed commands are deferred although the execution is not paused.
    #[error("commands are deferred although the execution is not paused")]
    DeferredWhileActive,
    /// A command or step is open although the execution has ended.
    #[error("a command or step is open although the execution has ended")]
    OpenAfterEnd,
    /// The execution is active but nothing can advance it.
    #[error("the execution is active but waits for nothing")]
    Stuck,
}

/// Checks the invariants that hold after every single event.
pub fn check_consistent(state: &ExecutionState, plan: &Plan) -> Result<(), InvariantViolation> {
    for step in plan.graph().steps() {
        check_step_consistent(state, plan, step)?;
    }
    for (_, command) in state.commands() {
        let pass = state.active_pass(command.step);
        if pass.is_none_or(|pass| pass.number != command.run) {
            return Err(InvariantViolation::OpenCommands(command.step.0));
        }
    }
    if !state.deferred.is_empty() && !state.is_paused() {
        return Err(InvariantViolation::DeferredWhileActive);
    }
    Ok(())
}

fn check_step_consistent(
    state: &ExecutionState,
    plan: &Plan,
    step: StepIndex,
) -> Result<(), InvariantViolation> {
    let stage = state.step_stage(step);
    let is_active = matches!(stage, StepStage::Running | StepStage::Waiting);
    if state.active.contains(step) != is_active {
        return Err(InvariantViolation::Active(step.0));
    }
    let has_arrivals =
        state.step_state(step).is_some_and(|step_state| step_state.waiting.is_some());
    if state.waiting_steps.contains(step) != has_arrivals {
        return Err(InvariantViolation::Waiting(step.0));
    }
    let is_decided = state
        .step_state(step)
        .is_some_and(|step_state| step_state.passes > 0 || step_state.is_dead);
    if state.undecided.contains(step) != (plan.reachable_steps().contains(step) && !is_decided) {
        return Err(InvariantViolation::Undecided(step.0));
    }
    let Some(pass) = state.active_pass(step) else {
        return Ok(());
    };
    let open = state.commands().filter(|(_, command)| command.step == step).count();
    if pass.open as usize != open {
        return Err(InvariantViolation::OpenCommands(step.0));
    }
    let is_counted = match &pass.work {
        StepWork::Single { .. } => true,
        StepWork::Loop(looping) => {
            let stats = looping.loop_stats();
            // Cancelled commands are neither open nor ended.
            let counted = u64::from(stats.success) + u64::from(stats.failed) + open as u64;
            looping.next <= looping.iterations && counted <= u64::from(looping.next)
        }
        StepWork::Cursor(cursor) => {
            let used_chains = open as u64 + u64::from(cursor.ended);
            used_chains <= u64::from(cursor.terms.chains) && open as u64 <= u64::from(cursor.next)
        }
    };
    if is_counted { Ok(()) } else { Err(InvariantViolation::Iterations(step.0)) }
}

/// Checks the invariants that hold after every decision: the execution has ended, is paused, or
/// waits for a worker or a slot. It inspects only open items, so it is cheap enough for every
/// decision of a debug build.
pub fn check_settled(state: &ExecutionState, plan: &Plan) -> Result<(), InvariantViolation> {
    if !state.deferred.is_empty() && !state.is_paused() {
        return Err(InvariantViolation::DeferredWhileActive);
    }
    match state.execution_stage() {
        ExecutionStage::New | ExecutionStage::Paused => Ok(()),
        ExecutionStage::Ended => {
            let is_cut_short = !matches!(
                state.phase,
                ExecutionPhase::Ended(noetl_types::ExecutionStatus::Completed)
            );
            // An execution that is finalized as completed may leave waiting steps behind.
            let has_active_passes = state.active_passes().next().is_some();
            let is_clear = state.open_command_count() == 0 && (is_cut_short || !has_active_passes);
            if is_clear { Ok(()) } else { Err(InvariantViolation::OpenAfterEnd) }
        }
        ExecutionStage::Running | ExecutionStage::Failing | ExecutionStage::Ending => {
            let mut passes = state.active_passes();
            let all_wait = passes.all(|(_, pass)| pass.open > 0);
            let is_scheduled = state.scheduled_start().is_some();
            let is_waiting = is_scheduled
                || state.active_passes().next().is_some()
                || is_waiting_for_slot(state, plan);
            if is_waiting && all_wait { Ok(()) } else { Err(InvariantViolation::Stuck) }
        }
    }
}

/// Returns true if the execution, or one of its steps, can continue once a slot is granted.
pub(crate) fn is_waiting_for_slot(state: &ExecutionState, plan: &Plan) -> bool {
    let mut waiting = state.waiting_steps.iter();
    let uses_slot = |step| plan.step_model(step).concurrency.is_some();
    !state.is_failing() && (state.awaited_execution_slot().is_some() || waiting.any(uses_slot))
}
