//! People steer executions.

use noetl_api::execution::{
    CancelAnswer, CancelRequest, CancellationCheck, CleanupAnswer, CleanupRequest, FinalizeAnswer,
    FinalizeRequest, SteerAnswer, SteerRequest,
};
use noetl_engine::event::Steering;
use noetl_engine::{Finalize, Input};
use noetl_store::{Execution, ExecutionFilter, Origin};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, ExecutionId, ExecutionStatus, Millis, TaskError, TaskErrorKind, Text, Timestamp,
};

use super::Runtime;
use super::driver::Letter;
use super::error::RuntimeError;

/// Executions that one cleanup looks at, of each status.
const MAX_CLEANED: usize = 20_000;

fn steering(actor: Option<Text>, request: SteerRequest) -> Steering {
    Steering {
        actor,
        reason: request.reason,
    }
}

impl Runtime {
    /// Ends an execution, and those that it waits for unless they are to go on. Once this is answered,
    /// nothing of it is issued or handed out any more.
    pub async fn cancel(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: CancelRequest,
    ) -> Result<CancelAnswer, RuntimeError> {
        self.execution_row(execution_id).await?;
        let steering = Steering {
            actor,
            reason: request.reason,
        };
        let input = if request.cascade.unwrap_or(true) {
            Input::Cancel(steering)
        } else {
            Input::CancelAlone(steering)
        };
        let (letter, reply) = Letter::new(input);
        let asked = self.core.ask(execution_id, letter.ending_children(), reply);
        let (cancelled_executions, message) = match asked.await {
            Ok(reply) => {
                let mut cancelled = vec![execution_id];
                cancelled.extend(self.core.cancel_below(execution_id, reply.children).await);
                (cancelled, "the execution is cancelled")
            }
            Err(error) => {
                let is_over = error.code() == Some(ErrorCode::AlreadyTerminal);
                if !is_over
                    || self.status_of(execution_id).await? != Some(ExecutionStatus::Cancelled)
                {
                    return Err(error);
                }
                (Vec::new(), "the execution was cancelled before")
            }
        };
        Ok(CancelAnswer {
            execution_id,
            status: "cancelled".into(),
            cancelled_executions,
            message: message.into(),
        })
    }

