//! Drives executions, each in its own order.
//!
//! An execution has a mailbox. Whatever happens to it is put in there, and one task at a time takes
//! what has come together, decides it in sequence, and appends it once. So reports of one execution
//! that arrive together share a commit, and executions do not wait for one another.
//!
//! States of executions that go on are kept in memory, as many as there is room for. What is in
//! memory is never the truth: an append names the version that it follows, and after a conflict the
//! rest of the log is read and everything is decided again.

mod beyond;
mod cell;
mod changes;
mod grant;
mod letter;
mod live;
mod snapshot;
mod turn;

use std::sync::Arc;

use noetl_api::explain::At;
use noetl_engine::State;
use noetl_store::{Execution, ExecutionFacts, ExecutionView, Head, SnapshotKey};
use noetl_types::{CommandId, ExecutionId, TenantId, Version};
use tokio::sync::oneshot;

use super::error::{RuntimeError, causes};
use super::{Core, Definition};
use cell::{Cell, Cells};
pub(super) use changes::timer_of;
pub(super) use grant::{Granted, compose};
pub(super) use letter::{Before, Claims, Envelope, Letter, Offer, Reply};
use live::Live;

/// Executions in memory.
pub(super) struct Driver {
    cells: Cells,
}

impl Driver {
    pub(super) fn new(room: usize) -> Self {
        Self {
            cells: Cells::with_room_for(room),
        }
    }
}

impl Core {
    /// Puts something into the mailbox of an execution: a letter, or several that are one.
    pub(super) fn send(self: &Arc<Self>, execution_id: ExecutionId, envelope: impl Into<Envelope>) {
        let cell = self.driver.cells.of(execution_id);
        self.post(cell, envelope.into());
    }

    /// Begins an execution.
    pub(super) fn begin(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        definition: Arc<Definition>,
        facts: ExecutionFacts,
        letter: Letter,
    ) {
        let live = Live::born(definition, execution_id, facts);
        let cell = self.driver.cells.born(execution_id, live);
        self.post(cell, letter.into());
    }

    fn post(self: &Arc<Self>, cell: Arc<Cell>, envelope: Envelope) {
        if cell.put(envelope) {
            let core = Arc::clone(self);
            // A task of its own, so that nobody who goes away leaves an execution half decided.
            self.tasks
                .spawn(async move { turn::take_turns(&core, &cell).await });
        }
    }

    /// Asks something of an execution and waits for the answer.
    pub(super) async fn ask(
        self: &Arc<Self>,
        execution_id: ExecutionId,
        letter: Letter,
        answer: oneshot::Receiver<Result<Reply, RuntimeError>>,
    ) -> Result<Reply, RuntimeError> {
        self.send(execution_id, letter);
        heard(answer).await
    }

    /// Whose a command is, as far as it is known without waiting or asking the store.
    pub(super) fn owner_of(
        &self,
        execution_id: ExecutionId,
        command_id: CommandId,
    ) -> Option<TenantId> {
        let cell = self.driver.cells.get(execution_id)?;
        let live = cell.live.try_lock().ok()?;
        let live = live.as_ref()?;
        live.state.command(command_id)?;
        Some(live.header.tenant_id.clone())
    }

    /// What an execution has come to; nothing where there is none.
    pub(super) async fn look(
        self: &Arc<Self>,
        execution_id: ExecutionId,
    ) -> Result<Option<(Arc<Definition>, State)>, RuntimeError> {
        if let Some(cell) = self.driver.cells.get(execution_id) {
            let live = cell.live.lock().await;
            let known = live.as_ref().filter(|live| live.birth.is_none());
            let known = known.map(Live::copy);
            drop(live);
            // Another server may have written since; whoever looks here acts on what it sees.
            if let Some(mut live) = known {
                live.catch_up(self).await?;
                return Ok(Some((live.definition, live.state)));
            }
        }
        let live = Live::load(self, execution_id).await?;
        Ok(live.map(|live| (live.definition, live.state)))
    }
}

impl Core {
    /// An execution as it was at a moment, and where its log stood.
    pub(super) async fn look_at(
        &self,
        execution: &Execution,
        at: At,
    ) -> Result<(Arc<Definition>, State, Head), RuntimeError> {
        let live = Live::load_at(self, execution, at).await?;
        Ok((live.definition, live.state, live.head))
    }
}

impl Core {
    /// What lists show of an execution that is driven here, by its log alone.
    pub(super) async fn view_by_log(
        &self,
        execution: &Execution,
    ) -> Result<ExecutionView, RuntimeError> {
        Live::view_by_log(self, execution).await
    }

    /// Counts a snapshot that cannot be used and drops it, so that a good one takes its place.
    pub(super) async fn reject_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) {
        self.metrics.snapshot_rejected();
        tracing::warn!(%execution_id, kind = %key.kind, %version, "a snapshot cannot be used");
        let dropped = self.store.drop_snapshot(execution_id, key, version).await;
        if let Err(error) = dropped {
            // It is met again, and dropped then.
            tracing::warn!(error = %causes(&error), %execution_id, "a snapshot was not dropped");
        }
    }
}

/// The answer to a letter.
pub(super) async fn heard(
    answer: oneshot::Receiver<Result<Reply, RuntimeError>>,
) -> Result<Reply, RuntimeError> {
    answer.await.unwrap_or_else(|_| {
        Err(RuntimeError::refused(
            noetl_types::ErrorCode::NotReady,
            "the server is shutting down",
        ))
    })
}
