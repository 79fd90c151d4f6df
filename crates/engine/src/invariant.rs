//! What is always true of a state, as predicates that tests and debug builds share.
//!
//! Owns no logic of its own: a predicate looks at a state and names what is wrong with it.

use noetl_playbook::graph::StepIndex;

use crate::plan::Plan;
use crate::state::{Life, LifeStage, State, StepStage, Work};

/// Something that is never true of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The set of active steps is not that of the steps that run or wait.
    #[error("step {0} is counted as active and is not, or the other way round")]
    Active(u32),
    /// The set of waiting steps is not that of the steps with arrivals.
    #[error("step {0} is counted as waiting and is not, or the other way round")]
    Waiting(u32),
    /// A step of which something is known counts as undecided, or the other way round.
    #[error("step {0} is counted as undecided and is not, or the other way round")]
    Undecided(u32),
    /// A command belongs to no run of a step, or the run counts its commands wrongly.
    #[error("the open commands of step {0} are counted wrongly")]
    OpenCommands(u32),
    /// More iterations have ended or are open than were issued, or more than there are.
    #[error("the iterations of step {0} are counted wrongly")]
    Iterations(u32),
    /// Consequences are held back though the run is not paused.
    #[error("consequences are held back though the run is not paused")]
    Held,
    /// Something is open though the run has ended.
    #[error("something is open though the run has ended")]
    OpenAfterEnd,
    /// The run goes on and nothing will ever happen to it.
    #[error("the run goes on and waits for nothing")]
    Stuck,
}

/// What is true after every single event.
pub fn consistent(state: &State, plan: &Plan) -> Result<(), Violation> {
    for step in plan.graph().steps() {
        step_is_consistent(state, plan, step)?;
    }
    for (_, command) in state.commands() {
        let run = state.run(command.step);
        if run.is_none_or(|run| run.number != command.run) {
            return Err(Violation::OpenCommands(command.step.0));
        }
    }
    if !state.held.is_empty() && !state.is_paused() {
        return Err(Violation::Held);
    }
    Ok(())
}

fn step_is_consistent(state: &State, plan: &Plan, step: StepIndex) -> Result<(), Violation> {
    let stage = state.step_stage(step);
    let is_active = matches!(stage, StepStage::Running | StepStage::Waiting);
    if state.active.contains(step) != is_active {
        return Err(Violation::Active(step.0));
    }
    let has_arrivals = state
        .step(step)
        .is_some_and(|known| known.waiting.is_some());
    if state.waiting.contains(step) != has_arrivals {
        return Err(Violation::Waiting(step.0));
    }
    let is_known = state
        .step(step)
        .is_some_and(|known| known.passes > 0 || known.is_dead);
    if state.undecided.contains(step) != (plan.reachable().contains(step) && !is_known) {
        return Err(Violation::Undecided(step.0));
    }
    let Some(run) = state.run(step) else {
        return Ok(());
    };
    let open = state
        .commands()
        .filter(|(_, command)| command.step == step)
        .count();
    if run.open as usize != open {
        return Err(Violation::OpenCommands(step.0));
    }
    let is_counted = match &run.work {
        Work::Single { .. } => true,
        Work::Loop(looping) => {
            let stats = looping.stats();
            // Commands that were withdrawn are neither open nor ended.
            let known = u64::from(stats.success) + u64::from(stats.failed) + open as u64;
            looping.next <= looping.iterations && known <= u64::from(looping.next)
        }
        Work::Cursor(cursor) => {
            let taken = open as u64 + u64::from(cursor.ended);
            taken <= u64::from(cursor.terms.chains) && open as u64 <= u64::from(cursor.next)
        }
    };
    if is_counted {
        Ok(())
    } else {
        Err(Violation::Iterations(step.0))
    }
}

/// What is also true after every decision: nothing is left undone, so the run has ended, is paused,
/// or waits for a worker or for a slot. Looks at nothing but what is open, and is cheap enough for every decision
/// of a debug build.
pub fn settled(state: &State, plan: &Plan) -> Result<(), Violation> {
    if !state.held.is_empty() && !state.is_paused() {
        return Err(Violation::Held);
    }
    match state.life_stage() {
        LifeStage::New | LifeStage::Paused => Ok(()),
        LifeStage::Ended => {
            let is_cut_short = !matches!(
                state.life,
                Life::Ended(noetl_types::ExecutionStatus::Completed)
            );
            // Steps may wait that a run does not come to which somebody calls done.
            let has_runs = state.runs().next().is_some();
            let is_clear = state.open_commands() == 0 && (is_cut_short || !has_runs);
            if is_clear {
                Ok(())
            } else {
                Err(Violation::OpenAfterEnd)
            }
        }
        LifeStage::Running | LifeStage::Failing | LifeStage::Ending => {
            let mut runs = state.runs();
            let all_wait = runs.all(|(_, run)| run.open > 0);
            let is_early = state.start_time().is_some();
            let is_waiting =
                is_early || state.runs().next().is_some() || waits_for_slot(state, plan);
            if is_waiting && all_wait {
                Ok(())
            } else {
                Err(Violation::Stuck)
            }
        }
    }
}

/// Whether the run, or a step of it, can go on once a slot is granted.
pub(crate) fn waits_for_slot(state: &State, plan: &Plan) -> bool {
    let mut waiting = state.waiting.iter();
    let shares = |step| plan.model(step).concurrency.is_some();
    !state.is_failing() && (state.wanted_slot().is_some() || waiting.any(shares))
}
