//! Target of requests about runs: this process or a server.

use noetl_api::catalog::{
    CatalogList, CatalogListRequest, CatalogResource, CatalogResourceRequest, RegisterRequest,
    RegisterResponse,
};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::execution::{CancelRequest, EventPage, ExecutionDetail, ExecutionStatusView};
use noetl_api::explain::{ExecutionExplanation, ExplainQuery};
use noetl_api::output::{OutputPage, OutputQuery};
use noetl_api::query::{EventsQuery, ExecutionDetailQuery, ExecutionList, ExecutionsQuery};
use noetl_api::{Client, WorkerApi as _};
use noetl_server::{CallContext, ControlPlane};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, PlaybookPath, Text};

use crate::error::{Error, Result};

/// Target of requests about runs.
#[derive(Clone)]
pub(crate) enum Target {
    /// A runtime in this process.
    Local(ControlPlane),
    /// A server.
    Remote(Client),
    /// The process that has the local database open.
    File(Client),
}

/// Calls a service of this process, or the corresponding call of the server.
macro_rules! call_target {
    ($target:expr, $service:ident.$local:ident($($arg:expr),*), $remote:ident($($remote_arg:expr),*)) => {
        Ok(match $target {
            Self::Local(services) => {
                services.$service.$local(CallContext::server(), $($arg),*).await?
            }
            Self::Remote(client) | Self::File(client) => client.$remote($($remote_arg),*).await?,
        })
    };
}

impl Target {
    pub(crate) async fn register_playbook(&self, content: &str) -> Result<RegisterResponse> {
        let request =
            RegisterRequest { content: content.to_owned(), resource_type: None, dry_run: false };
        call_target!(
            self,
            catalog.register_definition_as_admin(request),
            catalog_register(&request)
        )
    }

    pub(crate) async fn start_execution(&self, request: ExecuteRequest) -> Result<ExecuteResponse> {
        Ok(match self {
            Self::Local(runtime) => {
                runtime.executions.start(CallContext::server(), request).await?.answer
            }
            Self::Remote(client) | Self::File(client) => client.execute_playbook(&request).await?,
        })
    }

    /// Fetches the status and result of a run.
    pub(crate) async fn fetch_status(&self, id: ExecutionId) -> Result<ExecutionStatusView> {
        call_target!(self, queries.execution_status(id), get_execution_status(id))
    }

    /// Client of the server. Fails for a local target.
    pub(crate) fn require_server(&self) -> Result<&Client> {
        match self {
            Self::Local(_) => Err(Error::failed("this operation requires a server")),
            Self::Remote(client) | Self::File(client) => Ok(client),
        }
    }

    /// Fetches a page of runs, newest first.
    pub(crate) async fn list_executions(&self, query: ExecutionsQuery) -> Result<ExecutionList> {
        call_target!(self, queries.list_executions(query), list_executions(&query))
    }

    /// Fetches a run with the first events of its log.
    pub(crate) async fn fetch_execution(&self, id: ExecutionId) -> Result<ExecutionDetail> {
        let query = ExecutionDetailQuery {
            page_size: Some(PageLimit::MIN),
            ..ExecutionDetailQuery::default()
        };
        call_target!(self, queries.execution_detail(id, query), get_execution(id, &query))
    }

    /// Fetches a page of the log of a run.
    pub(crate) async fn fetch_events(
        &self,
        id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage> {
        call_target!(self, queries.list_events(id, query), list_events(id, &query))
    }

    /// Fetches a page of the output that tasks of a run sent while they ran.
    pub(crate) async fn fetch_output(
        &self,
        id: ExecutionId,
        query: OutputQuery,
    ) -> Result<OutputPage> {
        call_target!(self, queries.list_output(id, query), list_output(id, &query))
    }

    /// Fetches data that a log contains by reference.
    pub(crate) async fn resolve_reference(&self, reference: &str) -> Result<Json> {
        call_target!(self, results.resolve_result(reference), resolve_result(reference))
    }

    /// Explains why a run waits or failed.
    pub(crate) async fn explain_execution(
        &self,
        id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<ExecutionExplanation> {
        call_target!(self, queries.explain_execution(id, query), explain_execution(id, &query))
    }

    /// Fetches a page of definitions.
    pub(crate) async fn list_definitions(
        &self,
        request: CatalogListRequest,
    ) -> Result<CatalogList> {
        call_target!(self, catalog.list_definitions(request), catalog_list(&request))
    }

    pub(crate) async fn find_definition(
        &self,
        request: CatalogResourceRequest,
    ) -> Result<CatalogResource> {
        call_target!(self, catalog.catalog_item(request), catalog_resource(&request))
    }

    /// Fetches a page of the versions of a definition, newest first.
    pub(crate) async fn list_versions(
        &self,
        path: PlaybookPath,
        cursor: Option<Text>,
    ) -> Result<CatalogList> {
        let limit = PageLimit::MAX;
        call_target!(
            self,
            catalog.definition_versions(path, limit, cursor),
            catalog_versions(&path, limit, cursor.as_ref())
        )
    }

    /// Cancels a run. A run that has already ended is not an error.
    /// If it is forced, the final step does not run.
    pub(crate) async fn cancel_execution(
        &self,
        id: ExecutionId,
        reason: &str,
        force: bool,
    ) -> Result<()> {
        let request = CancelRequest { reason: Some(reason.into()), cascade: None, force };
        let result = match self {
            Self::Local(runtime) => runtime
                .executions
                .cancel_execution(CallContext::server(), id, None, request)
                .await
                .map(drop)
                .map_err(Error::from),
            Self::Remote(client) | Self::File(client) => {
                client.cancel_execution(id, &request).await.map(drop).map_err(Error::from)
            }
        };
        match result {
            Err(error) if error.error_code() == Some(ErrorCode::AlreadyTerminal) => Ok(()),
            result => result,
        }
    }
}
