//! Paged listing of a worker's open commands.

use noetl_store::{Command, CommandFilter, CommandStatusFilter, Store, StoreError};
use noetl_types::WorkerId;
use noetl_types::limits::PageLimit;

use crate::runtime::Runtime;

/// Pages of the open commands of a worker. Only one page is in memory at a time.
pub(crate) struct WorkerCommandPages {
    /// Query of the next page, or `None` at the end.
    next_page: Option<CommandFilter>,
}

impl Runtime {
    /// Lists the open commands of a worker of the tenant, in all pools.
    pub(crate) fn worker_commands(&self, worker_id: &WorkerId) -> WorkerCommandPages {
        let next = Some(CommandFilter {
            tenant_id: self.tenant().clone(),
            status: CommandStatusFilter::Open,
            execution_id: None,
            pool: None,
            worker: Some(worker_id.clone()),
            after: None,
            limit: PageLimit::MAX,
        });
        WorkerCommandPages { next_page: next }
    }
}

impl WorkerCommandPages {
    /// Returns the next page, or `None` after the last one.
    pub(crate) async fn next_page(
        &mut self,
        store: &dyn Store,
    ) -> Result<Option<Vec<Command>>, StoreError> {
        let Some(filter) = self.next_page.take() else {
            return Ok(None);
        };
        let page = store.list_commands(filter.clone()).await?;
        self.next_page = page.next.map(|next| CommandFilter { after: Some(next), ..filter });
        Ok(Some(page.commands))
    }
}
