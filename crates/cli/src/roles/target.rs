//! Target of requests about runs: this process or a server.

use noetl_api::catalog::{
    CatalogList, CatalogListRequest, CatalogResource, CatalogResourceRequest, RegisterRequest,
    RegisterResponse,
};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::execution::{CancelRequest, EventPage, ExecutionDetail, ExecutionStatusView};
use noetl_api::explain::{ExecutionExplanation, ExplainQuery};
use noetl_api::query::{EventsQuery, ExecutionDetailQuery, ExecutionList, ExecutionsQuery};
use noetl_api::{Client, WorkerApi as _};
use noetl_server::{CallContext, ControlPlane};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, PlaybookPath, PoolName, Text};

use super::orphans::LOCAL_POOL_PREFIX;
use super::worker::random_suffix;
use crate::error::{Error, Result};

/// Target of requests about runs.
#[derive(Clone)]
pub(crate) enum Target {
    /// A runtime in this process.
    Local(ControlPlane),
    /// A server.
    Remote(Client),
}

impl Target {
    pub(crate) async fn register_playbook(&self, content: &str) -> Result<RegisterResponse> {
        let request =
            RegisterRequest { content: content.to_owned(), resource_type: None, dry_run: false };
        Ok(match self {
            Self::Local(runtime) => {
                runtime.catalog.register_definition_as_admin(CallContext::server(), request).await?
            }
            Self::Remote(client) => client.catalog_register(&request).await?,
        })
    }

    pub(crate) async fn start_execution(&self, request: ExecuteRequest) -> Result<ExecuteResponse> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.executions.start(CallContext::server(), request).await?.answer
            }
            Self::Remote(client) => client.execute_playbook(&request).await?,
        })
    }

    /// Fetches the status and result of a run.
    pub(crate) async fn fetch_status(&self, id: ExecutionId) -> Result<ExecutionStatusView> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.queries.execution_status(CallContext::server(), id).await?
            }
            Self::Remote(client) => client.get_execution_status(id).await?,
        })
    }

    /// Client of the server. Fails for a local target.
    pub(crate) fn require_server(&self) -> Result<&Client> {
        match self {
            Self::Local(_) => Err(Error::failed("this operation requires a server")),
            Self::Remote(client) => Ok(client),
        }
    }

    /// Fetches a page of runs, newest first.
    pub(crate) async fn list_executions(&self, query: ExecutionsQuery) -> Result<ExecutionList> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.queries.list_executions(CallContext::server(), query).await?
            }
            Self::Remote(client) => client.list_executions(&query).await?,
        })
    }

    /// Fetches a run with the first events of its log.
    pub(crate) async fn fetch_execution(&self, id: ExecutionId) -> Result<ExecutionDetail> {
        let query =
            ExecutionDetailQuery { page_size: PageLimit::MIN, ..ExecutionDetailQuery::default() };
        Ok(match self {
            Self::Local(runtime) => {
                runtime.queries.execution_detail(CallContext::server(), id, query).await?
            }
            Self::Remote(client) => client.get_execution(id, &query).await?,
        })
    }

    /// Fetches a page of the log of a run.
    pub(crate) async fn fetch_events(
        &self,
        id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.queries.list_events(CallContext::server(), id, query).await?
            }
            Self::Remote(client) => client.list_events(id, &query).await?,
        })
    }

    /// Fetches data that a log contains by reference.
    pub(crate) async fn resolve_reference(&self, reference: &str) -> Result<Json> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.results.resolve_result(CallContext::server(), reference).await?
            }
            Self::Remote(client) => client.resolve_result(reference).await?,
        })
    }

    /// Explains why a run waits or failed.
    pub(crate) async fn explain_execution(
        &self,
        id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<ExecutionExplanation> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.queries.explain_execution(CallContext::server(), id, query).await?
            }
            Self::Remote(client) => client.explain_execution(id, &query).await?,
        })
    }

    /// Fetches a page of definitions.
    pub(crate) async fn list_definitions(
        &self,
        request: CatalogListRequest,
    ) -> Result<CatalogList> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.catalog.list_definitions(CallContext::server(), request).await?
            }
            Self::Remote(client) => client.catalog_list(&request).await?,
        })
    }

    pub(crate) async fn find_definition(
        &self,
        request: CatalogResourceRequest,
    ) -> Result<CatalogResource> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.catalog.catalog_item(CallContext::server(), request).await?
            }
            Self::Remote(client) => client.catalog_resource(&request).await?,
        })
    }

    /// Fetches a page of the versions of a definition, newest first.
    pub(crate) async fn list_versions(
        &self,
        path: PlaybookPath,
        cursor: Option<Text>,
    ) -> Result<CatalogList> {
        let limit = PageLimit::MAX;
        Ok(match self {
            Self::Local(runtime) => {
                runtime
                    .catalog
                    .definition_versions(CallContext::server(), path, limit, cursor)
                    .await?
            }
            Self::Remote(client) => client.catalog_versions(&path, limit, cursor.as_ref()).await?,
        })
    }

    /// Cancels a run. A run that has already ended is not an error.
    pub(crate) async fn cancel_execution(&self, id: ExecutionId, reason: &str) -> Result<()> {
        let request = CancelRequest { reason: Some(reason.into()), cascade: None };
        let result = match self {
            Self::Local(runtime) => runtime
                .executions
                .cancel_execution(CallContext::server(), id, None, request)
                .await
                .map(drop)
                .map_err(Error::from),
            Self::Remote(client) => {
                client.cancel_execution(id, &request).await.map(drop).map_err(Error::from)
            }
        };
        match result {
            Err(error) if error.error_code() == Some(ErrorCode::AlreadyTerminal) => Ok(()),
            result => result,
        }
    }
}

/// Name of a pool for one local run, which no other process serves.
pub(crate) fn local_pool_name() -> PoolName {
    // The name is always valid. The shared pool is only a fallback.
    PoolName::new(format!("{LOCAL_POOL_PREFIX}{}", random_suffix()))
        .unwrap_or_else(|_| PoolName::shared())
}
