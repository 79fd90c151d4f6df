//! Events that workers tell, and what follows from them.
//!
//! What a call brings is written in one append, or nothing of it is. So an event is read as if those
//! before it had been written already, and all that is to be written goes into the mailbox of the
//! execution in one envelope.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use noetl_api::classic::{EventAnswer, EventBatch, EventBatchAnswer, EventPost};
use noetl_engine::{Input, Remark, Verdict};
use noetl_types::limits::MAX_EVENT_BATCH;
use noetl_types::{
    CommandId, ErrorCode, EventId, EventType, ExecutionId, Json, NewEvent, Seq, WorkerId,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::hearing::{Heard, Hearing};
use super::tale::{SENT_SHA256, Tale};
use crate::runtime::driver::{Envelope, Letter, Reply, heard};
use crate::runtime::{Runtime, RuntimeError};

/// An event of a call, and the id that it gets.
pub(super) struct Named<'t> {
    pub(super) event_id: EventId,
    /// Whether its sender made the id, so that it may be there already.
    is_by_sender: bool,
    pub(super) tale: &'t Tale,
}

/// The events of a call, each once.
struct Call<'t> {
    execution_id: ExecutionId,
    events: Vec<Named<'t>>,
    /// Which of them each place of the call is about.
    places: Vec<usize>,
}

/// What is known of events that are there already.
type Known = BTreeMap<EventId, EventAnswer>;

/// How an event of a call is answered.
enum Asked {
    /// So: it adds nothing to the log.
    Answered(EventAnswer),
    /// As the execution says; and whose command is over then.
    Waiting(
        EventId,
        oneshot::Receiver<Result<Reply, RuntimeError>>,
        Option<(WorkerId, CommandId)>,
    ),
}

/// What becomes of the remarks of a call: what shapes nothing costs it no result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remarks {
    /// They are written in their places.
    AsTold,
    /// Before the others, since one of those may have ended the run.
    First,
    /// Not at all: the run had ended before the call, and takes only what comes too late.
    Ignored,
}

impl Remarks {
    fn ignores(self, record: &NewEvent) -> bool {
        self == Self::Ignored && !record.event_type.is_audit()
    }
}

impl Runtime {
    /// Takes an event. The same one again, by its id, is answered as it was the first time.
    pub async fn take_event(&self, post: EventPost) -> Result<EventAnswer, RuntimeError> {
        let began = Instant::now();
        let tale = Tale::read(post.execution_id, post.worker_id, post.event)?;
        let told = vec![(post.execution_id, tale)];
        let tales = self.without_lent(told, Tale::hiding).await?;
        let call = self.call(post.execution_id, &tales)?;
        let answer = self.take(&call).await?.pop();
        self.metrics().ingested(began.elapsed());
        answer.ok_or_else(|| RuntimeError::refused(ErrorCode::Internal, "an event without answer"))
    }

