//! Follow-ups: work outside of an execution that an append requires, retried until it is done.
//!
//! An append records what has to happen outside of its execution: another execution is started or
//! cancelled, a parent is notified, a slot is granted to the next waiter, a wait looks for earlier broadcasts. The
//! server that appended performs it at once. If that server dies first, any other server finds it
//! in the store. Every follow-up may therefore be performed twice, and the second time must change
//! nothing.

pub(crate) mod slots;

use std::sync::Arc;

use futures_util::future::join_all;
use noetl_api::execute::{ExecuteRequest, VersionSelector};
use noetl_engine::event::{ChildCall, ChildTarget};
use noetl_engine::{
    BroadcastLookback, ChildEnded, ChildOutcome, EngineInput, EventData, FollowUp, IncomingSignal,
};
use noetl_playbook::model::ConcurrencyOverlap;
use noetl_store::{AwaitedName, BroadcastFilter, Execution, FollowUpOutcome, StoredFollowUp};
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind,
    Text, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::access::{AuthContext, CallContext};
use crate::driver::{Driver, Message};
use crate::error::Result;
use crate::services::executions::StartRequest;
use crate::services::executions::control::FOLLOW_UP_RETRY_DELAY;
use crate::services::executions::start::ChildOrigin;
use crate::services::follow_ups::slots::{SlotGrants, slot_key};
use crate::services::{Executions, Infrastructure, Results};

/// Due follow-ups that are performed concurrently, so that they share commits.
const FOLLOW_UP_CONCURRENCY: usize = 64;

/// Prefix of the ids of follow-ups that cancel a child.
const CANCEL_CHILD_PREFIX: &str = "cancel:";

/// A follow-up that is recorded in the store until it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PendingFollowUp {
    /// Starts a child execution.
    StartChild { call: Box<ChildCall>, depth: u32 },
    /// Cancels a child execution that its parent no longer awaits.
    CancelChild { child: ExecutionId },
    /// Delivers earlier broadcasts that a wait can still take.
    LookBack { command: CommandId, names: Vec<(Text, Option<Text>)>, since: Timestamp },
    /// Reports the outcome of this execution to its parent.
    TellParent { parent: ExecutionId },
    /// Grants the slots of a key to the next waiters.
    Slots {
        key: Text,
        /// Overlap policy of this execution if no slot is free for it. `None` if it only released
        /// one.
        seeks: Option<ConcurrencyOverlap>,
    },
}

impl From<&FollowUp> for PendingFollowUp {
    fn from(follow_up: &FollowUp) -> Self {
        match follow_up {
            FollowUp::StartChild { call, depth } => {
                Self::StartChild { call: call.clone(), depth: *depth }
            }
            FollowUp::CancelChild { child } => Self::CancelChild { child: *child },
            FollowUp::DeliverBroadcasts(BroadcastLookback { command, names, since }) => {
                Self::LookBack { command: *command, names: names.clone(), since: *since }
            }
        }
    }
}

impl PendingFollowUp {
    /// Id within its execution. A follow-up with the same id is recorded once.
    pub(crate) fn follow_up_id(&self) -> Text {
        match self {
            Self::StartChild { call, .. } => format!("start:{}", call.child),
            Self::CancelChild { child } => format!("{CANCEL_CHILD_PREFIX}{child}"),
            Self::LookBack { command, .. } => format!("look:{command}"),
            Self::TellParent { .. } => "parent".to_owned(),
            Self::Slots { key, .. } => format!("slots:{}", slot_key(key).as_str()),
        }
        .into()
    }
}

/// Performs follow-ups.
pub(crate) struct FollowUps {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) executions: Arc<Executions>,
    pub(crate) results: Arc<Results>,
    pub(crate) slots: SlotGrants,
}

