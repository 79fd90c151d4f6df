//! Appends, the only way to write events.

use noetl_types::{
    CommandId, ExecutionId, ExecutionVersion, FeedPosition, NewEvent, TenantId, Timestamp,
};

use super::cache::CachePut;
use super::command::{CommandChange, Fence};
use super::dedup::{AnsweredRequest, DedupReservation, IdempotencyRecord};
use super::execution::{ExecutionFacts, ExecutionView};
use super::follow_up::FollowUpChange;
use super::head::LogHead;
use super::result::{MAX_APPEND_RESULT_BYTES, NewResult};
use super::slot::SlotChange;
use super::timer::TimerChange;
use super::wait::WaitChange;
use crate::error::StoreError;

/// Maximum number of events per append.
pub const MAX_APPEND_EVENTS: usize = 10_000;

/// Maximum number of appends per call.
pub const MAX_APPEND_ITEMS: usize = 1_000;

/// Events of one execution and their effects, written atomically.
///
/// The store makes no decisions. The caller has already folded the events, and passes the resulting
/// state of the execution, the new and changed commands, the open timers and waits, the follow-ups,
/// and the results that others may reuse.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendRequest {
    pub execution_id: ExecutionId,
    /// Required head of the log. [`LogHead::START`] for a new execution.
    pub expected_head: LogHead,
    pub now: Timestamp,
    /// Events in order, at least one.
    pub events: Vec<NewEvent>,
    /// True if ids or bodies came from a client, so that the digest of each envelope is stored.
    pub keep_checksums: bool,
    /// True if the events were projected from another system. Such events may follow the end of the
    /// execution, regardless of their types.
    pub is_projected: bool,
    /// True if each event gets an outbox row.
    pub use_outbox: bool,
    /// Fixed attributes of the execution. Present only in its first append.
    pub start: Option<ExecutionFacts>,
    /// State of the execution after the events.
    pub view: ExecutionView,
    /// Conditions on leases that must be satisfied.
    pub fences: Vec<Fence>,
    /// New and changed commands, each at most once.
    pub commands: Vec<CommandChange>,
    /// Timers that are armed or disarmed, each at most once.
    pub timers: Vec<TimerChange>,
    /// Results that the events refer to, each at most once, with a total size of at most
    /// [`MAX_APPEND_RESULT_BYTES`].
    pub results: Vec<NewResult>,
    /// Waits that open or close, each at most once.
    pub waits: Vec<WaitChange>,
    /// Follow-ups that are added or completed, each at most once.
    pub follow_ups: Vec<FollowUpChange>,
    /// Slots that are requested, confirmed or released, each at most once.
    pub slots: Vec<SlotChange>,
    /// Results that other executions may reuse, each key at most once.
    pub cache_puts: Vec<CachePut>,
    /// The message that starts the execution. Allowed only in its first append.
    pub dedup: Option<DedupReservation>,
    /// The request that causes the append.
    pub idempotency: Option<IdempotencyRecord>,
}

/// Result of a successful append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendReceipt {
    /// New head of the log, which the next append must expect.
    pub head: LogHead,
    /// Feed position of the last event.
    pub feed: FeedPosition,
}

/// Reason why an append wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The log has another head, or another append is writing it. The caller must load the tail and
    /// decide again.
    #[error("the log is at version {actual}, or is being written")]
    Conflict {
        /// The version that the store read. The log may be newer.
        actual: ExecutionVersion,
    },
    /// A fence is not satisfied.
    #[error("the lease of command {command_id} does not match")]
    Fenced {
        /// First command whose fence is not satisfied.
        command_id: CommandId,
    },
    #[error("the execution does not exist")]
    NotFound,
    /// Retention has dropped the id range that contains the execution.
    #[error("the execution was dropped by retention")]
    Dropped,
    #[error("the execution already exists")]
    AlreadyExists,
    /// The execution has ended, and some events are not audit events.
    #[error("the execution has ended")]
    Terminal,
    /// The message was delivered before, within its dedup window.
    #[error("the message has already started execution {execution_id}")]
    Duplicate { execution_id: ExecutionId },
    /// Another message was delivered with the same key, within its dedup window.
    #[error("another message with the same key has already started execution {execution_id}")]
    DedupMismatch {
        /// The execution that the other message started.
        execution_id: ExecutionId,
    },
    /// The request took effect before.
    #[error("the request was already answered")]
    AlreadyAnswered(Box<AnsweredRequest>),
    /// Another request with the same key took effect.
    #[error("another request was sent with the same key")]
    IdempotencyMismatch,
    /// An event, a command or a result with the same id exists.
    #[error("an event, a command or a result with that id already exists")]
    IdTaken,
    /// The append is inconsistent, which is a bug of the caller.
    #[error("the append is not valid: {0}")]
    Invalid(#[from] InvalidAppend),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Inconsistency in an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAppend {
    #[error("it has no events")]
    NoEvents,
    #[error("it has more than {MAX_APPEND_EVENTS} events")]
    TooManyEvents,
    #[error("there are more than {MAX_APPEND_ITEMS} appends in one call")]
    TooManyItems,
    #[error("an event belongs to another execution")]
    ForeignEvent,
    /// A first append that expects events, or a later one that creates the execution.
    #[error("only the first append of an execution creates it")]
    Start,
    #[error("it changes a command twice")]
    CommandTwice,
    /// A new command without its `command.issued` event.
    #[error("it issues a command without an event of the same id")]
    NoIssuedEvent,
    #[error("it changes a timer twice")]
    TimerTwice,
    #[error("it fences a command twice")]
    FenceTwice,
    #[error("it has a result twice")]
    ResultTwice,
    #[error("its results have more than {MAX_APPEND_RESULT_BYTES} bytes")]
    ResultsTooLarge,
    /// Two changes of the same wait.
    #[error("it changes a wait twice")]
    WaitTwice,
    /// A wait without names.
    #[error("it opens a wait without names")]
    WaitForNothing,
    #[error("it changes a follow-up twice")]
    FollowUpTwice,
    #[error("it changes a slot twice")]
    SlotTwice,
    /// Two cached results with the same key.
    #[error("it caches two results under one key")]
    CacheTwice,
    /// A dedup reservation in an append that does not start the execution.
    #[error("only the first append of an execution may have a dedup key")]
    DedupWithoutStart,
}

impl AppendRequest {
    /// Returns the tenant of the execution, which every event names.
    pub(crate) fn tenant_id(&self) -> TenantId {
        let first = self.events.first();
        first.map_or_else(TenantId::default, |event| event.tenant_id.clone())
    }
}
