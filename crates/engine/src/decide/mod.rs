//! Decisions: the events that follow from an input.
//!
//! Pure. A decision reads the state and the plan, takes ids and the time from its
//! [`DecisionContext`], and yields events. It performs nothing. It works on a copy of the state and
//! applies every event that it makes to the copy, so its view cannot differ from the fold of the
//! log. One file per construct of the language.

mod cache;
mod classic;
mod command_context;
mod control;
mod cursor;
mod draft;
mod enter;
mod environment;
mod error;
mod exit;
mod failure;
mod fence;
mod finish;
mod follow_up;
mod input;
mod issue;
mod joins;
mod lease_expiry;
mod loops;
mod rendering;
mod report;
mod routing;
mod segments;
mod slots;
mod start;
mod suspension;
mod timers;
mod writes;

use std::collections::BTreeMap;

use noetl_playbook::command_context::PayloadLookup;
use noetl_types::id::{ClockError, Snowflake};
use noetl_types::{ErrorCode, EventId, IdGenerator, Json, JsonMap, NewEvent, Timestamp};

use crate::cache::{CacheEntry, CacheLookup};
use crate::event::Event;
use crate::invariant;
use crate::payload::NewPayload;
use crate::plan::Plan;
use crate::slot::{SlotChange, SlotRequest};
use crate::state::ExecutionState;
use draft::Draft;

pub use error::DecisionError;
pub use follow_up::{BroadcastLookback, FollowUp};
pub use input::{
    ApprovalChoice, ApprovalDecision, AuditOnlyEvent, CallbackResult, CancelInput, ChildEnded,
    ChildOutcome, ClassicReport, CommandClaim, EngineInput, FinalizeInput, IgnoredResult,
    IncomingSignal, LeaseExpired, ReportOutcome, StaleReason, StartInput, TaskResult, WorkerReport,
};
pub use suspension::{MAX_CHILD_DEPTH, MAX_SIGNAL_BYTES, check_signal_payload};

/// Source of the ids of a decision. A decision may take long, so several decisions can share a
/// generator that is locked for each id only.
pub trait IdSource {
    /// Returns the next id.
    fn next_number(&mut self, now_unix_ms: i64) -> Result<Snowflake, ClockError>;
}

impl IdSource for IdGenerator {
    fn next_number(&mut self, now_unix_ms: i64) -> Result<Snowflake, ClockError> {
        self.next(now_unix_ms)
    }
}

/// Result of a part of a decision.
pub(crate) type Result<T, E = DecisionError> = std::result::Result<T, E>;

/// External inputs of a decision: the time, ids, and payloads that were fetched for it.
pub struct DecisionContext<'m> {
    /// Time of the input, and of every event that follows from it.
    pub now: Timestamp,
    /// Source of ids.
    pub ids: &'m mut dyn IdSource,
    /// Available payloads. A missing one is requested with [`DecisionError::NeedsPayload`].
    pub payloads: &'m dyn PayloadLookup,
    /// Cached results that were looked up. A missing lookup is requested with
    /// [`DecisionError::NeedsCache`].
    pub caches: &'m dyn CacheLookup,
}

/// Result of a decision.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Events to append, in order. Empty if nothing changes.
    pub events: Vec<Event>,
    /// Payloads to store before the events.
    pub payloads: Vec<NewPayload>,
    /// Slot requests and releases.
    pub slots: Vec<SlotChange>,
    /// Cache entries to store.
    pub cache_entries: Vec<CacheEntry>,
    /// Follow-ups for the server, to be stored with the events.
    pub follow_ups: Vec<FollowUp>,
    /// Extra stored fields of some of the events.
    pub extras: BTreeMap<EventId, EventExtras>,
    /// Verdict on the input.
    pub verdict: InputVerdict,
    /// State after the events.
    pub next: ExecutionState,
}

/// Fields that are stored with an event but not read by the fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventExtras {
    /// Fields of its `meta`, such as the actor.
    Meta(JsonMap),
    /// The whole record, because the engine did not make the event.
    Record(Box<NewEvent>),
}

