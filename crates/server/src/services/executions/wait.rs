//! Waiting for the progress and the end of executions.

use std::time::Duration;

use noetl_api::execute;
use noetl_engine::decode_record;
use noetl_messaging::ExecutionFollower;
use noetl_store::{Execution, LogPageLimit};
use noetl_types::limits::MAX_LONG_POLL_WAIT;
use noetl_types::{ExecutionId, ExecutionVersion};

use crate::access::CallContext;
use crate::driver::ExecutionOutcome;
use crate::error::{Result, RuntimeError};
use crate::services::Executions;

impl Executions {
    /// Waits up to `timeout` for an execution to end.
    pub async fn wait_for_end(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        timeout: Duration,
    ) -> Result<Option<execute::ExecutionResult>> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        self.wait_for_result(execution_id, timeout).await
    }

    pub(crate) async fn wait_for_result(
        &self,
        execution_id: ExecutionId,
        timeout: Duration,
    ) -> Result<Option<execute::ExecutionResult>> {
        let mut follower = self.driver.waiters.followers.follow_execution(execution_id);
        if let Some(outcome) = self.load_outcome(execution_id).await? {
            return self.to_api_outcome(outcome).await.map(Some);
        }
        let outcome = self.wait_for_outcome(execution_id, &mut follower, timeout).await?;
        self.to_api_outcome_if_ended(outcome).await
    }

    /// Waits for a new execution to end, if the caller requested that. Returns `None` if it has not
    /// ended in time or the server shuts down.
    pub(crate) async fn wait_if_requested(
        &self,
        execution_id: ExecutionId,
        follower: Option<ExecutionFollower<ExecutionOutcome>>,
        wait: Option<Duration>,
    ) -> Option<ExecutionOutcome> {
        let (mut follower, wait) = (follower?, wait?);
        let outcome = self.wait_for_outcome(execution_id, &mut follower, wait);
        let outcome = self.infra.shutdown.run_until_cancelled(outcome).await;
        outcome.and_then(Result::ok).flatten()
    }

    /// Outcome of an execution from its log. `None` while it is running.
    pub(crate) async fn load_outcome(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionOutcome>> {
        let execution = self.infra.store.find_execution(execution_id).await?;
        let execution = execution.ok_or_else(RuntimeError::no_execution)?;
        if !execution.view.status.is_terminal() {
            return Ok(None);
        }
        self.load_final_outcome(&execution).await.map(Some)
    }

    /// Waits for the outcome of an execution that was followed before it could end. `None` if it
    /// does not end in time.
    async fn wait_for_outcome(
        &self,
        execution_id: ExecutionId,
        follower: &mut ExecutionFollower<ExecutionOutcome>,
        timeout: Duration,
    ) -> Result<Option<ExecutionOutcome>> {
        let outcome = async {
            loop {
                if let Some(outcome) = follower.wait_for_end().await {
                    return outcome;
                }
                // A peer reported the end. If the store cannot be read now, it is read again at the
                // timeout.
                if let Ok(Some(outcome)) = self.load_outcome(execution_id).await {
                    return outcome;
                }
            }
        };
        match tokio::time::timeout(timeout, outcome).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(_) => self.load_outcome(execution_id).await,
        }
    }

    /// Converts an outcome to its API form, with the stored result loaded.
    pub(crate) async fn to_api_outcome(
        &self,
        outcome: ExecutionOutcome,
    ) -> Result<execute::ExecutionResult> {
        let result = match outcome.result {
            None => None,
            Some(noetl_engine::EventData::Inline(value)) => Some(value),
            Some(noetl_engine::EventData::External(reference)) => {
                Some(self.driver.results.fetch_result(reference.uri()).await?)
            }
        };
        Ok(execute::ExecutionResult { status: outcome.status, result, error: outcome.error })
    }

    pub(crate) async fn to_api_outcome_if_ended(
        &self,
        outcome: Option<ExecutionOutcome>,
    ) -> Result<Option<execute::ExecutionResult>> {
        match outcome {
            Some(outcome) => self.to_api_outcome(outcome).await.map(Some),
            None => Ok(None),
        }
    }

    /// Waits until the log of an execution is past `after`, or until `timeout` has elapsed.
    pub async fn wait_for_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        timeout: Duration,
    ) {
        let mut following = self.follow_execution(execution_id);
        // The caller reads the log in either case.
        drop(tokio::time::timeout(timeout, following.wait_past(after)).await);
    }

    /// Subscribes to appends to an execution, made here or reported by a peer.
    pub(crate) fn follow_execution(
        &self,
        execution_id: ExecutionId,
    ) -> ExecutionFollower<ExecutionOutcome> {
        self.driver.waiters.followers.follow_execution(execution_id)
    }

    /// Loads the outcome of an ended execution.
    async fn load_final_outcome(&self, execution: &Execution) -> Result<ExecutionOutcome> {
        let mut outcome = ExecutionOutcome {
            status: execution.view.status,
            result: None,
            error: execution.view.error.clone(),
        };
        // Only audit events follow the end, so it is near the end of the log.
        let last = execution.head.version.get();
        let after = ExecutionVersion::new((last - i64::from(LogPageLimit::MAX.get())).max(0))
            .unwrap_or_default();
        let tail =
            self.infra.store.read_events(execution.execution_id, after, LogPageLimit::MAX).await?;
        let mut events = tail.iter().rev();
        if let Some(end) = events
            .find_map(|stored| ExecutionOutcome::from_event(&decode_record(&stored.record).ok()?))
        {
            outcome = end;
        }
        Ok(outcome)
    }
}

/// Checks `wait_ms` against the maximum of a long poll.
pub(crate) fn check_long_poll_wait(wait_ms: u64) -> Result<Duration> {
    let max = MAX_LONG_POLL_WAIT.as_ms();
    if wait_ms > max {
        let text = format!("wait_ms = {wait_ms} is out of range 0..{max}");
        return Err(RuntimeError::out_of_range(text));
    }
    Ok(Duration::from_millis(wait_ms))
}
