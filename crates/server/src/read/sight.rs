//! Which executions a caller has whose token is bound to paths.

use std::collections::BTreeMap;

use noetl_types::{ExecutionId, PlaybookPath};

use crate::runtime::{Runtime, RuntimeError};

/// Executions that are remembered while what belongs to them goes by.
const MOST: usize = 4_096;

/// Tells of many things in turn whether their executions are there for the caller. Where all of the tenant
/// are, nothing is asked.
pub(crate) struct Sight {
    runtime: Runtime,
    /// Only those of this playbook.
    path: Option<PlaybookPath>,
    known: BTreeMap<ExecutionId, bool>,
}

impl Runtime {
    /// What the caller has of the executions of the tenant.
    pub(crate) fn sight(&self) -> Sight {
        self.sight_of(None)
    }

    /// The same of a playbook.
    pub(crate) fn sight_of(&self, path: Option<PlaybookPath>) -> Sight {
        Sight {
            runtime: self.clone(),
            path,
            known: BTreeMap::new(),
        }
    }
}

impl Sight {
    /// Whether an execution of the tenant is there.
    pub(crate) async fn has(&mut self, execution_id: ExecutionId) -> Result<bool, RuntimeError> {
        if self.path.is_none() && !self.runtime.behalf().is_bound() {
            return Ok(true);
        }
        if let Some(known) = self.known.get(&execution_id) {
            return Ok(*known);
        }
        let row = self.runtime.store().execution(execution_id).await?;
        let of = row.as_ref().and_then(|row| row.facts.path.as_ref());
        let is_wanted = self.path.is_none() || of == self.path.as_ref();
        let is_there = is_wanted && self.runtime.behalf().sees(of);
        if self.known.len() >= MOST {
            self.known.pop_first();
        }
        self.known.insert(execution_id, is_there);
        Ok(is_there)
    }
}
