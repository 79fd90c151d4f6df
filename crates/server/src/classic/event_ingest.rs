//! Ingests events from classic workers.
//!
//! The events of a call are written in one append, or not at all. So each event is interpreted as
//! if those before it had already been written, and everything goes into the mailbox of the
//! execution in one batch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use noetl_api::classic::{
    ClassicEventBatch, ClassicEventBatchResponse, ClassicEventRequest, ClassicEventResponse,
};
use noetl_engine::{AuditOnlyEvent, EngineInput, InputVerdict};
use noetl_types::limits::MAX_EVENT_BATCH;
use noetl_types::{
    CommandId, ErrorCode, EventId, EventType, ExecutionId, Json, NewEvent, Seq, WorkerId,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::access::CallContext;
use crate::classic::ClassicApi;
use crate::classic::event_classifier::{EventClass, EventClassifier};
use crate::classic::incoming_event::{IncomingEvent, SENT_SHA256_KEY};
use crate::driver::{Message, MessageBatch, MessageReply, wait_for_reply};
use crate::error::{Result, RuntimeError};

/// An event of a call with its id.
pub(crate) struct IdentifiedEvent<'t> {
    pub(crate) event_id: EventId,
    /// True if the sender chose the id, so that the event may already be stored.
    has_sender_id: bool,
    pub(crate) incoming: &'t IncomingEvent,
}

/// The distinct events of a call.
struct EventCall<'t> {
    execution_id: ExecutionId,
    events: Vec<IdentifiedEvent<'t>>,
    /// Index into `events` for each position of the call.
    positions: Vec<usize>,
}

/// Answers to events that are already stored.
type StoredAnswers = BTreeMap<EventId, ClassicEventResponse>;

/// Pending answer to an event of a call.
enum PendingAnswer {
    /// It adds nothing to the log and gets this answer.
    Answered(ClassicEventResponse),
    /// The reply of the execution decides; and the claim that ends with it.
    Waiting(EventId, oneshot::Receiver<Result<MessageReply>>, Option<(WorkerId, CommandId)>),
}

/// Treatment of the audit-only events of a call, so that they never prevent its results from
/// being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AuditEventOrder {
    /// They are written in the order of the call.
    AsSent,
    /// They are written before the others, since one of those may have ended the execution.
    First,
    /// They are dropped: the execution had ended before the call, and accepts only late results.
    Ignored,
}

impl AuditEventOrder {
    fn is_ignored(self, record: &NewEvent) -> bool {
        self == Self::Ignored && !record.event_type.is_audit()
    }
}

impl ClassicApi {
    /// Ingests an event. A repeated event, by its id, gets the first answer again.
    pub async fn ingest_event(
        &self,
        ctx: &CallContext,
        request: ClassicEventRequest,
    ) -> Result<ClassicEventResponse> {
        let started = Instant::now();
        let incoming =
            IncomingEvent::parse_event(request.execution_id, request.worker_id, request.event)?;
        let incoming = vec![(request.execution_id, incoming)];
        let incoming_events =
            self.secrets.redact_issued_secrets(incoming, IncomingEvent::redact_secrets).await?;
        let call = self.prepare_call(request.execution_id, &incoming_events)?;
        let answer = self.ingest_call(ctx, &call).await?.pop();
        self.infra.metrics.server.ingest_seconds.observe(started.elapsed().as_secs_f64());
        answer.ok_or_else(|| RuntimeError::internal("the event got no answer"))
    }

    /// Ingests events of one execution in order: all of them, or none if one is not allowed.
    pub async fn ingest_events(
        &self,
        ctx: &CallContext,
        batch: ClassicEventBatch,
    ) -> Result<ClassicEventBatchResponse> {
        if batch.events.len() > MAX_EVENT_BATCH {
            let text = format!("a call can contain at most {MAX_EVENT_BATCH} events");
            return Err(RuntimeError::invalid(text));
        }
        let started = Instant::now();
        let mut incoming_events = Vec::with_capacity(batch.events.len());
        for event in batch.events {
            let worker = batch.worker_id.clone();
            let incoming = IncomingEvent::parse_event(batch.execution_id, worker, event)?;
            incoming_events.push((batch.execution_id, incoming));
        }
        let incoming_events = self
            .secrets
            .redact_issued_secrets(incoming_events, IncomingEvent::redact_secrets)
            .await?;
        let call = self.prepare_call(batch.execution_id, &incoming_events)?;
        let answers = self.ingest_call(ctx, &call).await?;
        self.infra.metrics.server.ingest_seconds.observe(started.elapsed().as_secs_f64());
        let generated = answers.iter().map(|answer| answer.commands_generated);
        Ok(ClassicEventBatchResponse {
            status: "ok".into(),
            commands_generated: generated.sum(),
            event_ids: call
                .positions
                .iter()
                .map(|index| call.events[*index].event_id.into())
                .collect(),
        })
    }

