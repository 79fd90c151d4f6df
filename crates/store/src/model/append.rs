//! The one way in which events are written.

use noetl_types::{CommandId, ExecutionId, FeedPosition, NewEvent, TenantId, Timestamp, Version};

use super::cache::CachePut;
use super::claim::{Answered, DedupClaim, IdempotencyClaim};
use super::command::{CommandChange, Fence};
use super::errand::ErrandChange;
use super::execution::{ExecutionFacts, ExecutionView};
use super::head::Head;
use super::result::{MAX_APPEND_RESULT_BYTES, NewResult};
use super::slot::SlotChange;
use super::timer::TimerChange;
use super::wait::WaitChange;
use crate::error::StoreError;

/// Events that one append may carry.
pub const MAX_APPEND_EVENTS: usize = 10_000;

/// Appends that one call may carry.
pub const MAX_APPEND_ITEMS: usize = 1_000;

/// Events of one execution and all that follows from them: written together, or not at all.
///
/// The store decides nothing. Whoever appends has folded the events already and says what the
/// execution looks like afterwards, which commands are new or changed, which timers and waits are
/// open, what is owed to others and what others may take over.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Where its log must stand; [`Head::START`] for a new one.
    pub expected: Head,
    /// The server's clock.
    pub now: Timestamp,
    /// The events, in order; at least one.
    pub events: Vec<NewEvent>,
    /// Whether id or body came from a client, so that the digest of the envelope is kept.
    pub keep_checksums: bool,
    /// Whether the events were written elsewhere and are copied: then they may follow the end of the
    /// execution, whatever they are.
    pub is_copy: bool,
    /// Whether each event gets a row of the outbox.
    pub outbox: bool,
    /// What is fixed when an execution is made; present exactly in its first append.
    pub start: Option<ExecutionFacts>,
    /// The execution as it is after the events.
    pub view: ExecutionView,
    /// Leases that must hold, or must have run out, for the append to be valid.
    pub fences: Vec<Fence>,
    /// New and changed commands; each at most once.
    pub commands: Vec<CommandChange>,
    /// Timers that open or close; each at most once.
    pub timers: Vec<TimerChange>,
    /// Results that the events refer to; each at most once, and no more than
    /// [`MAX_APPEND_RESULT_BYTES`] together.
    pub results: Vec<NewResult>,
    /// Waits that open or close; each at most once.
    pub waits: Vec<WaitChange>,
    /// What the server owes from now on, or has done; each at most once.
    pub errands: Vec<ErrandChange>,
    /// Slots that are wanted, used or given back; each at most once.
    pub slots: Vec<SlotChange>,
    /// Results that others may take over; each key at most once.
    pub cached: Vec<CachePut>,
    /// The message that makes the execution, which only its first append can have.
    pub dedup: Option<DedupClaim>,
    /// The request that the append is the effect of.
    pub idempotency: Option<IdempotencyClaim>,
}

/// What an append gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where the log stands now: what the next append expects.
    pub head: Head,
    /// The place of the last event in the feed.
    pub feed: FeedPosition,
}

/// Why an append wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefused {
    /// The log stands elsewhere, or another append has it in hand: load the tail, decide again.
    #[error("the log is at version {actual}, or is being written")]
    Conflict {
        /// The version that the store saw; not newer than the truth.
        actual: Version,
    },
    /// A lease is not what the fence says.
    #[error("the lease of command {command_id} is another one")]
    Fenced {
        /// The first command whose fence does not hold.
        command_id: CommandId,
    },
    /// There is no such execution.
    #[error("there is no such execution")]
    NotFound,
    /// Retention has dropped the range of ids that the execution lies in.
    #[error("the execution was dropped by retention")]
    Gone,
    /// The execution was made before.
    #[error("the execution exists already")]
    AlreadyExists,
    /// The execution has ended, and the events are not all audit events.
    #[error("the execution has ended")]
    Terminal,
    /// The message was delivered before, and its window is not over.
    #[error("the message has started execution {execution_id} already")]
    Duplicate {
        /// The execution that it started.
        execution_id: ExecutionId,
    },
    /// Another message was delivered under the same key, whose window is not over.
    #[error("another message under the same key has started execution {execution_id}")]
    DedupMismatch {
        /// The execution that the other one started.
        execution_id: ExecutionId,
    },
    /// The request had its effect before.
    #[error("the request was answered before")]
    Replay(Box<Answered>),
    /// Another request had its effect under the same key.
    #[error("another request was sent with the same key")]
    IdempotencyMismatch,
    /// An event, a command or a result of the same id is there already.
    #[error("an event, a command or a result of that id exists already")]
    IdTaken,
    /// The append contradicts itself: the caller is wrong.
    #[error("the append is not valid: {0}")]
    Invalid(#[from] InvalidAppend),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// In what way an append contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAppend {
    /// Nothing to append.
    #[error("it has no events")]
    NoEvents,
    /// More than [`MAX_APPEND_EVENTS`].
    #[error("it has more than {MAX_APPEND_EVENTS} events")]
    TooManyEvents,
    /// More than [`MAX_APPEND_ITEMS`] in one call.
    #[error("there are more than {MAX_APPEND_ITEMS} appends in one call")]
    TooManyItems,
    /// An event of another execution.
    #[error("an event belongs to another execution")]
    ForeignEvent,
    /// A first append that expects events, or a later one that makes the execution.
    #[error("only the first append of an execution makes it")]
    Start,
    /// Two changes of one command.
    #[error("it changes a command twice")]
    CommandTwice,
    /// A command without its `command.issued` event.
    #[error("it issues a command without an event of the same id")]
    NoIssuedEvent,
    /// Two changes of one timer.
    #[error("it changes a timer twice")]
    TimerTwice,
    /// Two fences of one command.
    #[error("it fences a command twice")]
    FenceTwice,
    /// Two results of one id.
    #[error("it has a result twice")]
    ResultTwice,
    /// Results of more than [`MAX_APPEND_RESULT_BYTES`].
    #[error("its results have more than {MAX_APPEND_RESULT_BYTES} bytes")]
    ResultsTooLarge,
    /// Two changes of the wait of one command.
    #[error("it changes a wait twice")]
    WaitTwice,
    /// A wait for nothing at all.
    #[error("it opens a wait that awaits nothing")]
    WaitForNothing,
    /// Two changes of one errand.
    #[error("it changes an errand twice")]
    ErrandTwice,
    /// Two changes of one slot.
    #[error("it changes a slot twice")]
    SlotTwice,
    /// Two results under one key.
    #[error("it leaves two results under one key")]
    CacheTwice,
    /// A message that starts no execution.
    #[error("only the first append of an execution has a message that made it")]
    DedupWithoutStart,
}

impl Append {
    /// Whose the execution is: every event says so.
    pub(crate) fn tenant_id(&self) -> TenantId {
        let first = self.events.first();
        first.map_or_else(TenantId::default, |event| event.tenant_id.clone())
    }
}
