//! What the policy of a task makes of its outcome, for workers that leave this to the server.

use noetl_engine::{Data, ReportOutcome, TaskResult};
use noetl_playbook::model::Tool;
use noetl_playbook::shift::{Answer, Do, Job, MAX_DATA, MAX_TASK_RUNS, Moment, Shift};
use noetl_playbook::template::TemplateLimits;
use noetl_store::Command;
use noetl_types::{ErrorCode, JsonMap, Millis, TaskError, TaskErrorKind, Text, WorkerId};

use super::context::{Issued, iteration};
use crate::runtime::{Core, RuntimeError, entropy};

/// What follows from an attempt.
pub(super) enum Judged {
    /// Nothing more: this came of the command.
    Over(Box<ReportOutcome>),
    /// The task is made again.
    Again(TaskError, Millis),
}

/// An attempt that a worker tells of.
pub(super) struct Attempted<'a> {
    pub(super) issued: &'a Issued,
    pub(super) command: &'a Command,
    pub(super) worker: &'a WorkerId,
    /// Which attempt of the task it was, from 1.
    pub(super) number: u32,
    pub(super) answer: Answer,
    /// What the tasks of a pipeline wrote, which only its worker knows.
    pub(super) set: JsonMap,
}

impl Core {
    /// Follows `set` and policy of a task. A pipeline is the worker's from beginning to end, and so
    /// is a frame of rows: what it says of one counts.
    pub(super) async fn judged(&self, attempted: Attempted<'_>) -> Result<Judged, RuntimeError> {
        let step = attempted.issued.step()?;
        let is_frame = attempted.issued.command()?.frame.is_some();
        if is_frame || matches!(step.tool, Tool::Pipeline(_)) {
            return Ok(Judged::Over(Box::new(plain(
                attempted.answer,
                attempted.set,
            ))));
        }
        let told = attempted.answer.error.clone();
        let shift = Shift::new(job(&attempted)?)
            .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))?;
        let mut shift = shift.answered(attempted.number, attempted.answer);
        loop {
            let moment = Moment {
                now: Some(self.clock.now()),
                dice: entropy::dice(&*self.chance),
            };
            shift = match shift.next(moment) {
                Do::Done(finished) => {
                    let mut finished = *finished;
                    finished.set.extend(attempted.set);
                    return Ok(Judged::Over(Box::new(ReportOutcome::from(finished))));
                }
                // A task that is to run again at once, or from the start.
                Do::Call(..) => return Ok(Judged::Again(made_again(told), Millis::ZERO)),
                Do::Wait(delay, _) => return Ok(Judged::Again(made_again(told), delay)),
                // Whoever called the tool read the keychain; what is judged here needs none.
                Do::Unlock(_, unlocking) => unlocking.unlocked(Err(TaskError::new(
                    TaskErrorKind::Auth,
                    "the server reads no keychain",
                ))),
                Do::Fetch(wanted, fetching) => {
                    let payload = self.fetch(&wanted.uri).await;
                    fetching.fetched(payload.map_err(|error| {
                        TaskError::new(TaskErrorKind::StorageAccess, error.to_string())
                    }))
                }
            };
        }
    }
}

fn made_again(told: Option<TaskError>) -> TaskError {
    told.unwrap_or_else(|| {
        TaskError::new(
            TaskErrorKind::Unknown,
            "it went well, and its policy has it made again",
        )
    })
}

/// What a worker says, as it says it.
pub(super) fn plain(answer: Answer, set: JsonMap) -> ReportOutcome {
    let result = TaskResult {
        set,
        ..TaskResult::from(Data::Inline(answer.data))
    };
    match answer.error {
        None => ReportOutcome::Completed(result),
        Some(error) => ReportOutcome::Failed { error, result },
    }
}

fn job(attempted: &Attempted<'_>) -> Result<Job, RuntimeError> {
    let (issued, command) = (attempted.issued, attempted.command);
    let seq = issued.event.seq;
    Ok(Job {
        playbook: issued.definition.plan.playbook().clone(),
        step: Text::from(&issued.command()?.step),
        execution_id: command.execution_id,
        command_id: Some(command.command_id),
        worker_id: Some(attempted.worker.clone()),
        idempotency_key: format!("{}:{seq}", command.execution_id).into(),
        carried: issued.carried.clone(),
        iteration: iteration(issued),
        frame: None,
        issued_at: issued.event.time,
        limits: TemplateLimits::default(),
        max_data: MAX_DATA,
        max_task_runs: MAX_TASK_RUNS,
    })
}