    /// Assigns ids and removes repeated events. Rejects the call if two different events have the
    /// same id.
    fn prepare_call<'t>(
        &self,
        execution_id: ExecutionId,
        incoming_events: &'t [IncomingEvent],
    ) -> Result<EventCall<'t>> {
        let now = self.infra.now();
        let mut call = EventCall {
            execution_id,
            events: Vec::with_capacity(incoming_events.len()),
            positions: Vec::with_capacity(incoming_events.len()),
        };
        let mut indexes = BTreeMap::new();
        for incoming in incoming_events {
            let sender_id = incoming.sender_event_id(now)?;
            let event_id = match sender_id {
                Some(event_id) => event_id,
                None => self.infra.mint_id()?,
            };
            let index = match indexes.entry(event_id) {
                Entry::Vacant(entry) => {
                    call.events.push(IdentifiedEvent {
                        event_id,
                        has_sender_id: sender_id.is_some(),
                        incoming,
                    });
                    *entry.insert(call.events.len() - 1)
                }
                Entry::Occupied(entry) => *entry.get(),
            };
            if call.events[index].incoming.sha256 != incoming.sha256 {
                let text = format!("the call contains two different events with the id {event_id}");
                return Err(RuntimeError::refused(ErrorCode::IdConflict, text));
            }
            call.positions.push(index);
        }
        Ok(call)
    }

    /// Ingests the events of a call, and returns the answer to each.
    async fn ingest_call(
        &self,
        ctx: &CallContext,
        call: &EventCall<'_>,
    ) -> Result<Vec<ClassicEventResponse>> {
        ctx.visible_execution(self.infra.store(), call.execution_id).await?;
        let mut stored_answers =
            self.find_stored_answers(call, |event| event.has_sender_id).await?;
        let mut order: Vec<_> = call.events.iter().collect();
        let mut audit_events = AuditEventOrder::AsSent;
        loop {
            let sent = self.send_new_events(ctx, &order, &stored_answers, audit_events);
            let error = match sent.await {
                Err(error) if may_be_stored(&error) => error,
                answers => return answers,
            };
            // Another call wrote the same event after the lookup, or it was written and the
            // response of the store was lost.
            let found_answers =
                self.find_stored_answers(call, |_| true).await.map_err(with_unknown_outcome)?;
            if found_answers.len() > stored_answers.len() {
                stored_answers = found_answers;
                continue;
            }
            audit_events = match (error.code(), audit_events) {
                (Some(ErrorCode::AlreadyTerminal), AuditEventOrder::AsSent) => {
                    order.sort_by_key(|event| event.incoming.command_event_type().is_some());
                    AuditEventOrder::First
                }
                (Some(ErrorCode::AlreadyTerminal), AuditEventOrder::First)
                    if order.iter().any(|event| event.incoming.is_result()) =>
                {
                    AuditEventOrder::Ignored
                }
                _ => return Err(error),
            };
        }
    }

    /// Looks up the earlier answers to those events that may already be stored.
    async fn find_stored_answers(
        &self,
        call: &EventCall<'_>,
        is_candidate: impl Fn(&IdentifiedEvent<'_>) -> bool,
    ) -> Result<StoredAnswers> {
        let mut answers = StoredAnswers::new();
        for event in call.events.iter().filter(|event| is_candidate(event)) {
            if let Some(answer) = self.find_stored_answer(event).await? {
                answers.insert(event.event_id, answer);
            }
        }
        Ok(answers)
    }

    async fn find_stored_answer(
        &self,
        identified: &IdentifiedEvent<'_>,
    ) -> Result<Option<ClassicEventResponse>> {
        let IdentifiedEvent { event_id, incoming, .. } = identified;
        let stored = self.infra.store().find_event(incoming.execution_id, *event_id).await?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let event = &stored.record.event;
        let meta = event.meta.as_ref();
        let field = |key: &str| meta.and_then(|meta| meta.get(key));
        let sent_sha256 = field(SENT_SHA256_KEY).and_then(Json::as_str);
        if sent_sha256 != Some(incoming.sha256.to_string().as_str()) {
            let text = format!("another event with the id {event_id} is already stored");
            return Err(RuntimeError::refused(ErrorCode::IdConflict, text));
        }
        let issued = field("commands_generated").and_then(Json::as_u64);
        let is_ignored = event.event_type == EventType::CommandResultIgnored;
        Ok(Some(ClassicEventResponse {
            status: if is_ignored { "ignored" } else { "ok" }.into(),
            event_id: (*event_id).into(),
            commands_generated: issued.and_then(|issued| u32::try_from(issued).ok()).unwrap_or(0),
            seq: Some(stored.record.seq),
        }))
    }

    /// Sends all new events to the execution in one batch.
    async fn send_new_events(
        &self,
        ctx: &CallContext,
        events: &[&IdentifiedEvent<'_>],
        stored_answers: &StoredAnswers,
        audit_events: AuditEventOrder,
    ) -> Result<Vec<ClassicEventResponse>> {
        let mut messages = Vec::new();
        let mut pending = Vec::with_capacity(events.len());
        let mut classifier = EventClassifier::new(self, ctx);
        for identified in events {
            let class = match stored_answers.get(&identified.event_id) {
                Some(answer) => EventClass::Answered(answer.clone()),
                None => classifier.classify_event(identified).await?,
            };
            pending.push(match class {
                EventClass::Answered(answer) => PendingAnswer::Answered(answer),
                EventClass::CommandReport { report, fence, ended } => {
                    let (message, answer) = Message::new(EngineInput::ClassicReport(report));
                    messages.push(match fence {
                        Some(fence) => message.with_fence(fence),
                        None => message,
                    });
                    PendingAnswer::Waiting(identified.event_id, answer, ended)
                }
                EventClass::AuditOnly(record) if audit_events.is_ignored(&record) => {
                    PendingAnswer::Answered(ClassicEventResponse {
                        status: "ignored".into(),
                        event_id: identified.event_id.into(),
                        commands_generated: 0,
                        seq: None,
                    })
                }
                EventClass::AuditOnly(record) => {
                    let (message, answer) =
                        Message::new(EngineInput::AuditOnly(Box::new(AuditOnlyEvent(*record))));
                    messages.push(message);
                    PendingAnswer::Waiting(identified.event_id, answer, None)
                }
            });
        }
        // Drops the state it holds, so that writers need not copy it.
        drop(classifier);
        if let (Some(batch), Some(first)) = (MessageBatch::from_messages(messages), events.first())
        {
            self.driver.send_message(first.incoming.execution_id, batch);
        }
        let mut answers = Vec::with_capacity(pending.len());
        for answer in pending {
            answers.push(match answer {
                PendingAnswer::Answered(answer) => answer,
                PendingAnswer::Waiting(event_id, answer, ended) => {
                    let reply = wait_for_reply(answer).await?;
                    if let Some((worker, command_id)) = ended {
                        self.claims.remove_claim(ctx, &worker, command_id);
                    }
                    event_answer(event_id, &reply)
                }
            });
        }
        Ok(answers)
    }
}

/// True if the rejection may be caused by events that are already stored.
fn may_be_stored(error: &RuntimeError) -> bool {
    let code = error.code();
    code.is_some_and(|code| matches!(code, ErrorCode::IdConflict | ErrorCode::AlreadyTerminal))
}

/// Marks a failed lookup as having an unknown outcome, since the events may have been written.
fn with_unknown_outcome(error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Store(error) => error.with_unknown_outcome().into(),
        RuntimeError::Refused(_) | RuntimeError::Machine(_) => error,
    }
}

/// Builds the answer to an event.
fn event_answer(event_id: EventId, reply: &MessageReply) -> ClassicEventResponse {
    let status = match reply.verdict {
        None | Some(InputVerdict::Accepted | InputVerdict::Buffered | InputVerdict::Duplicate) => {
            "ok"
        }
        Some(InputVerdict::Ignored(_)) => "ignored",
    };
    ClassicEventResponse {
        status: status.into(),
        event_id: event_id.into(),
        commands_generated: reply.issued,
        seq: Seq::new(reply.version.get()).ok(),
    }
}
