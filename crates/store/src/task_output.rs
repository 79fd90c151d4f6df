//! Output of tasks, stored while they run.
//!
//! The first and the last output of an attempt are stored, and what is between them is deleted. The
//! output of an execution is limited too. Positions are assigned under a lock of the execution, so
//! that readers can continue after the last one that they have seen.

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use noetl_types::limits::{OUTPUT_HEAD_SIZE, OUTPUT_TAIL_SIZE};

use crate::commands::COMMAND_BY_ID;
use crate::error::StoreError;
use crate::model::{
    Command, Fence, LeaseCondition, NewTaskOutput, OutputChunk, OutputFilter, TaskOutputOutcome,
};
use crate::row::{TASK_OUTPUT, ToRow as _, cells};
use crate::sql::{Database, Durability, PlanMode, Session, Statement};

/// The part of a [`crate::Store`] for the output of running tasks.
#[async_trait]
pub trait TaskOutputStore {
    /// Stores output of an attempt, if its lease is still held. Chunks that are already stored are
    /// skipped. It survives a crash of the process, but not always a power failure.
    async fn append_output(&self, output: NewTaskOutput) -> Result<TaskOutputOutcome, StoreError>;

    /// Returns a page of the output of an execution, in the order of the positions.
    async fn list_output(&self, filter: OutputFilter) -> Result<Vec<OutputChunk>, StoreError>;
}

static NEWEST_OF_EXECUTION: Statement = Statement::new(
    "SELECT position, execution_charge FROM task_output WHERE execution_id = $1
     ORDER BY position DESC LIMIT 1",
);

static NEWEST_OF_ATTEMPT: Statement = Statement::new(
    "SELECT chunk, attempt_charge FROM task_output WHERE command_id = $1 AND attempt = $2::bigint
     ORDER BY chunk DESC LIMIT 1",
);

/// Deletes the output of an attempt between its first and its last.
static DELETE_MIDDLE: Statement = Statement::new(
    "DELETE FROM task_output WHERE command_id = $1 AND attempt = $2::bigint
         AND attempt_charge > $3::bigint AND attempt_charge <= $4::bigint
     RETURNING charge",
);

static INSERT_OUTPUT: Statement = Statement::insert(&TASK_OUTPUT, "");

static LIST_OUTPUT: Statement = Statement::select(
    &TASK_OUTPUT,
    "WHERE execution_id = $1 AND position > $2::bigint
         AND ($3::text IS NULL OR step_name = $3) AND ($4::bigint IS NULL OR attempt = $4)
     ORDER BY position LIMIT $5::bigint",
);

#[async_trait]
impl<D: Database> TaskOutputStore for D {
    async fn append_output(&self, output: NewTaskOutput) -> Result<TaskOutputOutcome, StoreError> {
        self.transaction(Durability::Unsynced, PlanMode::Generic, output, append_chunks).await
    }

    async fn list_output(&self, filter: OutputFilter) -> Result<Vec<OutputChunk>, StoreError> {
        let OutputFilter { execution_id, after, step, attempt, limit } = filter;
        self.query(&LIST_OUTPUT, cells![execution_id, after, step, attempt, limit]).await
    }
}

fn append_chunks<'a>(
    session: &'a mut dyn Session,
    output: &'a NewTaskOutput,
) -> BoxFuture<'a, Result<TaskOutputOutcome, StoreError>> {
    append_under_lock(session, output).boxed()
}

async fn append_under_lock(
    session: &mut dyn Session,
    output: &NewTaskOutput,
) -> Result<TaskOutputOutcome, StoreError> {
    let NewTaskOutput { execution_id, command_id, attempt, .. } = *output;
    session.lock_by_name(&format!("task_output {execution_id}")).await?;
    let command: Option<Command> = session.query_first(&COMMAND_BY_ID, cells![command_id]).await?;
    let condition = LeaseCondition::Token(output.lease_token);
    let fence = Fence { command_id, attempt, condition };
    let holds_lease =
        |command: &Command| command.execution_id == execution_id && fence.is_satisfied_by(command);
    let Some(command) = command.filter(holds_lease) else {
        return Ok(TaskOutputOutcome::Fenced);
    };
    let newest: Option<(u64, u64)> =
        session.query_first(&NEWEST_OF_EXECUTION, cells![execution_id]).await?;
    let (mut position, mut execution_charge) = newest.unwrap_or_default();
    let newest: Option<(u32, u64)> =
        session.query_first(&NEWEST_OF_ATTEMPT, cells![command_id, attempt]).await?;
    let is_new = |number: u32| newest.is_none_or(|(newest, _)| newest < number);
    let mut attempt_charge = newest.map_or(0, |(_, charge)| charge);
    let (head, tail) = (OUTPUT_HEAD_SIZE.as_bytes(), OUTPUT_TAIL_SIZE.as_bytes());
    for chunk in output.chunks.iter().filter(|chunk| is_new(chunk.number)) {
        attempt_charge = attempt_charge.saturating_add(chunk.charge());
        if let Some(middle_end) = attempt_charge.checked_sub(tail).filter(|end| *end > head) {
            let range = cells![command_id, attempt, head, middle_end];
            let deleted: Vec<(u64,)> = session.query(&DELETE_MIDDLE, range).await?;
            let deleted: u64 = deleted.iter().map(|(charge,)| charge).sum();
            execution_charge = execution_charge.saturating_sub(deleted);
        }
        execution_charge = execution_charge.saturating_add(chunk.charge());
        if execution_charge > output.max_execution_size.as_bytes() {
            return Ok(TaskOutputOutcome::LimitReached);
        }
        position += 1;
        let row = OutputChunk {
            execution_id,
            position,
            command_id,
            attempt,
            number: chunk.number,
            step_name: command.instance.step_name.clone(),
            iter_index: command.instance.iter_index,
            task: chunk.task.clone(),
            stdout: chunk.stdout.clone(),
            stderr: chunk.stderr.clone(),
            dropped_bytes: chunk.dropped_bytes,
            is_last: chunk.is_last,
            created_at: output.now,
            charge: chunk.charge(),
            attempt_charge,
            execution_charge,
        };
        session.execute(&INSERT_OUTPUT, row.to_row()).await?;
    }
    Ok(TaskOutputOutcome::Stored)
}
