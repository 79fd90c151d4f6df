//! Suspended tasks: started at one time and completed at another, possibly by another server.
//!
//! Nothing is stored in between except the event log. The completing server recreates the command,
//! passes the result of the wait, and receives what the task's `set` and policy make of it.

use std::fmt;
use std::sync::Arc;

use noetl_types::report::RetriedTask;
use noetl_types::{JsonMap, Millis, TaskError, TaskErrorKind};

use super::MachineInput;
use super::call::{CallSpec, ToolResult};
use super::command_spec::{CommandSpec, NoSuchStep};
use super::outcome::MachineOutcome;
use super::state::{CommandState, MachineHost, RenderFailure, Transition};
use crate::command_context::PayloadLookup;
use crate::template::FetchNeed;

/// A command whose current task is suspended.
pub struct SuspendedCommand {
    state: Box<CommandState>,
    /// True if no further attempt is allowed.
    is_last_attempt: bool,
}

/// Reasons why a suspended task cannot start.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskStartError {
    /// A template reads a payload that is not available.
    Needs(Arc<str>),
    /// The attempt has already failed.
    Failed(Box<TaskError>),
}

/// The outcome of a wait that has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitOutcome {
    /// The wait starts again.
    Retry(Box<WaitRetry>),
    /// The command is finished.
    Finished(Box<MachineOutcome>),
}

/// A wait that starts again.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitRetry {
    /// Delay before the next attempt.
    pub delay: Millis,
    /// The error of the attempt. `None` if a rule retries a successful attempt.
    pub error: Option<TaskError>,
    /// All values written so far, by the keys of `set`.
    pub set: JsonMap,
    /// The outcome of the command, for a task whose next attempt is a separate command.
    pub outcome: MachineOutcome,
}

impl fmt::Debug for SuspendedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SuspendedCommand").field(&self.state.describe_position()).finish()
    }
}

impl SuspendedCommand {
    /// Creates the machine at the first task of a command, at the given attempt (from 1), with the
    /// values that earlier attempts wrote.
    pub fn new(spec: CommandSpec, attempt: u32, set: &JsonMap) -> Result<Self, NoSuchStep> {
        let mut state = CommandState::new(spec, MachineHost::Server)?;
        state.resume_attempt(attempt, set);
        Ok(Self { state: Box::new(state), is_last_attempt: false })
    }

    /// Disallows further attempts. A task that would be retried then fails with its last error, and
    /// its written values are kept.
    #[must_use]
    pub fn without_retry(self) -> Self {
        Self { is_last_attempt: true, ..self }
    }

    /// Renders the call of the task.
    pub fn render_call(
        &mut self,
        payloads: &dyn PayloadLookup,
    ) -> Result<CallSpec, TaskStartError> {
        loop {
            match self.state.prepare_call() {
                Ok(spec) => return Ok(spec),
                Err(RenderFailure::Failed(error)) => {
                    return Err(TaskStartError::Failed(Box::new(error)));
                }
                Err(RenderFailure::Needs(target)) => {
                    self.provide_input(target, payloads).map_err(TaskStartError::Needs)?;
                }
            }
        }
    }

    /// Applies the `set` and the policy of the task to the result of its wait. Fails with the URI
    /// of a payload that must be fetched first.
    pub fn conclude_wait(
        mut self,
        result: ToolResult,
        input: MachineInput,
        payloads: &dyn PayloadLookup,
    ) -> Result<WaitOutcome, Arc<str>> {
        while let Err(uri) = self.state.restore_input() {
            self.provide_payload(uri, payloads)?;
        }
        self.state.record_result(result);
        loop {
            match self.state.advance(input) {
                Transition::Continue => {}
                Transition::Fetch(target) => self.provide_input(target, payloads)?,
                Transition::End(error) => {
                    return Ok(WaitOutcome::Finished(Box::new(self.state.into_outcome(error))));
                }
                Transition::HandOver(task_index) => {
                    return Ok(WaitOutcome::Finished(Box::new(self.state.hand_over(task_index))));
                }
                Transition::Wait(_) if self.is_last_attempt => {
                    return Ok(WaitOutcome::Finished(Box::new(self.fail_without_retry())));
                }
                Transition::Wait(delay) => {
                    return Ok(WaitOutcome::Retry(Box::new(self.into_wait_retry(delay))));
                }
                // The server only completes suspended tasks. It never calls or suspends them.
                Transition::Call(_) | Transition::Suspend(_) => {
                    return Ok(WaitOutcome::Retry(Box::new(self.into_wait_retry(Millis::ZERO))));
                }
            }
        }
    }

    fn fail_without_retry(mut self) -> MachineOutcome {
        let error = self.state.undo_retry();
        let cancelled =
            || TaskError::new(TaskErrorKind::Cancelled, "no further attempt is allowed");
        let error = error.unwrap_or_else(|| self.state.locate_error(cancelled()));
        self.state.into_outcome(Some(error))
    }

    fn into_wait_retry(self, delay: Millis) -> WaitRetry {
        let set = self.state.set.clone();
        let mut outcome = self.state.hand_over_retry(delay);
        let error = outcome.retries.pop().map(|RetriedTask { error, .. }| error);
        WaitRetry { delay, error, set, outcome }
    }

    fn provide_input(
        &mut self,
        target: FetchNeed,
        payloads: &dyn PayloadLookup,
    ) -> Result<(), Arc<str>> {
        match target {
            FetchNeed::Payload { reference } => self.provide_payload(reference, payloads),
            FetchNeed::Secret { name } => {
                let text = "the server does not read the keychain";
                let error = TaskError::new(TaskErrorKind::Auth, text);
                self.state.record_secret(name, Err(error));
                Ok(())
            }
        }
    }

    fn provide_payload(
        &mut self,
        uri: Arc<str>,
        payloads: &dyn PayloadLookup,
    ) -> Result<(), Arc<str>> {
        let Some(payload) = payloads.get_payload(&uri) else {
            return Err(uri);
        };
        self.state.record_payload(uri, Ok(payload));
        Ok(())
    }
}
