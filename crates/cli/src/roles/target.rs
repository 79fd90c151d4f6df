//! Target of requests about runs: this process or a server.

use noetl_api::catalog::{
    CatalogList, CatalogListRequest, CatalogResource, CatalogResourceRequest, RegisterRequest,
    RegisterResponse,
};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::execution::{CancelRequest, EventPage, ExecutionDetail, ExecutionStatusView};
use noetl_api::explain::{ExecutionExplanation, ExplainQuery};
use noetl_api::query::{EventsQuery, ExecutionDetailQuery, ExecutionList, ExecutionsQuery};
use noetl_api::{ApiError, Client, Problem, WorkerApi as _};
use noetl_server::{Runtime, RuntimeError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, PlaybookPath, PoolName, Text};

use super::error_chain;
use super::orphans::LOCAL_POOL_PREFIX;
use super::worker::random_suffix;
use crate::exit::CommandExit;
use crate::render::text_layout::escape_control;

/// Help for a server that does not recognize the caller.
const UNAUTHENTICATED_HELP: &str = "set NOETL_TOKEN for a server given by --server or NOETL_SERVER_URL; a \
                           profile has its own token source, see: noetl profile show";

/// Maximum errors listed in a help text.
const MAX_LISTED_ERRORS: usize = 10;

/// Target of requests about runs.
#[derive(Clone)]
pub(crate) enum Target {
    /// A runtime in this process.
    Local(Runtime),
    /// A server.
    Remote(Client),
}

/// Error of a request about runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{}", error_chain(.0))]
    Local(#[from] RuntimeError),
    #[error(transparent)]
    Remote(#[from] ApiError),
    #[error("this operation requires a server")]
    NoServer,
}

impl TargetError {
    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::Remote(ApiError::Unreachable(_)) => {
                Some("the run continues when its server is available again".to_owned())
            }
            Self::NoServer => Some(
                "start one with 'noetl dev' or 'noetl server', or choose one with --server URL"
                    .to_owned(),
            ),
            Self::Remote(ApiError::Refused { problem, .. })
            | Self::Local(RuntimeError::Refused(problem)) => error_details(problem),
            Self::Remote(ApiError::Unreadable(_)) => {
                Some("check that the address is that of a NoETL server".to_owned())
            }
            Self::Local(RuntimeError::Store(_) | RuntimeError::Machine(_)) => None,
        }
    }

    /// Exit code of the error.
    pub(crate) fn exit_code(&self) -> CommandExit {
        match self {
            Self::NoServer => CommandExit::Unreachable,
            Self::Remote(error) => exit_for_api_error(error),
            // Without a server, no error can mean that the server is unavailable.
            Self::Local(RuntimeError::Refused(problem)) => {
                match CommandExit::from_http_status(problem.status) {
                    CommandExit::Unreachable => CommandExit::Failed,
                    exit => exit,
                }
            }
            Self::Local(RuntimeError::Store(_) | RuntimeError::Machine(_)) => CommandExit::Failed,
        }
    }

    /// Error code of a rejected request.
    pub(crate) fn error_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Local(RuntimeError::Refused(problem)) => problem.known_code(),
            Self::Remote(error) => error.code(),
            Self::Local(RuntimeError::Store(_) | RuntimeError::Machine(_)) | Self::NoServer => None,
        }
    }
}

/// Exit code for an error response or an unreachable server.
pub(crate) fn exit_for_api_error(error: &ApiError) -> CommandExit {
    match error {
        ApiError::Refused { problem, .. } => CommandExit::from_http_status(problem.status),
        // The address responds but is not a NoETL server, for example a proxy.
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => CommandExit::Unreachable,
    }
}

/// Lists the single errors of a rejected request.
fn error_details(problem: &Problem) -> Option<String> {
    let details: Vec<String> = problem
        .errors
        .iter()
        .take(MAX_LISTED_ERRORS)
        .map(|error| {
            let position = match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: "),
                (Some(line), None) => format!("line {line}: "),
                (None, _) => String::new(),
            };
            let code = error.code.as_deref();
            let code = code.map_or_else(String::new, |code| format!(" ({code})"));
            escape_control(&format!("{position}{}{code}", error.message))
        })
        .collect();
    match problem.known_code() {
        _ if !details.is_empty() => Some(details.join("\n        ")),
        Some(ErrorCode::Unauthenticated) => Some(UNAUTHENTICATED_HELP.to_owned()),
        Some(code) => Some(format!("see: noetl explain {}", code.as_str())),
        None => None,
    }
}

