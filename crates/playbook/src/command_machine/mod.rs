//! The execution of one command as a state machine without I/O.
//!
//! Owns the meaning of a step's tasks on a worker: which templates are rendered when and against
//! which environment, how a policy rules on an attempt, where the pipeline continues, and what is
//! reported at the end. Tools, clocks, randomness and stores belong to the caller: a
//! [`CommandMachine`] returns the next [`MachineAction`], receives its result, and continues. So
//! the worker of a cluster and the worker of a simulation differ only in their tools, and the same
//! results lead to the same calls.
//!
//! ```text
//! CommandMachine::next ──► Call ──► PendingCall::complete_call ────────────┐
//!      ▲              ├──► Fetch ─► PendingFetch::complete_fetch ──────────┤
//!      │              ├──► ResolveSecret ► PendingSecret::complete_secret ─┤
//!      │              ├──► Wait ───────────────────────────────────────────┤
//!      │              └──► Done                                            │
//!      └───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Memory is bounded: it does not grow with the number of attempts.

mod call;
mod command_spec;
mod continuation;
mod environment;
mod outcome;
mod state;
mod suspension;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use noetl_types::redact::SharedSecretSet;
use noetl_types::report::RetriedTask;
use noetl_types::{Digest, Json, Millis, TaskError, Timestamp};

pub use call::{CallSpec, CodeContext, ToolResult, needs_full_context, noop_data};
pub use command_spec::{CommandSpec, MAX_TASK_DATA, MAX_TASK_RUNS, NoSuchStep};
pub use continuation::{Continuation, ContinuationState};
pub use outcome::{MachineOutcome, NextStage};
pub use state::KeychainEntrySpec;
pub use suspension::{SuspendedCommand, TaskStartError, WaitOutcome, WaitRetry};

use crate::template::FetchNeed;
use state::{CommandState, EntryError, MachineHost, Transition};

/// A command that is ready to continue.
pub struct CommandMachine(Box<CommandState>);

/// A command that waits for a tool.
pub struct PendingCall(Box<CommandState>);

/// A command that waits for a payload.
pub struct PendingFetch(Box<CommandState>, Arc<str>);

/// A command that waits for a keychain entry.
pub struct PendingSecret(Box<CommandState>, Arc<str>);

/// External input for the next step of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MachineInput {
    /// The time, if it is to be recorded.
    pub now: Option<Timestamp>,
    /// A random number, at least 0 and below 1, for jittered delays.
    pub random_fraction: f64,
}

/// The next action of the caller.
#[derive(Debug)]
pub enum MachineAction {
    /// Run a tool.
    Call(Box<CallSpec>, PendingCall),
    /// Wait before continuing.
    Wait(Millis, CommandMachine),
    /// Fetch the payload that a template reads.
    Fetch(PayloadRequest, PendingFetch),
    /// Resolve the keychain entry that a template reads.
    ResolveSecret(Box<KeychainEntrySpec>, PendingSecret),
    /// Report the outcome. The command is finished.
    Done(Box<MachineOutcome>),
}

/// A payload that a template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRequest {
    /// The URI in its reference.
    pub uri: Arc<str>,
    /// The expected digest, according to its reference.
    pub sha256: Option<Digest>,
}

impl CommandMachine {
    /// Creates the machine of a command.
    pub fn new(spec: CommandSpec) -> Result<Self, NoSuchStep> {
        CommandState::new(spec, MachineHost::Worker).map(|state| Self(Box::new(state)))
    }

    /// Creates the machine of a command whose tool is called by a worker that applies no policy. It
    /// ends after one task. Another command continues with the next one.
    pub fn for_one_task(spec: CommandSpec) -> Result<Self, NoSuchStep> {
        CommandState::new(spec, MachineHost::WorkerProxy).map(|state| Self(Box::new(state)))
    }

    /// Records everything that is made from secrets in this set.
    #[must_use]
    pub fn with_secret_set(mut self, secrets: SharedSecretSet) -> Self {
        self.0.secret_set = secrets;
        self
    }

    /// Records the result of a tool that was called elsewhere, in an attempt counted from 1. The
    /// machine continues with the `set` and the policy of that attempt.
    #[must_use]
    pub fn resume_with_result(mut self, attempt: u32, result: ToolResult) -> Self {
        self.0.resume_with_result(attempt, result);
        self
    }

    /// Advances to the next action.
    pub fn next(self, input: MachineInput) -> MachineAction {
        let mut state = self.0;
        loop {
            match state.advance(input) {
                Transition::Continue => {}
                Transition::Call(spec) => return MachineAction::Call(spec, PendingCall(state)),
                Transition::Wait(delay) => return MachineAction::Wait(delay, Self(state)),
                Transition::Fetch(FetchNeed::Payload { reference }) => {
                    return fetch_action(state, reference);
                }
                Transition::Fetch(FetchNeed::Secret { name }) => {
                    match state.next_entry_spec(&name) {
                        Ok(spec) => {
                            let pending = PendingSecret(state, Arc::clone(&spec.name));
                            return MachineAction::ResolveSecret(Box::new(spec), pending);
                        }
                        Err(EntryError::Payload(uri)) => return fetch_action(state, uri),
                        Err(EntryError::Failed(error)) => state.record_secret(name, Err(error)),
                    }
                }
                Transition::End(error) => {
                    return MachineAction::Done(Box::new(state.into_outcome(error)));
                }
                Transition::HandOver(task_index) => {
                    return MachineAction::Done(Box::new(state.hand_over(task_index)));
                }
                Transition::Suspend(data) => {
                    let outcome = state.into_outcome_at(data, NextStage::Callback);
                    return MachineAction::Done(Box::new(outcome));
                }
            }
        }
    }

    /// Takes the failed attempts that are retried and were not taken before. Attempts taken here
    /// are reported early and are not part of the final outcome.
    pub fn take_retries(&mut self) -> Vec<RetriedTask> {
        std::mem::take(&mut self.0.retries).into()
    }
}

fn fetch_action(state: Box<CommandState>, uri: Arc<str>) -> MachineAction {
    let request =
        PayloadRequest { sha256: state.data.context.payload_digest(&uri), uri: Arc::clone(&uri) };
    MachineAction::Fetch(request, PendingFetch(state, uri))
}

impl PendingCall {
    /// Continues with the result of the tool.
    pub fn complete_call(mut self, result: ToolResult) -> CommandMachine {
        self.0.record_result(result);
        CommandMachine(self.0)
    }
}

impl PendingFetch {
    /// Continues with the payload, or with the error that prevents fetching it.
    pub fn complete_fetch(mut self, payload: Result<Json, TaskError>) -> CommandMachine {
        self.0.record_payload(self.1, payload);
        CommandMachine(self.0)
    }
}

impl PendingSecret {
    /// Continues with the secret, or with the error that prevents resolving it.
    pub fn complete_secret(mut self, secret: Result<Json, TaskError>) -> CommandMachine {
        self.0.record_secret(self.1, secret);
        CommandMachine(self.0)
    }
}

/// Implements what a command can do in every state. Its data may be secret, so `Debug` prints only
/// its position.
macro_rules! command_states {
    ($($name:ident),*) => {$(
        impl $name {
            /// Ends the command at its current position with an error.
            pub fn stop_with_error(self, error: TaskError) -> MachineOutcome {
                self.0.stop_with_error(error)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.describe_position()).finish()
            }
        }
    )*};
}

command_states!(CommandMachine, PendingCall, PendingFetch, PendingSecret);
