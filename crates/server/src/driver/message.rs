//! Messages to an execution, and their replies.

use std::sync::{Arc, Mutex, PoisonError};

use noetl_api::command::LeasedCommand;
use noetl_engine::event::{Event, EventKind};
use noetl_engine::{
    ClassicReport, EngineInput, EventData, IgnoredResult, InputVerdict, SlotRequest, StaleReason,
};
use noetl_messaging::Poller;
use noetl_store::{AnsweredRequest, DedupReservation, Fence, IdempotencyRecord, StoreError};
use noetl_types::{CommandId, ErrorCode, ExecutionId, ExecutionStatus, ExecutionVersion, Text};
use tokio::sync::oneshot;

use crate::access::AuthContext;
use crate::error::{Result, RuntimeError};

/// Maximum messages for which the state before them is kept.
pub(super) const MAX_SMALL_BATCH: usize = 8;

/// An input to an execution, with the channel for its reply.
pub(crate) struct Message {
    pub(super) input: EngineInput,
    /// Lease that must still be held for the input to count.
    pub(super) fence: Option<Fence>,
    /// Poll request of the sender, which can take new commands.
    pub(super) poll_request: Option<Arc<PollRequest>>,
    /// Keys that must be unused for the input to count.
    pub(super) reserved_keys: ReservedKeys,
    /// True if the sender cancels the children that are no longer awaited.
    pub(super) cancels_children: bool,
    /// Caller to authorize against the execution's tenant and pool. `None` for internal senders.
    pub(super) auth_context: Option<AuthContext>,
    /// True if an append of it together with others was rejected because of one of their event ids.
    pub(super) needs_own_append: bool,
    /// Error of an append of it that may have been written nevertheless.
    unknown_outcome: Option<StoreError>,
    pub(super) reply: oneshot::Sender<Result<MessageReply>>,
}

/// Keys that an input reserves: it counts only if it is the first to use them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReservedKeys {
    /// Dedup key of the message that starts an execution.
    pub(crate) dedup: Option<DedupReservation>,
    /// Idempotency key of the request.
    pub(crate) idempotency: Option<IdempotencyRecord>,
}

/// Earlier effect that was found instead of applying an input.
#[derive(Debug, Clone)]
pub(crate) enum EarlierEffect {
    /// The message has already started this execution.
    Duplicate(ExecutionId),
    /// The request has already been answered.
    Replay(Box<AnsweredRequest>),
}

/// Durable result of a message.
#[derive(Debug, Default)]
pub(crate) struct MessageReply {
    /// Earlier effect, if the input was not applied.
    pub(crate) earlier: Option<EarlierEffect>,
    /// Verdict of the engine.
    pub(crate) verdict: Option<InputVerdict>,
    /// Log version after it.
    pub(crate) version: ExecutionVersion,
    /// Number of commands issued.
    pub(crate) issued: u32,
    /// Issued commands that are leased to the sender.
    pub(crate) leased: Vec<LeasedCommand>,
    /// Outcome, if the execution has ended.
    pub(crate) outcome: Option<ExecutionOutcome>,
    /// Slots that the execution requests, if nothing was written that records them.
    pub(crate) slot_requests: Vec<SlotRequest>,
    /// Children that are no longer awaited, for the sender to cancel.
    pub(crate) children: Vec<ExecutionId>,
}

/// Capacity of a reporting worker for new commands.
pub(crate) struct PollRequest {
    pub(crate) pool: noetl_types::PoolName,
    pub(crate) poller: Poller,
    permits: Mutex<usize>,
}

impl PollRequest {
    pub(crate) fn new(pool: noetl_types::PoolName, poller: Poller) -> Self {
        Self { pool, permits: Mutex::new(poller.max), poller }
    }

    /// Takes one permit. Returns false if none is left.
    pub(super) fn try_take_permit(&self) -> bool {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let has_permit = *permits > 0;
        *permits = permits.saturating_sub(1);
        has_permit
    }

    /// Returns a permit.
    pub(super) fn return_permit(&self) {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        *permits += 1;
    }