impl Target {
    pub(crate) async fn register_playbook(
        &self,
        content: &str,
    ) -> Result<RegisterResponse, TargetError> {
        let request =
            RegisterRequest { content: content.to_owned(), resource_type: None, dry_run: false };
        Ok(match self {
            Self::Local(runtime) => runtime.register_definition_as_admin(request).await?,
            Self::Remote(client) => client.catalog_register(&request).await?,
        })
    }

    pub(crate) async fn start_execution(
        &self,
        request: ExecuteRequest,
    ) -> Result<ExecuteResponse, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.execute(request).await?,
            Self::Remote(client) => client.execute_playbook(&request).await?,
        })
    }

    /// Fetches the status and result of a run.
    pub(crate) async fn fetch_status(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ExecutionStatusView, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.execution_status(execution_id).await?,
            Self::Remote(client) => client.get_execution_status(execution_id).await?,
        })
    }

    /// Client of the server. Fails for a local target.
    pub(crate) fn require_server(&self) -> Result<&Client, TargetError> {
        match self {
            Self::Local(_) => Err(TargetError::NoServer),
            Self::Remote(client) => Ok(client),
        }
    }

    /// Fetches a page of runs, newest first.
    pub(crate) async fn list_executions(
        &self,
        query: ExecutionsQuery,
    ) -> Result<ExecutionList, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.list_executions(query).await?,
            Self::Remote(client) => client.list_executions(&query).await?,
        })
    }

    /// Fetches a run with the first events of its log.
    pub(crate) async fn fetch_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ExecutionDetail, TargetError> {
        let query =
            ExecutionDetailQuery { page_size: PageLimit::MIN, ..ExecutionDetailQuery::default() };
        Ok(match self {
            Self::Local(runtime) => runtime.execution_detail(execution_id, query).await?,
            Self::Remote(client) => client.get_execution(execution_id, &query).await?,
        })
    }

    /// Fetches a page of the log of a run.
    pub(crate) async fn fetch_events(
        &self,
        execution_id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.list_events(execution_id, query).await?,
            Self::Remote(client) => client.list_events(execution_id, &query).await?,
        })
    }

    /// Fetches data that a log contains by reference.
    pub(crate) async fn resolve_reference(&self, reference: &str) -> Result<Json, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.resolve_result(reference).await?,
            Self::Remote(client) => client.resolve_result(reference).await?,
        })
    }

    /// Explains why a run waits or failed.
    pub(crate) async fn explain_execution(
        &self,
        execution_id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<ExecutionExplanation, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.explain_execution(execution_id, query).await?,
            Self::Remote(client) => client.explain_execution(execution_id, &query).await?,
        })
    }

    /// Fetches a page of definitions.
    pub(crate) async fn list_definitions(
        &self,
        request: CatalogListRequest,
    ) -> Result<CatalogList, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.list_definitions(request).await?,
            Self::Remote(client) => client.catalog_list(&request).await?,
        })
    }

    pub(crate) async fn find_definition(
        &self,
        request: CatalogResourceRequest,
    ) -> Result<CatalogResource, TargetError> {
        Ok(match self {
            Self::Local(runtime) => runtime.catalog_item(request).await?,
            Self::Remote(client) => client.catalog_resource(&request).await?,
        })
    }

    /// Fetches a page of the versions of a definition, newest first.
    pub(crate) async fn list_versions(
        &self,
        path: PlaybookPath,
        cursor: Option<Text>,
    ) -> Result<CatalogList, TargetError> {
        let limit = PageLimit::MAX;
        Ok(match self {
            Self::Local(runtime) => runtime.definition_versions(path, limit, cursor).await?,
            Self::Remote(client) => client.catalog_versions(&path, limit, cursor.as_ref()).await?,
        })
    }

    /// Cancels a run. A run that has already ended is not an error.
    pub(crate) async fn cancel_execution(
        &self,
        execution_id: ExecutionId,
        reason: &str,
    ) -> Result<(), TargetError> {
        let request = CancelRequest { reason: Some(reason.into()), cascade: None };
        let result = match self {
            Self::Local(runtime) => runtime
                .cancel_execution(execution_id, None, request)
                .await
                .map(|_| ())
                .map_err(TargetError::from),
            Self::Remote(client) => client
                .cancel_execution(execution_id, &request)
                .await
                .map(|_| ())
                .map_err(TargetError::from),
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
