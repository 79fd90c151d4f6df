//! Executions and commands that a caller can see. All others are reported as not found.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_store::{Command, CommandFilter, CommandStatusFilter, Execution, Store};
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, ErrorCode, ExecutionId, PlaybookPath, WorkerId};

use super::auth_context::AuthContext;
use super::call_context::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Infrastructure;

/// Maximum cached executions.
const MAX_CACHED_EXECUTIONS: usize = 4_096;

impl CallContext {
    /// Returns an execution that the caller can see. An execution of another tenant is reported as
    /// not found.
    pub(crate) async fn visible_execution(
        &self,
        store: &dyn Store,
        execution_id: ExecutionId,
    ) -> Result<Execution> {
        self.auth.check_token_execution(execution_id)?;
        let found = store.find_execution(execution_id).await?;
        let is_visible = |execution: &Execution| {
            let facts = &execution.facts;
            facts.tenant_id == *self.tenant() && self.auth.can_see_path(facts.path.as_ref())
        };
        if let Some(execution) = found.filter(is_visible) {
            let facts = &execution.facts;
            let queue = facts.pool.tenant_queue(&facts.tenant_id);
            self.auth.check_execution_access(&facts.tenant_id, &queue)?;
            if let Some(observed) = &self.observed_seq {
                observed.record_end(execution.head.version);
            }
            return Ok(execution);
        }
        if store.is_dropped(execution_id).await? {
            return Err(RuntimeError::dropped_execution());
        }
        Err(RuntimeError::no_execution())
    }

    /// Returns a command that the caller can access.
    pub(crate) async fn visible_command(
        &self,
        store: &dyn Store,
        id: CommandId,
    ) -> Result<Command> {
        self.auth.check_token_command(id)?;
        let command = store.find_command(id).await?.ok_or_else(RuntimeError::no_command)?;
        match self.visible_execution(store, command.execution_id).await {
            Ok(_) => Ok(command),
            Err(RuntimeError::Refused(problem))
                if problem.known_code() != Some(ErrorCode::Forbidden) =>
            {
                Err(RuntimeError::no_command())
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses callers that hold no command of an execution. With `None`, any worker's command
    /// counts.
    pub(crate) async fn check_command_holder(
        &self,
        store: &dyn Store,
        execution_id: ExecutionId,
        worker: Option<WorkerId>,
    ) -> Result<()> {
        // Only leased commands are queried, because the number of pending ones is unbounded.
        for status in [CommandStatus::Claimed, CommandStatus::Running] {
            let filter = CommandFilter {
                tenant_id: self.tenant().clone(),
                status: CommandStatusFilter::Only(status),
                execution_id: Some(execution_id),
                pool: None,
                worker: worker.clone(),
                after: None,
                limit: PageLimit::MIN,
            };
            let page = store.list_commands(filter).await?;
            if page.commands.iter().any(|command| command.lease.is_some()) {
                return Ok(());
            }
        }
        let text = "only a worker that holds a command of the execution may read its credentials";
        Err(RuntimeError::forbidden(text))
    }
}

/// Checks for a sequence of rows whether the caller can see their executions. Without a restriction
/// no query is made.
pub(crate) struct ExecutionVisibility {
    store: Arc<dyn Store>,
    auth: AuthContext,
    /// Restricts visibility to executions of this playbook.
    path: Option<PlaybookPath>,
    cached: BTreeMap<ExecutionId, bool>,
}

impl ExecutionVisibility {
    /// Returns the caller's visibility of the tenant's executions.
    pub(crate) fn new(infra: &Infrastructure, ctx: &CallContext) -> Self {
        let store = Arc::clone(&infra.store);
        Self { store, auth: ctx.auth.clone(), path: None, cached: BTreeMap::new() }
    }

    /// Restricts visibility to the executions of one playbook.
    pub(crate) fn with_path(self, path: Option<PlaybookPath>) -> Self {
        Self { path, ..self }
    }

    /// True if the caller can see an execution of its tenant.
    pub(crate) async fn is_visible(&mut self, execution_id: ExecutionId) -> Result<bool> {
        if self.path.is_none() && !self.auth.is_path_restricted() {
            return Ok(true);
        }
        if let Some(cached) = self.cached.get(&execution_id) {
            return Ok(*cached);
        }
        let row = self.store.find_execution(execution_id).await?;
        let path = row.as_ref().and_then(|row| row.facts.path.as_ref());
        let is_wanted = self.path.is_none() || path == self.path.as_ref();
        let is_visible = is_wanted && self.auth.can_see_path(path);
        if self.cached.len() >= MAX_CACHED_EXECUTIONS {
            self.cached.pop_first();
        }
        self.cached.insert(execution_id, is_visible);
        Ok(is_visible)
    }
}