    /// Number of permits left.
    pub(crate) fn permits(&self) -> usize {
        *self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Message {
    /// Creates a message and the receiver of its reply.
    pub(crate) fn new(input: EngineInput) -> (Self, oneshot::Receiver<Result<MessageReply>>) {
        let (reply, receiver) = oneshot::channel();
        let message = Self {
            input,
            fence: None,
            poll_request: None,
            reserved_keys: ReservedKeys::default(),
            cancels_children: false,
            auth_context: None,
            needs_own_append: false,
            unknown_outcome: None,
            reply,
        };
        (message, receiver)
    }

    /// Requires a lease to match the fence.
    pub(crate) fn with_fence(self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self }
    }

    /// Authorizes the message as the given caller.
    pub(crate) fn with_auth_context(self, auth_context: AuthContext) -> Self {
        Self { auth_context: Some(auth_context), ..self }
    }

    /// Reserves keys: the message counts only if it is the first to use them.
    pub(crate) fn with_reserved_keys(self, reserved_keys: ReservedKeys) -> Self {
        Self { reserved_keys, ..self }
    }

    /// Declares that the sender cancels the children that are no longer awaited, and returns these
    /// in the reply. They are also recorded as follow-ups, in case the sender fails.
    pub(crate) fn cancelling_children(self) -> Self {
        Self { cancels_children: true, ..self }
    }

    /// Adds the poll request of the sender.
    pub(crate) fn with_poll_request(self, poll_request: Option<Arc<PollRequest>>) -> Self {
        Self { poll_request, ..self }
    }

    fn is_fenced_by(&self, command: CommandId) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.command_id == command)
    }

    /// True if it contains an event whose id its sender chose.
    fn has_sender_event_id(&self) -> bool {
        matches!(self.input, EngineInput::ClassicReport(_) | EngineInput::AuditOnly(_))
    }

    /// True if it needs a separate append. A start comes first anyway.
    fn needs_separate_append(&self) -> bool {
        self.needs_own_append
            || self.reserved_keys.idempotency.is_some()
                && !matches!(self.input, EngineInput::Start(_))
    }

    /// Returns what remains once the fence does not match: a report is recorded as late, and a
    /// lease that did not expire after all needs no message.
    fn without_fence(self) -> Option<Self> {
        let code = ErrorCode::NotLeaseHolder;
        let input = match self.input {
            EngineInput::Report(report) => {
                EngineInput::IgnoredResult(Box::new(IgnoredResult::from_report(&report, code)))
            }
            EngineInput::ClassicReport(report) => {
                EngineInput::ClassicReport(Box::new(ClassicReport {
                    retry: None,
                    stale: Some(StaleReason::Superseded(code)),
                    ..*report
                }))
            }
            _ => {
                let duplicate = MessageReply {
                    verdict: Some(InputVerdict::Duplicate),
                    ..MessageReply::default()
                };
                // The receiver may be gone.
                drop(self.reply.send(Ok(duplicate)));
                return None;
            }
        };
        Some(Self { input, fence: None, reserved_keys: ReservedKeys::default(), ..self })
    }
}

/// Messages that are decided in sequence and written in one append: either everything that follows
/// from them, or nothing. Most batches hold one message. None is empty.
pub(crate) struct MessageBatch(Vec<Message>);

impl From<Message> for MessageBatch {
    fn from(message: Message) -> Self {
        Self(vec![message])
    }
}

impl MessageBatch {
    /// Returns a batch, or `None` if there are no messages.
    pub(crate) fn from_messages(messages: Vec<Message>) -> Option<Self> {
        (!messages.is_empty()).then_some(Self(messages))
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.0
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        self.0
    }

    /// True if it holds so many messages that no state is kept for each of them.
    pub(super) fn is_large(&self) -> bool {
        self.0.len() > MAX_SMALL_BATCH
    }

    /// True if it needs a separate append.
    pub(super) fn needs_separate_append(&self) -> bool {
        self.is_large() || self.0.iter().any(Message::needs_separate_append)
    }

    /// True if it contains an event whose id its sender chose.
    pub(super) fn has_sender_event_id(&self) -> bool {
        self.0.iter().any(Message::has_sender_event_id)
    }

    /// Marks the messages, so that the batch is appended separately.
    pub(super) fn isolate(mut self) -> Self {
        for message in &mut self.0 {
            message.needs_own_append = true;
        }
        self
    }

    /// Records the error of an append that may have been written nevertheless.
    pub(super) fn with_unknown_outcome(mut self, error: &StoreError) -> Self {
        for message in &mut self.0 {
            message.unknown_outcome.get_or_insert_with(|| error.clone());
        }
        self
    }

    /// Returns what remains once the fence of a command does not match.
    pub(super) fn without_fence(self, command: CommandId) -> Option<Self> {
        let remaining = self.0.into_iter().filter_map(|message| {
            if message.is_fenced_by(command) { message.without_fence() } else { Some(message) }
        });
        Self::from_messages(remaining.collect())
    }

    /// Rejects the messages for a reason that the log confirms.
    pub(super) fn reject_all(self, error: RuntimeError) {
        let problem = error.into_problem();
        for message in self.0 {
            // The receiver may be gone.
            drop(message.reply.send(Err(problem.clone().into())));
        }
    }

    /// Fails the messages. If an earlier append of them may have been written, that error is
    /// reported instead, since the outcome is unknown.
    pub(super) fn fail_all(self, error: RuntimeError) {
        let unknown_outcome = self.0.iter().find_map(|message| message.unknown_outcome.clone());
        self.reject_all(unknown_outcome.map_or(error, RuntimeError::from));
    }
}

/// The final status of an execution, with its result or error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionOutcome {
    pub(crate) status: ExecutionStatus,
    /// Result, which may be stored outside of the event.
    pub(crate) result: Option<EventData>,
    /// Reason of a failure or cancellation.
    pub(crate) error: Option<Text>,
}

impl ExecutionOutcome {
    /// Returns the outcome that a terminal event records.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let with_status = |status| Self { status, result: None, error: None };
        match &event.kind {
            EventKind::PlaybookCompleted { result } => {
                Some(Self { result: result.clone(), ..with_status(ExecutionStatus::Completed) })
            }
            EventKind::PlaybookFailed(failed) => Some(Self {
                error: Some(failed.error.message.clone()),
                ..with_status(ExecutionStatus::Failed)
            }),
            EventKind::PlaybookCancelled(control) => Some(Self {
                error: control.reason.clone(),
                ..with_status(ExecutionStatus::Cancelled)
            }),
            _ => None,
        }
    }
}