impl FollowUps {
    /// Performs the follow-ups of an append in the background.
    pub(crate) fn spawn_follow_ups(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        follow_ups: Vec<PendingFollowUp>,
    ) {
        if follow_ups.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        self.infra.tasks.spawn(async move {
            for follow_up in follow_ups {
                this.run_follow_up(execution_id, follow_up).await;
            }
        });
    }

    /// Performs one follow-up and records the result.
    pub(crate) async fn run_follow_up(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        follow_up: PendingFollowUp,
    ) {
        let id = follow_up.follow_up_id();
        let outcome = self.perform_follow_up(execution_id, follow_up).await;
        self.executions.complete_follow_up(execution_id, &id, outcome).await;
    }

    /// Performs all due follow-ups, regardless of which server recorded them.
    pub(crate) async fn run_due_follow_ups(self: &Arc<Self>) -> Result<()> {
        let now = self.infra.now();
        let due = self.infra.store.list_due_follow_ups(now, PageLimit::MAX).await?;
        // Concurrently, so that those of one tenant do not delay those of others.
        for chunk in due.chunks(FOLLOW_UP_CONCURRENCY) {
            let mut running = Vec::with_capacity(chunk.len());
            for stored in chunk {
                running.push(self.run_stored_follow_up(stored, now));
            }
            join_all(running).await.into_iter().collect::<Result<()>>()?;
        }
        self.slots.redeliver_unconfirmed_slots(now).await
    }

    async fn run_stored_follow_up(
        self: &Arc<Self>,
        stored: &StoredFollowUp,
        now: Timestamp,
    ) -> Result<()> {
        let (execution_id, follow_up_id) = (stored.execution_id, &stored.follow_up_id);
        let body = serde_json::to_vec(&stored.body).unwrap_or_default();
        match serde_json::from_slice(&body) {
            Ok(follow_up) => self.run_follow_up(execution_id, follow_up).await,
            Err(error) => {
                tracing::error!(%error, %execution_id, %follow_up_id, "a follow-up cannot be parsed");
                let hour = Millis::from_secs(3600);
                let later = FollowUpOutcome::RetryAt(now.saturating_add(hour));
                self.infra.store.complete_follow_up(execution_id, follow_up_id, later).await?;
            }
        }
        Ok(())
    }

    async fn perform_follow_up(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        follow_up: PendingFollowUp,
    ) -> Result<FollowUpOutcome> {
        match follow_up {
            PendingFollowUp::StartChild { call, depth } => {
                self.start_child(execution_id, *call, depth).await
            }
            PendingFollowUp::CancelChild { child } => {
                let ended = self.executions.cancel_child(execution_id, child).await?;
                self.executions.cancel_descendants(child, ended.awaited_children).await;
                Ok(ended.outcome)
            }
            PendingFollowUp::LookBack { command, names, since } => {
                self.deliver_earlier_broadcasts(execution_id, command, &names, since).await
            }
            PendingFollowUp::TellParent { parent } => {
                self.notify_parent(parent, execution_id).await
            }
            PendingFollowUp::Slots { key, seeks } => {
                self.slots.grant_next_slots(execution_id, &key, seeks).await
            }
        }
    }

