//! The pure core of NoETL: folds the log of an execution and makes its decisions.
//!
//! Owns the effect of an event on an execution and the events that follow from an input. It has no
//! clock, no randomness, no access to the environment and no I/O: time and ids are part of the
//! input, and effects are returned as data. The same code runs an execution, replays it, rewinds it
//! and explains it.
//!
//! The life cycle of an execution:
//!
//! ```
//! # use std::sync::Arc;
//! # use noetl_engine::{decide, Decision, DecisionContext, EmptyCache, EngineInput, ExecutionState, Plan, StartInput};
//! # use noetl_types::{CatalogId, ExecutionId, IdGenerator, MachineId, PlaybookPath, Timestamp};
//! # use noetl_types::id::HighWaterMark;
//! # use noetl_playbook::command_context::EmptyPayloads;
//! # use noetl_playbook::{CheckOptions, Document, check};
//! # let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n";
//! # let Some(Document::Playbook(playbook)) = check(text, &CheckOptions::default()).document else { return Ok(()) };
//! # let (now, mut ids) = (Timestamp::parse("2026-01-01T00:00:00Z")?, IdGenerator::new(MachineId::MIN, HighWaterMark::NONE));
//! # let start = StartInput::new(ExecutionId::new(1)?, CatalogId::new(2)?, PlaybookPath::new("one")?);
//! let plan = Plan::new(Arc::from(playbook))?; // once for each definition
//! let mut state = ExecutionState::new(&plan); // the fold of no events
//! let mut context =
//!     DecisionContext { now, ids: &mut ids, payloads: &EmptyPayloads, caches: &EmptyCache };
//! let decision = decide(&state, &plan, EngineInput::Start(Box::new(start)), &mut context)?;
//! // Store `decision.payloads`, append `decision.events` at version `state.version()`, then:
//! let events = decision.commit_to(&mut state);
//! // Workers run the issued commands, and each report is the next input. Folding the log yields
//! // the same state:
//! let mut replayed = ExecutionState::new(&plan);
//! for event in &events {
//!     replayed.apply(&plan, event)?;
//! }
//! assert_eq!(replayed, state);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

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

pub use apply::{ApplyError, ApplyErrorKind};
pub use cache::{
    CacheEntry, CacheHit, CacheKey, CacheLookup, CacheLookupResult, CachedResult, EmptyCache,
    InvalidCachedResult, ResultOrigin,
};
pub use decide::{
    ApprovalChoice, ApprovalDecision, AuditOnlyEvent, BroadcastLookback, CallbackResult,
    CancelInput, ChildEnded, ChildOutcome, ClassicReport, CommandClaim, Decision, DecisionContext,
    DecisionError, EngineInput, EventExtras, FinalizeInput, FollowUp, IdSource, IgnoredResult,
    IncomingSignal, InputVerdict, LeaseExpired, MAX_CHILD_DEPTH, MAX_SIGNAL_BYTES, ReportOutcome,
    StaleReason, StartInput, TaskResult, WorkerReport, check_signal_payload, decide,
    requested_slots,
};
pub use event::{DecodeError, Event, EventKind, ExecutionHeader, decode_record, encode_event};
pub use job::job_variable;
pub use loops::LoopItems;
pub use payload::{EventData, InvalidReference, MAX_INLINE_SIZE, NewPayload, Reference};
pub use plan::{ArcPlan, LoopPlan, MAX_LOOP_IN_FLIGHT, Plan, PlanDefaults, PlanError, StepPlan};
pub use slot::{ExecutionSlot, Slot, SlotChange, SlotGrant, SlotHolder, SlotRequest};
pub use state::{
    Arrival, BufferedSignal, CallResult, Command, CommandOutcome, CommandPhase, CommandStage,
    CursorState, DeliveredSignal, ExecutionStage, ExecutionState, FOLD_VERSION, FrameEnd, LastPass,
    LoopState, MAX_BUFFERED_SIGNAL_BYTES, MAX_BUFFERED_SIGNALS, OpenCommandTimer, OpenWait,
    PendingArrivals, PendingTimer, ReportedRetries, RetainedOutput, SnapshotError,
    SplitPipelineState, StepOutput, StepPass, StepStage, StepState, StepStatus, StepWork,
    SuspendedTask, TransitionKind, TriggerEvent, WaitKind,
};
pub use step_set::StepSet;

#[cfg(test)]
mod tests;
