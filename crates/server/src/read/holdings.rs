//! What a worker holds, page by page.

use noetl_store::{Command, CommandChoice, CommandFilter, Store, StoreError};
use noetl_types::WorkerId;
use noetl_types::limits::PageLimit;

use crate::runtime::Runtime;

/// A walk along the open commands of a worker. However many they are, one page is in memory.
pub(crate) struct Holdings {
    /// What is asked for next; nothing at the end.
    next: Option<CommandFilter>,
}

impl Runtime {
    /// The open commands of a worker of the tenant, of whatever pool.
    pub(crate) fn holdings(&self, worker_id: &WorkerId) -> Holdings {
        let next = Some(CommandFilter {
            tenant_id: self.tenant().clone(),
            choice: CommandChoice::Open,
            execution_id: None,
            pool: None,
            worker: Some(worker_id.clone()),
            after: None,
            limit: PageLimit::MAX,
        });
        Holdings { next }
    }
}

impl Holdings {
    /// The next page; nothing once all was told.
    pub(crate) async fn next(
        &mut self,
        store: &dyn Store,
    ) -> Result<Option<Vec<Command>>, StoreError> {
        let Some(filter) = self.next.take() else {
            return Ok(None);
        };
        let page = store.commands(filter.clone()).await?;
        self.next = page.next.map(|next| CommandFilter {
            after: Some(next),
            ..filter
        });
        Ok(Some(page.commands))
    }
}