    async fn start_child(
        self: &Arc<Self>,
        parent: ExecutionId,
        call: ChildCall,
        depth: u32,
    ) -> Result<FollowUpOutcome> {
        let (child, waits) = (call.child, call.waits);
        let payload = match call.input {
            EventData::Inline(value) => value,
            EventData::External(reference) => self.results.fetch_result(reference.uri()).await?,
        };
        let Some(parent_row) = self.infra.store.find_execution(parent).await? else {
            return Ok(FollowUpOutcome::Done);
        };
        if let Some(outcome) = self.check_start_cancelled(&parent_row, child, waits).await? {
            return Ok(outcome);
        }
        let ctx = CallContext::from(AuthContext {
            tenant_id: parent_row.facts.tenant_id.clone(),
            organization_id: parent_row.facts.organization_id.clone(),
            ..AuthContext::default()
        });
        let (path, catalog_id) = match call.of {
            ChildTarget::Path(path) => (Some(path), None),
            ChildTarget::CatalogId(id) => (None, Some(id)),
        };
        let request = ExecuteRequest {
            path,
            catalog_id,
            version: call.version.map(VersionSelector::Number),
            payload: Some(payload),
            parent_execution_id: Some(parent),
            // A child runs in the pool of its parent, because a pool may be a single process with
            // its own directory.
            execution_pool: Some(parent_row.facts.pool.clone()),
            ..ExecuteRequest::default()
        };
        let origin = ChildOrigin { execution_id: child, parent: parent_row, depth };
        let start = StartRequest { child: Some(origin), ..StartRequest::from(request) };
        let Err(error) = self.executions.start(&ctx, start).await else {
            return Ok(FollowUpOutcome::Done);
        };
        let Some(code) = error.code().filter(|code| is_final_error(*code)) else {
            return Err(error);
        };
        if !waits {
            tracing::warn!(%error, %parent, %child, "starting a child execution failed");
            return Ok(FollowUpOutcome::Done);
        }
        let kind = match code {
            ErrorCode::NotFound => TaskErrorKind::NotFound,
            ErrorCode::Forbidden => TaskErrorKind::Auth,
            ErrorCode::QuotaExceeded => TaskErrorKind::Limit,
            _ => TaskErrorKind::Child,
        };
        let outcome = ChildOutcome::NotStarted { error: TaskError::new(kind, error.to_string()) };
        self.report_child_end(parent, ChildEnded { child, outcome }).await
    }

    /// Returns the outcome of a start that must not happen, or not yet: the parent was cancelled, or
    /// the cancellation of an ancestor is pending. So a tree of executions stops growing as soon as
    /// its root is cancelled.
    async fn check_start_cancelled(
        &self,
        parent: &Execution,
        child: ExecutionId,
        waits: bool,
    ) -> Result<Option<FollowUpOutcome>> {
        let parent_id = parent.execution_id;
        if waits && parent.view.status == ExecutionStatus::Cancelled {
            return Ok(Some(FollowUpOutcome::Done));
        }
        let prefix = CANCEL_CHILD_PREFIX.into();
        if !self.infra.store.has_follow_up_on_path(parent_id, child, &prefix).await? {
            return Ok(None);
        }
        let loaded = self.driver.load_state(parent_id).await?;
        let is_awaited =
            loaded.is_some_and(|(_, state)| state.find_command_awaiting(child).is_some());
        if waits && !is_awaited {
            return Ok(Some(FollowUpOutcome::Done));
        }
        // The cancellation may end before it reaches the parent: an execution between them may have
        // ended, or have been started without waiting for it. Then the parent still needs the child.
        let retry_at = self.infra.now().saturating_add(FOLLOW_UP_RETRY_DELAY);
        Ok(Some(FollowUpOutcome::RetryAt(retry_at)))
    }

    async fn deliver_earlier_broadcasts(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        command: CommandId,
        names: &[(Text, Option<Text>)],
        since: Timestamp,
    ) -> Result<FollowUpOutcome> {
        let Some((definition, _)) = self.driver.load_state(execution_id).await? else {
            return Ok(FollowUpOutcome::Done);
        };
        let awaited = names.iter().map(|(name, key)| AwaitedName::new(name, key.as_ref()));
        let filter = BroadcastFilter {
            tenant_id: definition.entry.tenant_id.clone(),
            awaited: awaited.collect(),
            since,
            limit: PageLimit::MAX,
        };
        for broadcast in self.infra.store.list_broadcasts(filter).await? {
            let signal = IncomingSignal {
                key: broadcast.key,
                payload: broadcast.payload,
                actor: broadcast.actor,
                broadcast: Some(broadcast.signal_id),
                received_at: Some(broadcast.received_at),
                ..IncomingSignal::new(broadcast.name)
            };
            match self.executions.deliver_signal(execution_id, signal).await {
                Ok(_) => {}
                Err(error) if error.code().is_some_and(is_final_error) => {}
                Err(error) if error.code() == Some(ErrorCode::Paused) => {
                    let retry_at = self.infra.now().saturating_add(FOLLOW_UP_RETRY_DELAY);
                    return Ok(FollowUpOutcome::RetryAt(retry_at));
                }
                Err(error) => return Err(error),
            }
            let still_waits =
                self.driver.load_state(execution_id).await?.is_some_and(|(_, state)| {
                    let mut waits = state.open_waits();
                    waits.any(|wait| wait.command == command)
                });
            if !still_waits {
                break;
            }
        }
        Ok(FollowUpOutcome::Done)
    }

