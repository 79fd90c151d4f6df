//! Applies the policy of a task to its outcome, for workers that leave this to the server.

use noetl_engine::{EventData, ReportOutcome, TaskResult};
use noetl_playbook::command_machine::{
    CommandMachine, CommandSpec, MAX_TASK_DATA, MAX_TASK_RUNS, MachineAction, MachineInput,
    ToolResult, noop_data,
};
use noetl_playbook::model::ToolKind;
use noetl_playbook::template::TemplateLimits;
use noetl_store::Command;
use noetl_types::{JsonMap, Millis, TaskError, TaskErrorKind, Text, WorkerId};

use crate::classic::ClassicApi;
use crate::classic::context::{IssuedCommand, iteration_position};
use crate::error::{Result, RuntimeError};
use crate::rng;

/// Result of applying the policy to an attempt.
pub(crate) enum PolicyResult {
    /// The command is closed with this outcome.
    Closed(Box<ReportOutcome>),
    /// The task is retried after a delay.
    Retry(TaskError, Millis),
}

/// An attempt that a worker reported.
pub(crate) struct ReportedAttempt<'a> {
    pub(crate) issued: &'a IssuedCommand,
    pub(crate) command: &'a Command,
    pub(crate) worker: &'a WorkerId,
    /// Number of the attempt at the task, from 1.
    pub(crate) number: u32,
    pub(crate) answer: ToolResult,
    /// Variables that the tasks of a pipeline wrote, which only its worker knows.
    pub(crate) set: JsonMap,
}

impl ReportedAttempt<'_> {
    /// True for a `noop` whose worker returns no data. Its `result` is then rendered here.
    fn is_noop_without_data(&self) -> Result<bool> {
        let task = self.issued.task()?;
        let is_noop = task.is_some_and(|task| task.kind.value == ToolKind::Noop);
        let data = &self.answer.data;
        let is_empty = data.is_null() || data.as_map().is_some_and(JsonMap::is_empty);
        Ok(is_noop && is_empty && self.answer.error.is_none())
    }
}

impl ClassicApi {
    /// Applies `set` and the policy of a task. After a task of a pipeline, another command
    /// continues with the next one. The worker runs a frame of rows from beginning to end, so its
    /// result for that counts as reported.
    pub(crate) async fn apply_task_policy(
        &self,
        attempt: ReportedAttempt<'_>,
    ) -> Result<PolicyResult> {
        if attempt.issued.command()?.frame.is_some() {
            return Ok(PolicyResult::Closed(Box::new(outcome_as_reported(
                attempt.answer, attempt.set,
            ))));
        }
        let reported = attempt.answer.error.clone();
        let mut is_noop_without_data = attempt.is_noop_without_data()?;
        let machine = CommandMachine::for_one_task(build_command_spec(&attempt)?)
            .map_err(|error| RuntimeError::internal(error.to_string()))?;
        let mut machine = if is_noop_without_data {
            machine
        } else {
            machine.resume_with_result(attempt.number, attempt.answer)
        };
        loop {
            let input = MachineInput {
                now: Some(self.infra.now()),
                random_fraction: rng::random_fraction(&*self.infra.rng),
            };
            machine = match machine.next(input) {
                MachineAction::Done(finished) => {
                    let mut finished = *finished;
                    finished.set.extend(attempt.set);
                    return Ok(PolicyResult::Closed(Box::new(ReportOutcome::from(finished))));
                }
                MachineAction::Call(call, pending) if is_noop_without_data => {
                    is_noop_without_data = false;
                    pending.complete_call(ToolResult::ok(noop_data(&call.config)))
                }
                MachineAction::Call(..) => {
                    return Ok(PolicyResult::Retry(retry_error(reported), Millis::ZERO));
                }
                MachineAction::Wait(delay, _) => {
                    return Ok(PolicyResult::Retry(retry_error(reported), delay));
                }
                // The caller of the tool reads the keychain. Applying a policy needs none.
                MachineAction::ResolveSecret(_, pending) => pending.complete_secret(Err(
                    TaskError::new(TaskErrorKind::Auth, "the server does not read the keychain"),
                )),
                MachineAction::Fetch(reference, pending) => {
                    let payload = self.results.fetch_result(&reference.uri).await;
                    pending.complete_fetch(payload.map_err(|error| {
                        TaskError::new(TaskErrorKind::StorageAccess, error.to_string())
                    }))
                }
            };
        }
    }
}

fn retry_error(reported: Option<TaskError>) -> TaskError {
    reported.unwrap_or_else(|| {
        TaskError::new(
            TaskErrorKind::Unknown,
            "the task succeeded, and its policy requires a retry",
        )
    })
}

/// Builds the outcome as the worker reported it.
pub(crate) fn outcome_as_reported(answer: ToolResult, set: JsonMap) -> ReportOutcome {
    let result = TaskResult { set, ..TaskResult::from(EventData::Inline(answer.data)) };
    match answer.error {
        None => ReportOutcome::Completed(result),
        Some(error) => ReportOutcome::Failed { error, result },
    }
}

fn build_command_spec(attempt: &ReportedAttempt<'_>) -> Result<CommandSpec> {
    let (issued, command) = (attempt.issued, attempt.command);
    let seq = issued.event.seq;
    Ok(CommandSpec {
        playbook: issued.definition.plan.playbook().clone(),
        step: Text::from(&issued.command()?.step),
        execution_id: command.execution_id,
        command_id: Some(command.command_id),
        worker_id: Some(attempt.worker.clone()),
        idempotency_key: format!("{}:{seq}", command.execution_id).into(),
        context: issued.context.clone(),
        iteration: iteration_position(issued),
        frame_max_rows: None,
        issued_at: issued.event.time,
        limits: TemplateLimits::default(),
        budget: None,
        max_data: MAX_TASK_DATA,
        max_task_runs: MAX_TASK_RUNS,
    })
}