impl EventExtras {
    /// Adds the extra fields to the record of an event.
    #[must_use]
    pub fn apply_to(&self, record: NewEvent) -> NewEvent {
        match self {
            Self::Meta(fields) => {
                let existing = record.meta.as_ref().and_then(Json::as_map);
                let mut meta = existing.cloned().unwrap_or_default();
                let fields = fields.iter();
                meta.extend(fields.map(|(key, field)| (key.clone(), field.clone())));
                NewEvent { meta: Some(Json::from(meta)), ..record }
            }
            Self::Record(stored) => NewEvent {
                tenant_id: record.tenant_id,
                organization_id: record.organization_id,
                catalog_id: record.catalog_id,
                ..NewEvent::clone(stored)
            },
        }
    }
}

/// Verdict of a decision on its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputVerdict {
    /// The input was accepted.
    Accepted,
    /// The input was accepted and buffered until a task asks for it.
    Buffered,
    /// The input was already processed.
    Duplicate,
    /// The input is stale. It is recorded without effect.
    Ignored(ErrorCode),
}

impl Decision {
    /// Replaces the state with the state after the events. Call it after a successful append.
    pub fn commit_to(self, state: &mut ExecutionState) -> Vec<Event> {
        *state = self.next;
        state.settle();
        self.events
    }
}

/// Decides which events follow from an input.
pub fn decide(
    state: &ExecutionState,
    plan: &Plan,
    input: EngineInput,
    context: &mut DecisionContext<'_>,
) -> Result<Decision> {
    let previous_requests = slots::previous_requests(state, plan, context);
    let mut draft = Draft::new(state, plan, context);
    draft.previous_slot_requests = previous_requests;
    let verdict = match input {
        EngineInput::Start(start) => start::start_execution(&mut draft, *start)?,
        EngineInput::Claim(claim) => fence::claim_command(&mut draft, claim)?,
        EngineInput::Report(report) => report::accept_report(&mut draft, *report)?,
        EngineInput::LeaseExpired(expired) => lease_expiry::expire_lease(&mut draft, expired)?,
        EngineInput::TimerFired(timer) => timers::fire_timer(&mut draft, &timer)?,
        EngineInput::Signal(signal) => suspension::accept_signal(&mut draft, *signal)?,
        EngineInput::Approve(approve) => suspension::accept_approval(&mut draft, &approve)?,
        EngineInput::ChildEnded(ended) => suspension::accept_child_end(&mut draft, *ended)?,
        EngineInput::Callback(callback) => suspension::accept_callback(&mut draft, *callback)?,
        EngineInput::Pause(control) => control::pause_execution(&mut draft, control)?,
        EngineInput::Resume(control) => control::resume_execution(&mut draft, control)?,
        EngineInput::Cancel(cancel) => control::cancel_execution(&mut draft, cancel)?,
        EngineInput::SlotGranted(grant) => slots::accept_grant(&mut draft, grant)?,
        EngineInput::RefreshSlotRequests => slots::refresh_requests(&mut draft)?,
        EngineInput::Finalize(finalize) => control::finalize_execution(&mut draft, *finalize)?,
        EngineInput::ClassicReport(event) => classic::accept_classic_report(&mut draft, *event)?,
        EngineInput::AuditOnly(event) => classic::record_audit_event(&mut draft, *event)?,
        EngineInput::IgnoredResult(ignored) => fence::record_ignored_result(&mut draft, *ignored)?,
    };
    let decision = draft.into_decision(verdict);
    debug_assert_eq!(invariant::check_settled(&decision.next, plan), Ok(()));
    Ok(decision)
}

/// Returns the slots that an execution waits for now, to explain why it does not advance.
pub fn requested_slots(
    state: &ExecutionState,
    plan: &Plan,
    context: &mut DecisionContext<'_>,
) -> Result<Vec<SlotRequest>> {
    let mut draft = Draft::new(state, plan, context);
    joins::enter_ready(&mut draft)?;
    Ok(draft.into_slot_requests())
}