    async fn notify_parent(
        self: &Arc<Self>,
        parent: ExecutionId,
        child: ExecutionId,
    ) -> Result<FollowUpOutcome> {
        let Some((_, state)) = self.driver.load_state(parent).await? else {
            return Ok(FollowUpOutcome::Done);
        };
        let mut children = state.awaited_children();
        let Some((_, call)) = children.find(|(_, call)| call.child == child) else {
            return Ok(FollowUpOutcome::Done);
        };
        let outcome = self.load_child_end(child, call.result_step.as_ref()).await?;
        let Some(outcome) = outcome else {
            return Ok(FollowUpOutcome::Done);
        };
        self.report_child_end(parent, ChildEnded { child, outcome }).await
    }

    /// Outcome of a child, with the data that its parent requested. `None` while it is running.
    async fn load_child_end(
        self: &Arc<Self>,
        child: ExecutionId,
        step: Option<&Text>,
    ) -> Result<Option<ChildOutcome>> {
        let Some(outcome) = self.executions.load_outcome(child).await? else {
            return Ok(None);
        };
        let message = |text: Option<Text>| text.unwrap_or_else(|| "the child failed".into());
        Ok(match outcome.status {
            ExecutionStatus::Completed => {
                let execution_result = outcome.result.unwrap_or(EventData::Inline(Json::Null));
                let step_result = match step {
                    None => None,
                    Some(name) => {
                        self.driver.load_state(child).await?.and_then(|(definition, state)| {
                            let step = definition.plan.find_step(name.as_str())?;
                            Some(state.step_state(step)?.output.as_ref()?.data.clone())
                        })
                    }
                };
                let result = match (step, step_result) {
                    (_, Some(data)) => data,
                    (None, None) => execution_result,
                    (Some(_), None) => EventData::Inline(Json::Null),
                };
                Some(ChildOutcome::Completed { result })
            }
            ExecutionStatus::Failed => Some(ChildOutcome::Failed {
                error: TaskError::new(TaskErrorKind::Child, message(outcome.error)),
            }),
            ExecutionStatus::Cancelled => Some(ChildOutcome::Cancelled { reason: outcome.error }),
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => None,
        })
    }

    async fn report_child_end(
        self: &Arc<Self>,
        parent: ExecutionId,
        ended: ChildEnded,
    ) -> Result<FollowUpOutcome> {
        let (message, answer) = Message::new(EngineInput::ChildEnded(Box::new(ended)));
        match self.driver.send_and_wait(parent, message, answer).await {
            Ok(_) => Ok(FollowUpOutcome::Done),
            Err(error) => match error.code() {
                // A paused execution is notified after it resumes.
                Some(ErrorCode::Paused) => {
                    let retry_at = self.infra.now().saturating_add(FOLLOW_UP_RETRY_DELAY);
                    Ok(FollowUpOutcome::RetryAt(retry_at))
                }
                Some(code) if is_final_error(code) => Ok(FollowUpOutcome::Done),
                Some(_) | None => Err(error),
            },
        }
    }
}

/// True if a retry would fail in the same way.
pub(crate) fn is_final_error(code: ErrorCode) -> bool {
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
            | ErrorCode::QuotaExceeded
    )
}
