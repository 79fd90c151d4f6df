//! Errands: what the server owes since an append, done until it is done.
//!
//! An append writes down what has to happen outside of its run: another run is started or ended, a
//! parent is told, a slot is handed on, a wait looks back. Whoever appended does it at once; where
//! that server dies first, any other finds it in the store. Everything here may therefore be done
//! twice, and the second time changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_engine::event::{ChildCall, ChildOf, Steering};
use noetl_engine::{ChildEnd, ChildEnded, Data, Errand, Input, LookBack, Signal, Verdict};
use noetl_playbook::model::ConcurrencyOverlap;
use noetl_store::{Awaited, BroadcastFilter, ErrandOutcome};
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind,
    Text, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::Core;
use super::driver::Letter;
use super::error::{RuntimeError, causes};
use super::slots::slot_key;
use super::start::ChildStart;

/// When something is tried again that did not work out.
const AGAIN: Millis = Millis::from_secs(2);

/// How long a run may take to be there that is to be cancelled.
const LATE_BIRTH: Millis = Millis::from_secs(60);

/// Runs that are ended in a row with the one above them. Others are ended when they are due.
const MOST_CANCELLED: usize = 1_000;

/// Something that the server owes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Owed {
    /// Start a run.
    StartChild { call: Box<ChildCall>, depth: u32 },
    /// Cancel a run that nobody waits for any more.
    CancelChild { child: ExecutionId },
    /// Look for broadcasts that a wait may still take.
    LookBack {
        command: CommandId,
        names: Vec<(Text, Option<Text>)>,
        since: Timestamp,
    },
    /// Tell the run that started this one how it ended.
    TellParent { parent: ExecutionId },
    /// Give the slots of a key to whoever is next.
    Slots {
        key: Text,
        /// What this run does where there is none for it.
        seeks: Option<ConcurrencyOverlap>,
    },
}

/// What came of ending a run.
struct EndedChild {
    outcome: ErrandOutcome,
    /// Whether it was ended now.
    is_new: bool,
    /// Runs that it waited for.
    below: Vec<ExecutionId>,
}

impl From<&Errand> for Owed {
    fn from(errand: &Errand) -> Self {
        match errand {
            Errand::StartChild { call, depth } => Self::StartChild {
                call: call.clone(),
                depth: *depth,
            },
            Errand::CancelChild { child } => Self::CancelChild { child: *child },
            Errand::LookBack(LookBack {
                command,
                names,
                since,
            }) => Self::LookBack {
                command: *command,
                names: names.clone(),
                since: *since,
            },
        }
    }
}

impl Owed {
    /// The name under which its run owes it: once, however often it is said.
    pub(super) fn id(&self) -> Text {
        match self {
            Self::StartChild { call, .. } => format!("start:{}", call.child),
            Self::CancelChild { child } => format!("cancel:{child}"),
            Self::LookBack { command, .. } => format!("look:{command}"),
            Self::TellParent { .. } => "parent".to_owned(),
            Self::Slots { key, .. } => format!("slots:{}", slot_key(key).as_str()),
        }
        .into()
    }
}

