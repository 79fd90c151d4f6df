//! Control of executions by people: cancel, pause, resume, finalize, clean up.

use std::collections::VecDeque;

use futures_util::future::join_all;
use noetl_api::execution::{
    CancelRequest, CancelResponse, CancellationCheck, CleanupRequest, CleanupResponse,
    ControlRequest, ControlResponse, FinalizeRequest, FinalizeResponse,
};
use noetl_engine::event::ControlInfo;
use noetl_engine::{CancelInput, EngineInput, FinalizeInput, InputVerdict};
use noetl_store::{Execution, ExecutionFilter, ExecutionOrigin, FollowUpOutcome};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, ExecutionId, ExecutionStatus, Millis, TaskError, TaskErrorKind, Text, Timestamp,
};

use crate::access::CallContext;
use crate::driver::{Message, MessageReply};
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Executions;
use crate::services::follow_ups::PendingFollowUp;

/// Maximum executions of each status that one cleanup examines.
const MAX_CLEANUP_SCAN: usize = 20_000;

impl Executions {
    /// Cancels an execution and, unless the request disables the cascade, the children it waits
    /// for. After the answer, no command of it is issued or leased, except those of its final step.
    /// A second request ends the final step.
    pub async fn cancel_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: CancelRequest,
    ) -> Result<CancelResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let control = ControlInfo { actor, reason: request.reason };
        let keeps_children = !request.cascade.unwrap_or(true);
        let cancel = CancelInput { control, keeps_children, is_forced: request.force };
        let mut status = "cancelled";
        let (cancelled_executions, message) = match self.request_cancel(execution_id, cancel).await
        {
            Ok(reply) => {
                let mut cancelled = vec![execution_id];
                cancelled.extend(self.cancel_descendants(execution_id, reply.children).await);
                if reply.outcome.is_some() {
                    (cancelled, "the execution is cancelled")
                } else {
                    status = "cancelling";
                    (
                        cancelled,
                        "the execution is cancelled; its final step runs. Cancel it again to end the final step",
                    )
                }
            }
            Err(error) => {
                let is_over = error.code() == Some(ErrorCode::AlreadyTerminal);
                if !is_over
                    || self.current_status(execution_id).await? != Some(ExecutionStatus::Cancelled)
                {
                    return Err(error);
                }
                (Vec::new(), "the execution was already cancelled")
            }
        };
        Ok(CancelResponse {
            execution_id,
            status: status.into(),
            cancelled_executions,
            message: message.into(),
        })
    }

    /// Cancels an execution, or ends the final step of one that was cancelled before.
    async fn request_cancel(
        &self,
        execution_id: ExecutionId,
        mut cancel: CancelInput,
    ) -> Result<MessageReply> {
        loop {
            let (message, reply) = Message::new(EngineInput::Cancel(cancel.clone()));
            let message = message.cancelling_children();
            let reply = self.driver.send_and_wait(execution_id, message, reply).await?;
            if cancel.is_forced || reply.verdict != Some(InputVerdict::Duplicate) {
                return Ok(reply);
            }
            cancel.is_forced = true;
        }
    }

    /// Returns whether an execution was cancelled.
    pub async fn check_cancellation(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
    ) -> Result<CancellationCheck> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        Ok(CancellationCheck {
            execution_id,
            is_cancelled: row.view.status == ExecutionStatus::Cancelled,
        })
    }

    /// Pauses an execution: no command is issued or leased until it is resumed. A paused execution
    /// stays paused.
    pub async fn pause_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: ControlRequest,
    ) -> Result<ControlResponse> {
        let input = EngineInput::Pause(ControlInfo { actor, reason: request.reason });
        self.set_paused(ctx, execution_id, input, true).await
    }

    /// Resumes an execution. A running one stays running.
    pub async fn resume_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: ControlRequest,
    ) -> Result<ControlResponse> {
        let input = EngineInput::Resume(ControlInfo { actor, reason: request.reason });
        self.set_paused(ctx, execution_id, input, false).await
    }

    async fn set_paused(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        input: EngineInput,
        paused: bool,
    ) -> Result<ControlResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let (message, reply) = Message::new(input);
        let outcome = self.driver.send_and_wait(execution_id, message, reply).await;
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let (view, is_driven) = (&row.view, row.facts.origin == ExecutionOrigin::Driven);
        let is_already_set = view.paused == paused && is_driven && !view.status.is_terminal();
        match outcome {
            Ok(_) => {}
            Err(_) if is_already_set => {}
            Err(error) => return Err(error),
        }
        Ok(ControlResponse { execution_id, status: row.view.status, seq: row.head.version.get() })
    }

    /// Sets the final status of an execution that does not end by itself. Open commands are
    /// withdrawn first.
    pub async fn finalize_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: FinalizeRequest,
    ) -> Result<FinalizeResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        let text = || Text::from("an operator finalized the execution as failed");
        let error = match request.status {
            ExecutionStatus::Completed => None,
            ExecutionStatus::Failed => {
                Some(TaskError::new(TaskErrorKind::Unknown, request.error.unwrap_or_else(text)))
            }
            ExecutionStatus::Pending
            | ExecutionStatus::Running
            | ExecutionStatus::Paused
            | ExecutionStatus::Cancelled => {
                let text = "an execution can only be finalized as COMPLETED or FAILED";
                return Err(RuntimeError::invalid(text));
            }
        };
        let finalize =
            FinalizeInput { error, control: ControlInfo { actor, reason: request.reason } };
        let (finalize_message, reply) = Message::new(EngineInput::Finalize(Box::new(finalize)));
        self.driver.send_and_wait(execution_id, finalize_message, reply).await?;
        let status = ctx.visible_execution(self.infra.store(), execution_id).await?.view.status;
        Ok(FinalizeResponse {
            execution_id,
            status,
            message: format!("the execution is {status}").into(),
        })
    }

    /// Cancels executions that cannot make progress: those without open commands, timers or waits.
    pub async fn cancel_idle_executions(
        &self,
        ctx: &CallContext,
        actor: Option<Text>,
        request: CleanupRequest,
    ) -> Result<CleanupResponse> {
        let age = Millis::from_secs(u64::from(request.older_than_minutes) * 60);
        let before = self.infra.now().saturating_sub(age);
        let mut idle = Vec::new();
        for status in [ExecutionStatus::Pending, ExecutionStatus::Running] {
            idle.extend(self.find_idle_executions(ctx, status, before).await?);
        }
        let mut cancelled = Vec::new();
        for execution_id in idle {
            if request.dry_run {
                cancelled.push(execution_id);
                continue;
            }
            let cancel_request = CancelRequest {
                reason: Some("cleanup: the execution had nothing open".into()),
                ..CancelRequest::default()
            };
            match self.cancel_execution(ctx, execution_id, actor.clone(), cancel_request).await {
                Ok(_) => cancelled.push(execution_id),
                Err(error) => {
                    tracing::debug!(%error, %execution_id, "an idle execution was not cancelled");
                }
            }
        }
        let count = u32::try_from(cancelled.len()).unwrap_or(u32::MAX);
        let verb = if request.dry_run { "would be" } else { "were" };
        Ok(CleanupResponse {
            cancelled_count: if request.dry_run { 0 } else { count },
            execution_ids: cancelled,
            message: format!("{count} executions {verb} cancelled").into(),
        })
    }

    /// Finds executions of a status that started before a time and have nothing open.
    async fn find_idle_executions(
        &self,
        ctx: &CallContext,
        status: ExecutionStatus,
        before: Timestamp,
    ) -> Result<Vec<ExecutionId>> {
        let mut filter = ExecutionFilter {
            tenant_id: ctx.tenant().clone(),
            status: Some(status),
            path: None,
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let (mut idle, mut scanned) = (Vec::new(), 0);
        while scanned < MAX_CLEANUP_SCAN {
            let page = self.infra.store().list_executions(filter.clone()).await?;
            scanned += page.executions.len();
            for execution in page.executions {
                let is_visible = ctx.auth.can_see_path(execution.facts.path.as_ref());
                let is_old = execution.facts.started_at <= before;
                if is_visible && is_old && self.is_execution_idle(&execution).await? {
                    idle.push(execution.execution_id);
                }
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        Ok(idle)
    }

    async fn is_execution_idle(&self, execution: &Execution) -> Result<bool> {
        if execution.facts.origin != ExecutionOrigin::Driven {
            return Ok(false);
        }
        let folded = self.driver.load_state(execution.execution_id).await?;
        Ok(folded.is_some_and(|(definition, state)| {
            let has_timer = state.pending_timers(&definition.plan).next().is_some();
            state.open_command_count() == 0 && !has_timer
        }))
    }

    async fn current_status(&self, execution_id: ExecutionId) -> Result<Option<ExecutionStatus>> {
        let execution = self.infra.store().find_execution(execution_id).await?;
        Ok(execution.map(|execution| execution.view.status))
    }

    /// Cancels executions that their parent no longer awaits, and all their descendants. Returns
    /// those that were cancelled by this call. Those that fail or exceed the limit stay recorded as
    /// follow-ups.
    pub(crate) async fn cancel_descendants(
        &self,
        parent: ExecutionId,
        children: Vec<ExecutionId>,
    ) -> Vec<ExecutionId> {
        let mut queue: VecDeque<_> = children.into_iter().map(|child| (parent, child)).collect();
        let mut cancelled = Vec::new();
        while !queue.is_empty() && cancelled.len() < MAX_CANCELLED_DESCENDANTS {
            // Concurrently, so that the cancellations share commits.
            let count = queue.len().min(CANCEL_CONCURRENCY);
            let cancel = |(parent, child)| self.cancel_recorded_child(parent, child);
            for (child, ended) in join_all(queue.drain(..count).map(cancel)).await {
                cancelled.extend(ended.is_new.then_some(child));
                queue.extend(ended.awaited_children.into_iter().map(|awaited| (child, awaited)));
            }
        }
        cancelled
    }

    /// Cancels a child and records the result of the follow-up.
    async fn cancel_recorded_child(
        &self,
        parent: ExecutionId,
        child: ExecutionId,
    ) -> (ExecutionId, CancelledChild) {
        let id = PendingFollowUp::CancelChild { child }.follow_up_id();
        let (outcome, ended) = match self.cancel_child(parent, child).await {
            Ok(ended) => (Ok(ended.outcome), ended),
            Err(error) => (Err(error), CancelledChild::unchanged(FollowUpOutcome::Done)),
        };
        self.complete_follow_up(parent, &id, outcome).await;
        (child, ended)
    }

    pub(crate) async fn cancel_child(
        &self,
        parent: ExecutionId,
        child: ExecutionId,
    ) -> Result<CancelledChild> {
        let control = ControlInfo {
            actor: None,
            reason: Some(format!("execution {parent} no longer waits for it").into()),
        };
        let (message, answer) = Message::new(EngineInput::Cancel(control.into()));
        let now = self.infra.now();
        match self.driver.send_and_wait(child, message.cancelling_children(), answer).await {
            Ok(reply) => Ok(CancelledChild {
                outcome: FollowUpOutcome::Done,
                is_new: true,
                awaited_children: reply.children,
            }),
            Err(error) => match error.code() {
                Some(ErrorCode::AlreadyTerminal | ErrorCode::RetentionDropped) => {
                    Ok(CancelledChild::unchanged(FollowUpOutcome::Done))
                }
                // Another server may be about to start it.
                Some(ErrorCode::NotFound)
                    if now < child.time().saturating_add(CHILD_CREATION_GRACE) =>
                {
                    Ok(CancelledChild::unchanged(FollowUpOutcome::RetryAt(
                        now.saturating_add(FOLLOW_UP_RETRY_DELAY),
                    )))
                }
                Some(ErrorCode::NotFound) => Ok(CancelledChild::unchanged(FollowUpOutcome::Done)),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Records the result of a follow-up.
    pub(crate) async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        id: &Text,
        outcome: Result<FollowUpOutcome>,
    ) {
        let outcome = outcome.unwrap_or_else(|error| {
            tracing::warn!(error = %error_chain(&error), %execution_id, follow_up = %id, "a follow-up failed and will be retried");
            FollowUpOutcome::RetryAt(self.infra.now().saturating_add(FOLLOW_UP_RETRY_DELAY))
        });
        let completed = self.infra.store.complete_follow_up(execution_id, id, outcome).await;
        if let Err(error) = completed {
            // It will be performed again, which changes nothing.
            tracing::warn!(error = %error_chain(&error), %execution_id, follow_up = %id, "recording the result of a follow-up failed");
        }
    }
}

/// Delay before a failed follow-up is retried.
pub(crate) const FOLLOW_UP_RETRY_DELAY: Millis = Millis::from_secs(2);

/// Time after its id was allocated during which a child that is to be cancelled may still be
/// created.
const CHILD_CREATION_GRACE: Millis = Millis::from_secs(60);

/// Maximum descendants cancelled together with an execution. The others are cancelled when their
/// follow-ups are due.
const MAX_CANCELLED_DESCENDANTS: usize = 1_000;

/// Descendants that are cancelled concurrently.
const CANCEL_CONCURRENCY: usize = 64;

/// Result of cancelling a child.
pub(crate) struct CancelledChild {
    pub(crate) outcome: FollowUpOutcome,
    /// True if this call cancelled it.
    is_new: bool,
    /// Executions that it was waiting for.
    pub(crate) awaited_children: Vec<ExecutionId>,
}

impl CancelledChild {
    fn unchanged(outcome: FollowUpOutcome) -> Self {
        Self { outcome, is_new: false, awaited_children: Vec::new() }
    }
}