    /// Takes events of one execution, in order: all of them, or none where one may not be told.
    pub async fn take_events(&self, batch: EventBatch) -> Result<EventBatchAnswer, RuntimeError> {
        if batch.events.len() > MAX_EVENT_BATCH {
            let text = format!("a call brings at most {MAX_EVENT_BATCH} events");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let began = Instant::now();
        let mut tales = Vec::with_capacity(batch.events.len());
        for told in batch.events {
            let worker = batch.worker_id.clone();
            let tale = Tale::read(batch.execution_id, worker, told)?;
            tales.push((batch.execution_id, tale));
        }
        let tales = self.without_lent(tales, Tale::hiding).await?;
        let call = self.call(batch.execution_id, &tales)?;
        let answers = self.take(&call).await?;
        self.metrics().ingested(began.elapsed());
        let generated = answers.iter().map(|answer| answer.commands_generated);
        Ok(EventBatchAnswer {
            status: "ok".into(),
            commands_generated: generated.sum(),
            event_ids: call
                .places
                .iter()
                .map(|place| call.events[*place].event_id)
                .collect(),
        })
    }

    /// Sorts out the events of a call. The same one twice is one; another one under the same id
    /// refuses all.
    fn call<'t>(
        &self,
        execution_id: ExecutionId,
        tales: &'t [Tale],
    ) -> Result<Call<'t>, RuntimeError> {
        let now = self.now();
        let mut call = Call {
            execution_id,
            events: Vec::with_capacity(tales.len()),
            places: Vec::with_capacity(tales.len()),
        };
        let mut found = BTreeMap::new();
        for tale in tales {
            let by_sender = tale.event_id(now)?;
            let event_id = match by_sender {
                Some(event_id) => event_id,
                None => self.mint()?,
            };
            let place = match found.entry(event_id) {
                Entry::Vacant(free) => {
                    call.events.push(Named {
                        event_id,
                        is_by_sender: by_sender.is_some(),
                        tale,
                    });
                    *free.insert(call.events.len() - 1)
                }
                Entry::Occupied(first) => *first.get(),
            };
            if call.events[place].tale.sha256 != tale.sha256 {
                let text =
                    format!("the call brings event {event_id} twice, and each says something else");
                return Err(RuntimeError::refused(ErrorCode::IdConflict, text));
            }
            call.places.push(place);
        }
        Ok(call)
    }

    /// Takes the events of a call, and gives the answer to each.
    async fn take(&self, call: &Call<'_>) -> Result<Vec<EventAnswer>, RuntimeError> {
        self.execution_row(call.execution_id).await?;
        let mut known = self.known(call, |named| named.is_by_sender).await?;
        let mut order: Vec<_> = call.events.iter().collect();
        let mut remarks = Remarks::AsTold;
        loop {
            let told = self.tell_new(call.execution_id, &order, (&known, remarks));
            let error = match told.await {
                Err(error) if may_be_known(&error) => error,
                answered => return answered,
            };
            // Somebody told the same between the look and the write; or it was written, and the
            // answer of the store was lost.
            let found = self.known(call, |_| true).await.map_err(in_doubt)?;
            if found.len() > known.len() {
                known = found;
                continue;
            }
            remarks = match (error.code(), remarks) {
                (Some(ErrorCode::AlreadyTerminal), Remarks::AsTold) => {
                    order.sort_by_key(|named| named.tale.about_command().is_some());
                    Remarks::First
                }
                (Some(ErrorCode::AlreadyTerminal), Remarks::First)
                    if order.iter().any(|named| named.tale.is_result()) =>
                {
                    Remarks::Ignored
                }
                _ => return Err(error),
            };
        }
    }

    /// What was answered before to events that are there already, among those that may be.
    async fn known(
        &self,
        call: &Call<'_>,
        may_be_there: impl Fn(&Named<'_>) -> bool,
    ) -> Result<Known, RuntimeError> {
        let mut known = Known::new();
        for named in call.events.iter().filter(|named| may_be_there(named)) {
            if let Some(answer) = self.known_event(named).await? {
                known.insert(named.event_id, answer);
            }
        }
        Ok(known)
    }

    async fn known_event(&self, named: &Named<'_>) -> Result<Option<EventAnswer>, RuntimeError> {
        let Named { event_id, tale, .. } = named;
        let stored = self.store().event(tale.execution_id, *event_id).await?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let event = &stored.record.event;
        let meta = event.meta.as_ref();
        let field = |key: &str| meta.and_then(|meta| meta.get(key));
        let sent = field(SENT_SHA256).and_then(Json::as_str);
        if sent != Some(tale.sha256.to_string().as_str()) {
            let text = format!("event {event_id} is there already and says something else");
            return Err(RuntimeError::refused(ErrorCode::IdConflict, text));
        }
        let issued = field("commands_generated").and_then(Json::as_u64);
        let is_ignored = event.event_type == EventType::CommandResultIgnored;
        Ok(Some(EventAnswer {
            status: if is_ignored { "ignored" } else { "ok" }.into(),
            event_id: *event_id,
            commands_generated: issued
                .and_then(|issued| u32::try_from(issued).ok())
                .unwrap_or(0),
            seq: Some(stored.record.seq),
        }))
    }

    /// Tells the execution all that it does not know yet, in one envelope.
    async fn tell_new(
        &self,
        execution_id: ExecutionId,
        events: &[&Named<'_>],
        (known, remarks): (&Known, Remarks),
    ) -> Result<Vec<EventAnswer>, RuntimeError> {
        let mut letters = Vec::new();
        let mut asked = Vec::with_capacity(events.len());
        let mut hearing = Hearing::of(self);
        for named in events {
            let heard = match known.get(&named.event_id) {
                Some(answer) => Heard::Answered(answer.clone()),
                None => hearing.hear(named).await?,
            };
            asked.push(match heard {
                Heard::Answered(answer) => Asked::Answered(answer),
                Heard::Told { told, fence, over } => {
                    let (letter, answer) = Letter::new(Input::Told(told));
                    letters.push(match fence {
                        Some(fence) => letter.fenced(fence),
                        None => letter,
                    });
                    Asked::Waiting(named.event_id, answer, over)
                }
                Heard::Remark(record) if remarks.ignores(&record) => Asked::Answered(EventAnswer {
                    status: "ignored".into(),
                    event_id: named.event_id,
                    commands_generated: 0,
                    seq: None,
                }),
                Heard::Remark(record) => {
                    let (letter, answer) = Letter::new(Input::Remark(Box::new(Remark(*record))));
                    letters.push(letter);
                    Asked::Waiting(named.event_id, answer, None)
                }
            });
        }
        // What it holds of the execution must not be in the way of those who write to it.
        drop(hearing);
        if let Some(envelope) = Envelope::of(letters) {
            self.core.send(execution_id, envelope);
        }
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked {
            answers.push(match asked {
                Asked::Answered(answer) => answer,
                Asked::Waiting(event_id, answer, over) => {
                    let reply = heard(answer).await?;
                    if let Some((worker, command_id)) = over {
                        let kept_name = self.kept_name(&worker);
                        self.core.claims.settle(&kept_name, command_id);
                    }
                    answered(event_id, &reply)
                }
            });
        }
        Ok(answers)
    }
}

/// Whether a refusal may come from what is there already.
fn may_be_known(error: &RuntimeError) -> bool {
    let code = error.code();
    code.is_some_and(|code| matches!(code, ErrorCode::IdConflict | ErrorCode::AlreadyTerminal))
}

/// The failure of a look at what may be there already: nobody is told that nothing was done.
fn in_doubt(error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Store(error) => error.with_unknown_outcome().into(),
        RuntimeError::Refused(_) | RuntimeError::Machine(_) => error,
    }
}

/// What became of an event, as its worker is told.
fn answered(event_id: EventId, reply: &Reply) -> EventAnswer {
    let status = match reply.verdict {
        None | Some(Verdict::Accepted | Verdict::Kept | Verdict::Duplicate) => "ok",
        Some(Verdict::Ignored(_)) => "ignored",
    };
    EventAnswer {
        status: status.into(),
        event_id,
        commands_generated: reply.issued,
        seq: Seq::new(reply.version.get()).ok(),
    }
}
