//! What follows from an input: the decisions of a run.
//!
//! Pure. A decision reads the state and the plan, draws ids and the time from its [`Moment`], and
//! yields events; it performs nothing. It works on a copy of the state and applies to it every event
//! that it makes, so what it believes and what the fold of the log gives cannot differ. One file
//! for each construct of the language.

mod cache;
mod carry;
mod cursor;
mod draft;
mod enter;
mod errand;
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
mod nearest;
mod parking;
mod refused;
mod report;
mod routing;
mod scope;
mod segments;
mod skips;
mod slots;
mod start;
mod steer;
mod timers;
mod told;
mod writes;

use std::collections::BTreeMap;

use noetl_playbook::carried::Payloads;
use noetl_types::{ErrorCode, EventId, IdGenerator, Json, JsonMap, NewEvent, Timestamp};

use crate::cache::{CacheEntry, Caches};
use crate::event::Event;
use crate::invariant;
use crate::payload::NewPayload;
use crate::plan::Plan;
use crate::slot::{SlotChange, SlotWant};
use crate::state::State;
use draft::Draft;

pub use errand::{Errand, LookBack};
pub use input::{
    Approve, Called, ChildEnd, ChildEnded, Claim, Decided, Finalize, IgnoredResult, Input, Late,
    LeaseExpired, Remark, Report, ReportOutcome, Signal, Start, TaskResult, Told,
};
pub use parking::{MAX_CHILD_DEPTH, MAX_SIGNAL_BYTES};
pub use refused::Refused;

/// What a decision takes from outside: the time, ids, and payloads that were fetched for it.
pub struct Moment<'m> {
    /// The time of the input, and of every event that follows from it.
    pub now: Timestamp,
    /// Where ids come from.
    pub ids: &'m mut IdGenerator,
    /// Payloads at hand. One that is missing is asked for by [`Refused::NeedsPayload`].
    pub payloads: &'m dyn Payloads,
    /// Results that steps may take over, as far as somebody looked for them. One that nobody has
    /// looked for is asked for by [`Refused::NeedsCache`].
    pub caches: &'m dyn Caches,
}

/// What follows from an input.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The events to append, in order; none where nothing changes.
    pub events: Vec<Event>,
    /// Payloads to store before them.
    pub payloads: Vec<NewPayload>,
    /// Slots that are wanted, and slots that are free again.
    pub slots: Vec<SlotChange>,
    /// Results to keep for steps that will ask for them.
    pub cached: Vec<CacheEntry>,
    /// What the server owes since these events: to be written down with them.
    pub errands: Vec<Errand>,
    /// What is stored beside some of the events.
    pub beside: BTreeMap<EventId, Beside>,
    /// What the decision makes of its input.
    pub verdict: Verdict,
    /// The state after the events.
    pub next: State,
}

/// What is stored with an event and shapes nothing, so that the fold never sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// Fields of its `meta`, such as who steered.
    Meta(JsonMap),
    /// All of it: the event is not the engine's.
    Record(Box<NewEvent>),
}

impl Beside {
    /// The record of an event with what is beside it.
    #[must_use]
    pub fn on(&self, record: NewEvent) -> NewEvent {
        match self {
            Self::Meta(fields) => {
                let known = record.meta.as_ref().and_then(Json::as_map);
                let mut meta = known.cloned().unwrap_or_default();
                let fields = fields.iter();
                meta.extend(fields.map(|(key, field)| (key.clone(), field.clone())));
                NewEvent {
                    meta: Some(Json::from(meta)),
                    ..record
                }
            }
            Self::Record(told) => NewEvent {
                tenant_id: record.tenant_id,
                organization_id: record.organization_id,
                catalog_id: record.catalog_id,
                ..NewEvent::clone(told)
            },
        }
    }
}

/// What a decision makes of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Accepted,
    /// It counts, and waits until somebody asks for it.
    Kept,
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
    let wished = slots::wished(state, plan, moment);
    let mut draft = Draft::new(state, plan, moment);
    draft.wished = wished;
    let verdict = match input {
        Input::Start(start) => start::start(&mut draft, *start)?,
        Input::Claim(claim) => fence::claim(&mut draft, claim)?,
        Input::Report(report) => report::report(&mut draft, *report)?,
        Input::LeaseExpired(expired) => lost::expire(&mut draft, expired)?,
        Input::TimerFired(timer) => timers::fire(&mut draft, &timer)?,
        Input::Signal(signal) => parking::signal(&mut draft, *signal)?,
        Input::Approve(approve) => parking::approve(&mut draft, &approve)?,
        Input::ChildEnded(ended) => parking::child_ended(&mut draft, *ended)?,
        Input::Callback(called) => parking::called(&mut draft, *called)?,
        Input::Pause(steering) => steer::pause(&mut draft, steering)?,
        Input::Resume(steering) => steer::resume(&mut draft, steering)?,
        Input::Cancel(steering) => steer::cancel(&mut draft, steering)?,
        Input::CancelAlone(steering) => steer::cancel_alone(&mut draft, steering)?,
        Input::SlotGranted(grant) => slots::granted(&mut draft, grant)?,
        Input::SlotsAsked => slots::asked(&mut draft)?,
        Input::Finalize(finalize) => steer::finalize(&mut draft, *finalize)?,
        Input::Told(told) => told::told(&mut draft, *told)?,
        Input::Remark(remark) => told::remark(&mut draft, *remark)?,
        Input::Ignored(ignored) => fence::ignored(&mut draft, *ignored)?,
    };
    let decision = draft.into_decision(verdict);
    debug_assert_eq!(invariant::settled(&decision.next, plan), Ok(()));
    Ok(decision)
}

/// The slots that a run waits for now: what a person is told who asks why nothing happens.
pub fn wanted_slots(
    state: &State,
    plan: &Plan,
    moment: &mut Moment<'_>,
) -> Result<Vec<SlotWant>, Refused> {
    let mut draft = Draft::new(state, plan, moment);
    joins::enter_ready(&mut draft)?;
    Ok(draft.into_wants())
}