    /// Whether somebody ended an execution.
    pub async fn cancellation(
        &self,
        execution_id: ExecutionId,
    ) -> Result<CancellationCheck, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        Ok(CancellationCheck {
            execution_id,
            is_cancelled: row.view.status == ExecutionStatus::Cancelled,
        })
    }

    /// Holds an execution: nothing is issued or handed out until it is resumed. One that is held
    /// already stays so.
    pub async fn pause(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: SteerRequest,
    ) -> Result<SteerAnswer, RuntimeError> {
        let input = Input::Pause(steering(actor, request));
        self.steer(execution_id, input, true).await
    }

    /// Lets an execution go on. One that goes on already stays so.
    pub async fn resume(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: SteerRequest,
    ) -> Result<SteerAnswer, RuntimeError> {
        let input = Input::Resume(steering(actor, request));
        self.steer(execution_id, input, false).await
    }

    async fn steer(
        &self,
        execution_id: ExecutionId,
        input: Input,
        paused: bool,
    ) -> Result<SteerAnswer, RuntimeError> {
        self.execution_row(execution_id).await?;
        let (letter, reply) = Letter::new(input);
        let steered = self.core.ask(execution_id, letter, reply).await;
        let row = self.execution_row(execution_id).await?;
        let (view, is_driven) = (&row.view, row.facts.origin == Origin::Driven);
        let is_so = view.paused == paused && is_driven && !view.status.is_terminal();
        match steered {
            Ok(_) => {}
            Err(_) if is_so => {}
            Err(error) => return Err(error),
        }
        Ok(SteerAnswer {
            execution_id,
            status: row.view.status,
            seq: row.head.version.get(),
        })
    }

    /// Says how an execution ended that does not end by itself. What is open is withdrawn first.
    pub async fn finalize(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: FinalizeRequest,
    ) -> Result<FinalizeAnswer, RuntimeError> {
        self.execution_row(execution_id).await?;
        let text = || Text::from("an operator called it failed");
        let error = match request.status {
            ExecutionStatus::Completed => None,
            ExecutionStatus::Failed => Some(TaskError::new(
                TaskErrorKind::Unknown,
                request.error.unwrap_or_else(text),
            )),
            ExecutionStatus::Pending
            | ExecutionStatus::Running
            | ExecutionStatus::Paused
            | ExecutionStatus::Cancelled => {
                let text = "an execution is finalized as COMPLETED or FAILED";
                return Err(RuntimeError::refused(ErrorCode::Validation, text));
            }
        };
        let finalize = Finalize {
            error,
            steering: Steering {
                actor,
                reason: request.reason,
            },
        };
        let (letter, reply) = Letter::new(Input::Finalize(Box::new(finalize)));
        self.core.ask(execution_id, letter, reply).await?;
        let status = self.execution_row(execution_id).await?.view.status;
        Ok(FinalizeAnswer {
            execution_id,
            status,
            message: format!("the execution is {status}").into(),
        })
    }

    /// Ends executions that nothing can happen to any more: no command, timer or wait is open.
    pub async fn clean_up(
        &self,
        actor: Option<Text>,
        request: CleanupRequest,
    ) -> Result<CleanupAnswer, RuntimeError> {
        let age = Millis::from_secs(u64::from(request.older_than_minutes) * 60);
        let before = self.now().saturating_sub(age);
        let mut found = Vec::new();
        for status in [ExecutionStatus::Pending, ExecutionStatus::Running] {
            found.extend(self.idle(status, before).await?);
        }
        let mut ended = Vec::new();
        for execution_id in found {
            if request.dry_run {
                ended.push(execution_id);
                continue;
            }
            let reason = CancelRequest {
                reason: Some("cleanup: nothing was open any more".into()),
                cascade: None,
            };
            match self.cancel(execution_id, actor.clone(), reason).await {
                Ok(_) => ended.push(execution_id),
                Err(error) => tracing::debug!(%error, %execution_id, "not cleaned up"),
            }
        }
        let count = u32::try_from(ended.len()).unwrap_or(u32::MAX);
        let what = if request.dry_run { "would be" } else { "were" };
        Ok(CleanupAnswer {
            cancelled_count: if request.dry_run { 0 } else { count },
            execution_ids: ended,
            message: format!("{count} executions {what} cancelled").into(),
        })
    }

    /// Executions of a status that began before a time and that nothing is open in.
    async fn idle(
        &self,
        status: ExecutionStatus,
        before: Timestamp,
    ) -> Result<Vec<ExecutionId>, RuntimeError> {
        let mut filter = ExecutionFilter {
            tenant_id: self.tenant().clone(),
            status: Some(status),
            path: None,
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let (mut idle, mut scanned) = (Vec::new(), 0);
        while scanned < MAX_CLEANED {
            let page = self.store().executions(filter.clone()).await?;
            scanned += page.executions.len();
            for execution in page.executions {
                let is_theirs = self.behalf().sees(execution.facts.path.as_ref());
                let is_old = execution.facts.started_at <= before;
                if is_theirs && is_old && self.is_idle(&execution).await? {
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

    async fn is_idle(&self, execution: &Execution) -> Result<bool, RuntimeError> {
        if execution.facts.origin != Origin::Driven {
            return Ok(false);
        }
        let folded = self.state_of(execution.execution_id).await?;
        Ok(folded.is_some_and(|(definition, state)| {
            let has_timer = state.timers(&definition.plan).next().is_some();
            state.open_commands() == 0 && !has_timer
        }))
    }

    async fn status_of(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionStatus>, RuntimeError> {
        let execution = self.store().execution(execution_id).await?;
        Ok(execution.map(|execution| execution.view.status))
    }
}