impl Core {
    /// Does what an append has promised.
    pub(super) fn run_errands(self: &Arc<Self>, execution_id: ExecutionId, owed: Vec<Owed>) {
        if owed.is_empty() {
            return;
        }
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            for owed in owed {
                core.run_errand(execution_id, owed).await;
            }
        });
    }

    /// Does one thing, and notes what came of it.
    pub(super) async fn run_errand(self: &Arc<Self>, execution_id: ExecutionId, owed: Owed) {
        let id = owed.id();
        let outcome = self.perform(execution_id, owed).await;
        self.settle(execution_id, &id, outcome).await;
    }

    async fn settle(
        &self,
        execution_id: ExecutionId,
        id: &Text,
        outcome: Result<ErrandOutcome, RuntimeError>,
    ) {
        let outcome = outcome.unwrap_or_else(|error| {
            tracing::warn!(error = %causes(&error), %execution_id, errand = %id, "an errand is tried again");
            ErrandOutcome::Later(self.clock.now().saturating_add(AGAIN))
        });
        let settled = self.store.settle_errand(execution_id, id, outcome).await;
        if let Err(error) = settled {
            // It is done once more, which changes nothing.
            tracing::warn!(error = %causes(&error), %execution_id, errand = %id, "an errand is not settled");
        }
    }

    /// What is owed and due, whoever promised it.
    pub(super) async fn sweep_errands(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let now = self.clock.now();
        for errand in self.store.errands(now, PageLimit::MAX).await? {
            let body = serde_json::to_vec(&errand.body).unwrap_or_default();
            match serde_json::from_slice(&body) {
                Ok(owed) => self.run_errand(errand.execution_id, owed).await,
                Err(error) => {
                    let (execution_id, errand_id) = (errand.execution_id, &errand.errand_id);
                    tracing::error!(%error, %execution_id, %errand_id, "an errand cannot be read");
                    let hour = Millis::from_secs(3600);
                    let later = ErrandOutcome::Later(now.saturating_add(hour));
                    self.store
                        .settle_errand(execution_id, errand_id, later)
                        .await?;
                }
            }
        }
        self.deliver_again(now).await
    }

    async fn perform(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        owed: Owed,
    ) -> Result<ErrandOutcome, RuntimeError> {
        match owed {
            Owed::StartChild { call, depth } => self.start_child(execution_id, *call, depth).await,
            Owed::CancelChild { child } => {
                let ended = self.cancel_child(execution_id, child).await?;
                self.cancel_below(child, ended.below).await;
                Ok(ended.outcome)
            }
            Owed::LookBack {
                command,
                names,
                since,
            } => self.look_back(execution_id, command, &names, since).await,
            Owed::TellParent { parent } => self.tell_parent(parent, execution_id).await,
            Owed::Slots { key, seeks } => self.hand_on(execution_id, &key, seeks).await,
        }
    }

    async fn start_child(
        self: &Arc<Self>,
        parent: ExecutionId,
        call: ChildCall,
        depth: u32,
    ) -> Result<ErrandOutcome, RuntimeError> {
        let (child, waits) = (call.child, call.waits);
        let payload = match call.input {
            Data::Inline(value) => value,
            Data::External(reference) => self.fetch(reference.uri()).await?,
        };
        let (path, catalog_id) = match call.of {
            ChildOf::Path(path) => (Some(path), None),
            ChildOf::CatalogId(id) => (None, Some(id)),
        };
        let order = ChildStart {
            child,
            parent,
            depth,
            path,
            catalog_id,
            version: call.version,
            payload,
        };
        let Err(error) = self.start_under(order).await else {
            return Ok(ErrandOutcome::Done);
        };
        let Some(code) = error.code().filter(|code| is_final(*code)) else {
            return Err(error);
        };
        if !waits {
            tracing::warn!(%error, %parent, %child, "a run was not started");
            return Ok(ErrandOutcome::Done);
        }
        let kind = match code {
            ErrorCode::NotFound => TaskErrorKind::NotFound,
            ErrorCode::Forbidden => TaskErrorKind::Auth,
            _ => TaskErrorKind::Child,
        };
        let end = ChildEnd::NotStarted {
            error: TaskError::new(kind, error.to_string()),
        };
        self.tell_end(parent, ChildEnded { child, end }).await
    }

    /// Ends runs that their parent no longer waits for, and all below them; tells which were ended
    /// now. What does not work out, or is too much for now, stays owed.
    pub(super) async fn cancel_below(
        self: &Arc<Self>,
        parent: ExecutionId,
        children: Vec<ExecutionId>,
    ) -> Vec<ExecutionId> {
        let mut left: VecDeque<_> = children.into_iter().map(|child| (parent, child)).collect();
        let mut cancelled = Vec::new();
        while let Some((parent, child)) = left.pop_front() {
            if cancelled.len() >= MOST_CANCELLED {
                break;
            }
            let id = Owed::CancelChild { child }.id();
            let outcome = match self.cancel_child(parent, child).await {
                Ok(ended) => {
                    cancelled.extend(ended.is_new.then_some(child));
                    left.extend(ended.below.into_iter().map(|below| (child, below)));
                    Ok(ended.outcome)
                }
                Err(error) => Err(error),
            };
            self.settle(parent, &id, outcome).await;
        }
        cancelled
    }

    async fn cancel_child(
        self: &Arc<Self>,
        parent: ExecutionId,
        child: ExecutionId,
    ) -> Result<EndedChild, RuntimeError> {
        let steering = Steering {
            actor: None,
            reason: Some(format!("execution {parent} no longer waits for it").into()),
        };
        let (letter, answer) = Letter::new(Input::Cancel(steering));
        let now = self.clock.now();
        let old = |outcome| EndedChild {
            outcome,
            is_new: false,
            below: Vec::new(),
        };
        match self.ask(child, letter.ending_children(), answer).await {
            Ok(reply) => Ok(EndedChild {
                outcome: ErrandOutcome::Done,
                is_new: true,
                below: reply.children,
            }),
            Err(error) => match error.code() {
                Some(ErrorCode::AlreadyTerminal | ErrorCode::RetentionDropped) => {
                    Ok(old(ErrandOutcome::Done))
                }
                // Somebody may be about to start it.
                Some(ErrorCode::NotFound) if now < child.time().saturating_add(LATE_BIRTH) => {
                    Ok(old(ErrandOutcome::Later(now.saturating_add(AGAIN))))
                }
                Some(ErrorCode::NotFound) => Ok(old(ErrandOutcome::Done)),
                Some(_) | None => Err(error),
            },
        }
    }

    async fn look_back(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        command: CommandId,
        names: &[(Text, Option<Text>)],
        since: Timestamp,
    ) -> Result<ErrandOutcome, RuntimeError> {
        let Some((definition, _)) = self.look(execution_id).await? else {
            return Ok(ErrandOutcome::Done);
        };
        let awaited = names
            .iter()
            .map(|(name, key)| Awaited::new(name, key.as_ref()));
        let filter = BroadcastFilter {
            tenant_id: definition.entry.tenant_id.clone(),
            awaited: awaited.collect(),
            since,
            limit: PageLimit::MAX,
        };
        for found in self.store.broadcasts(filter).await? {
            let signal = Signal {
                key: found.key,
                payload: found.payload,
                actor: found.actor,
                broadcast: Some(found.signal_id),
                received_at: Some(found.received_at),
                ..Signal::new(found.name)
            };
            match self.signal_to(execution_id, signal).await {
                Ok(_) => {}
                Err(error) if error.code().is_some_and(is_final) => {}
                Err(error) if error.code() == Some(ErrorCode::Paused) => {
                    let later = self.clock.now().saturating_add(AGAIN);
                    return Ok(ErrandOutcome::Later(later));
                }
                Err(error) => return Err(error),
            }
            let still_waits = self.look(execution_id).await?.is_some_and(|(_, state)| {
                let mut waits = state.waits();
                waits.any(|wait| wait.command == command)
            });
            if !still_waits {
                break;
            }
        }
        Ok(ErrandOutcome::Done)
    }

    /// Sends a signal to a run; whether somebody was waiting for it, and where the log stands.
    pub(super) async fn signal_to(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        signal: Signal,
    ) -> Result<(bool, noetl_types::Version), RuntimeError> {
        let (letter, answer) = Letter::new(Input::Signal(Box::new(signal)));
        let reply = self.ask(execution_id, letter, answer).await?;
        Ok((reply.verdict == Some(Verdict::Accepted), reply.version))
    }

    async fn tell_parent(
        self: &Arc<Self>,
        parent: ExecutionId,
        child: ExecutionId,
    ) -> Result<ErrandOutcome, RuntimeError> {
        let Some((_, state)) = self.look(parent).await? else {
            return Ok(ErrandOutcome::Done);
        };
        let mut children = state.children();
        let Some((_, call)) = children.find(|(_, call)| call.child == child) else {
            return Ok(ErrandOutcome::Done);
        };
        let end = self.end_of(child, call.result_step.as_ref()).await?;
        let Some(end) = end else {
            return Ok(ErrandOutcome::Done);
        };
        self.tell_end(parent, ChildEnded { child, end }).await
    }

    /// How a child ended, with the data that its parent asked for; nothing while it goes on.
    async fn end_of(
        self: &Arc<Self>,
        child: ExecutionId,
        step: Option<&Text>,
    ) -> Result<Option<ChildEnd>, RuntimeError> {
        let Some(outcome) = self.ended(child).await? else {
            return Ok(None);
        };
        let message = |text: Option<Text>| text.unwrap_or_else(|| "the child failed".into());
        Ok(match outcome.status {
            ExecutionStatus::Completed => {
                let of_run = outcome.result.unwrap_or(Data::Inline(Json::Null));
                let of_step = match step {
                    None => None,
                    Some(name) => self.look(child).await?.and_then(|(definition, state)| {
                        let step = definition.plan.find(name.as_str())?;
                        Some(state.step(step)?.output.as_ref()?.data.clone())
                    }),
                };
                let result = match (step, of_step) {
                    (_, Some(data)) => data,
                    (None, None) => of_run,
                    (Some(_), None) => Data::Inline(Json::Null),
                };
                Some(ChildEnd::Completed { result })
            }
            ExecutionStatus::Failed => Some(ChildEnd::Failed {
                error: TaskError::new(TaskErrorKind::Child, message(outcome.error)),
            }),
            ExecutionStatus::Cancelled => Some(ChildEnd::Cancelled {
                reason: outcome.error,
            }),
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => None,
        })
    }

    async fn tell_end(
        self: &Arc<Self>,
        parent: ExecutionId,
        ended: ChildEnded,
    ) -> Result<ErrandOutcome, RuntimeError> {
        let (letter, answer) = Letter::new(Input::ChildEnded(Box::new(ended)));
        match self.ask(parent, letter, answer).await {
            Ok(_) => Ok(ErrandOutcome::Done),
            Err(error) => match error.code() {
                // A run that is paused hears of it when it goes on.
                Some(ErrorCode::Paused) => {
                    let later = self.clock.now().saturating_add(AGAIN);
                    Ok(ErrandOutcome::Later(later))
                }
                Some(code) if is_final(code) => Ok(ErrandOutcome::Done),
                Some(_) | None => Err(error),
            },
        }
    }
}

/// Whether trying again would be told the same.
pub(super) fn is_final(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotFound
            | ErrorCode::AlreadyTerminal
            | ErrorCode::RetentionDropped
            | ErrorCode::Validation
            | ErrorCode::NotSupported
            | ErrorCode::OutOfRange
            | ErrorCode::TooLarge
            | ErrorCode::AlreadyDecided
            | ErrorCode::IllegalTransition
            | ErrorCode::Forbidden
    )
}
