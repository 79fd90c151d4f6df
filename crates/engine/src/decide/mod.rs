//! What follows from an input: the decisions of a run.
//!
//! Pure. A decision reads the state and the plan, draws ids and the time from its [`Moment`], and
//! yields events; it performs nothing. It works on a copy of the state and applies to it every event
//! that it makes, so what it believes and what the fold of the log gives cannot differ. One file
//! for each construct of the language.

mod carry;
mod draft;
mod enter;
mod eval;
mod exit;
mod failure;
mod fence;
mod finish;
mod guard;
mod input;
mod issue;
mod joins;
mod loops;
mod lost;
mod refused;
mod report;
mod routing;
mod scope;
mod skips;
mod start;
mod steer;
mod timers;
mod writes;

use noetl_playbook::carried::Payloads;
use noetl_types::{ErrorCode, IdGenerator, Timestamp};

use crate::event::Event;
use crate::invariant;
use crate::payload::NewPayload;
use crate::plan::Plan;
use crate::state::State;
use draft::Draft;

pub use input::{
    Claim, IgnoredResult, Input, LeaseExpired, Report, ReportOutcome, Start, TaskResult,
};
pub use refused::Refused;

/// What a decision takes from outside: the time, ids, and payloads that were fetched for it.
pub struct Moment<'m> {
    /// The time of the input, and of every event that follows from it.
    pub now: Timestamp,
    /// Where ids come from.
    pub ids: &'m mut IdGenerator,
    /// Payloads at hand. One that is missing is asked for by [`Refused::NeedsPayload`].
    pub payloads: &'m dyn Payloads,
}

/// What follows from an input.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The events to append, in order; none where nothing changes.
    pub events: Vec<Event>,
    /// Payloads to store before them.
    pub payloads: Vec<NewPayload>,
    /// What the decision makes of its input.
    pub verdict: Verdict,
    /// The state after the events.
    pub next: State,
}

/// What a decision makes of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Accepted,
    /// It was known already.
    Duplicate,
    /// It came too late, and is only noted.
    Ignored(ErrorCode),
}

impl Decision {
    /// Puts the state after the events in the place of the one before; for a caller whose append
    /// went well.
    pub fn commit(self, state: &mut State) -> Vec<Event> {
        *state = self.next;
        state.settle();
        self.events
    }
}

/// Decides what follows from an input.
pub fn decide(
    state: &State,
    plan: &Plan,
    input: Input,
    moment: &mut Moment<'_>,
) -> Result<Decision, Refused> {
    let mut draft = Draft::new(state, plan, moment);
    let verdict = match input {
        Input::Start(start) => start::start(&mut draft, *start)?,
        Input::Claim(claim) => fence::claim(&mut draft, claim)?,
        Input::Report(report) => report::report(&mut draft, *report)?,
        Input::LeaseExpired(expired) => lost::expire(&mut draft, expired)?,
        Input::TimerFired(timer) => timers::fire(&mut draft, &timer)?,
        Input::Pause(steering) => steer::pause(&mut draft, steering)?,
        Input::Resume(steering) => steer::resume(&mut draft, steering)?,
        Input::Cancel(steering) => steer::cancel(&mut draft, steering)?,
        Input::Ignored(ignored) => fence::ignored(&mut draft, *ignored)?,
    };
    let decision = draft.into_decision(verdict);
    debug_assert_eq!(invariant::settled(&decision.next), Ok(()));
    Ok(decision)
}
