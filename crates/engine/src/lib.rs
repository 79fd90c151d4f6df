//! The pure core of NoETL: the fold of a log and the decisions of a run.
//!
//! Owns what an event does to a run and what follows from an input. It has no clock, no chance, no
//! environment and does no I/O: time and ids come in with the input, effects go out as data. What
//! orchestrates a run, replays it, rewinds it and explains it is the same code.
//!
//! The way of a run:
//!
//! ```
//! # use std::sync::Arc;
//! # use noetl_engine::{decide, Decision, Input, Moment, NoCaches, Plan, Start, State};
//! # use noetl_types::{CatalogId, ExecutionId, IdGenerator, MachineId, PlaybookPath, Timestamp};
//! # use noetl_types::id::HighWater;
//! # use noetl_playbook::carried::NoPayloads;
//! # use noetl_playbook::{CheckOptions, Document, check};
//! # let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n";
//! # let Some(Document::Playbook(playbook)) = check(text, &CheckOptions::default()).document else { return Ok(()) };
//! # let (now, mut ids) = (Timestamp::parse("2026-01-01T00:00:00Z")?, IdGenerator::new(MachineId::MIN, HighWater::NONE));
//! # let start = Start::new(ExecutionId::new(1)?, CatalogId::new(2)?, PlaybookPath::new("one")?);
//! let plan = Plan::new(Arc::from(playbook))?; // once for each definition
//! let mut state = State::new(&plan); // the fold of no events
//! let mut moment = Moment { now, ids: &mut ids, payloads: &NoPayloads, caches: &NoCaches };
//! let decision = decide(&state, &plan, Input::Start(Box::new(start)), &mut moment)?;
//! // Store `decision.payloads`, append `decision.events` at version `state.version()`, then:
//! let events = decision.commit(&mut state);
//! // Workers run what was issued; each report is the next input. A fold of the log is the state:
//! let mut replayed = State::new(&plan);
//! for event in &events {
//!     replayed.apply(&plan, event)?;
//! }
//! assert_eq!(replayed, state);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod cache;
mod ctx;
mod decide;
pub mod event;
pub mod invariant;
mod job;
mod loops;
mod payload;
mod plan;
pub mod replay;
mod slot;
mod state;
mod step_set;

pub use apply::{ApplyError, Misfit};
pub use cache::{
    CacheAnswer, CacheEntry, CacheHit, CacheKey, CachedResult, Caches, NoCaches, NotAResult, Origin,
};
pub use decide::{
    Approve, Beside, Called, ChildEnd, ChildEnded, Claim, Decided, Decision, Errand, Finalize,
    IgnoredResult, Input, Late, LeaseExpired, LookBack, MAX_CHILD_DEPTH, MAX_SIGNAL_BYTES, Moment,
    Refused, Remark, Report, ReportOutcome, Signal, Start, TaskResult, Told, Verdict, decide,
    wanted_slots,
};
pub use event::{DecodeError, Event, EventKind, ExecutionHeader, decode, encode};
pub use job::job;
pub use loops::Items;
pub use payload::{Data, INLINE_MAX, NewPayload, NotAReference, Reference};
pub use plan::{ArcPlan, Defaults, LoopPlan, MAX_IN_FLIGHT, Plan, PlanError, StepPlan};
pub use slot::{RunSlot, Slot, SlotChange, SlotGrant, SlotHolder, SlotWant};
pub use state::{
    Act, Arrival, CallResult, Command, CommandPhase, CommandStage, CursorState, FOLD_VERSION,
    FrameEnd, KeptSignal, Latest, LeadEvent, Left, LifeStage, LoopState, MAX_KEPT_SIGNALS,
    OpenTimer, OpenWait, Outcome, Output, Parked, RelayState, Retries, Run, SnapshotError, State,
    StepStage, StepState, StepStatus, TakenSignal, Timer, WaitKind, Waiting, Work,
};
pub use step_set::StepSet;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server hands plans and states from thread to thread.
    #[test]
    fn what_a_server_keeps_can_be_shared() {
        fn shared<T: Send + Sync>() {}
        shared::<Plan>();
        shared::<State>();
        shared::<Decision>();
        shared::<Input>();
    }
}
