//! Visibility of executions for callers restricted to paths.

use std::collections::BTreeMap;

use noetl_types::{ExecutionId, PlaybookPath};

use crate::runtime::{Runtime, RuntimeError};

/// Maximum cached executions.
const MAX_CACHED_EXECUTIONS: usize = 4_096;

/// Checks for a sequence of rows whether the caller can see their executions. Without a restriction
/// no query is made.
pub(crate) struct ExecutionVisibility {
    runtime: Runtime,
    /// Restricts visibility to executions of this playbook.
    path: Option<PlaybookPath>,
    cached: BTreeMap<ExecutionId, bool>,
}

impl Runtime {
    /// Returns the caller's visibility of the tenant's executions.
    pub(crate) fn execution_visibility(&self) -> ExecutionVisibility {
        self.playbook_visibility(None)
    }

    /// Returns the caller's visibility of the executions of one playbook.
    pub(crate) fn playbook_visibility(&self, path: Option<PlaybookPath>) -> ExecutionVisibility {
        ExecutionVisibility { runtime: self.clone(), path, cached: BTreeMap::new() }
    }
}

impl ExecutionVisibility {
    /// True if the caller can see an execution of its tenant.
    pub(crate) async fn is_visible(
        &mut self,
        execution_id: ExecutionId,
    ) -> Result<bool, RuntimeError> {
        if self.path.is_none() && !self.runtime.auth_context().is_path_restricted() {
            return Ok(true);
        }
        if let Some(cached) = self.cached.get(&execution_id) {
            return Ok(*cached);
        }
        let row = self.runtime.store().find_execution(execution_id).await?;
        let path = row.as_ref().and_then(|row| row.facts.path.as_ref());
        let is_wanted = self.path.is_none() || path == self.path.as_ref();
        let is_visible = is_wanted && self.runtime.auth_context().can_see_path(path);
        if self.cached.len() >= MAX_CACHED_EXECUTIONS {
            self.cached.pop_first();
        }
        self.cached.insert(execution_id, is_visible);
        Ok(is_visible)
    }
}
