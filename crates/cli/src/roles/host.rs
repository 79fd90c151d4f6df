//! Where a run takes place: in this process, or at a server.

use noetl_api::catalog::{
    CatalogItem, CatalogList, ListRequest, RegisterAnswer, RegisterRequest, ResourceRequest,
};
use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_api::execution::{CancelRequest, EventPage, ExecutionDetail, StatusView};
use noetl_api::explain::{ExplainQuery, Explanation};
use noetl_api::query::{DetailQuery, EventsQuery, ExecutionList, ExecutionsQuery};
use noetl_api::{ApiError, Client, Problem, WorkerApi as _};
use noetl_server::{Runtime, RuntimeError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Json, PlaybookPath, PoolName, Text};

use super::causes;
use super::orphans::POOL_PREFIX;
use super::worker::chance;
use crate::exit::Exit;
use crate::render::words::visible;

/// What to do where a server does not know who asks.
const NO_IDENTITY: &str = "set NOETL_TOKEN for a server that --server or NOETL_SERVER_URL names; a \
                           profile says by itself where its token is, see: noetl profile show";

/// Things that are wrong which are told one by one.
const MAX_HINTS: usize = 10;

/// Where a run takes place.
#[derive(Clone)]
pub(crate) enum Host {
    /// In this process.
    Here(Runtime),
    /// At a server that has the database.
    There(Client),
}

/// Why a run cannot be started or followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("{}", causes(.0))]
    Here(#[from] RuntimeError),
    #[error(transparent)]
    There(#[from] ApiError),
    #[error("there is no server that could do that")]
    NoServer,
}

impl HostError {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::There(ApiError::Unreachable(_)) => Some(
                "the run goes on once its server is back; it is in the server's log".to_owned(),
            ),
            Self::NoServer => Some(
                "start one with 'noetl dev' or 'noetl server', or name one by --server URL"
                    .to_owned(),
            ),
            Self::There(ApiError::Refused { problem, .. })
            | Self::Here(RuntimeError::Refused(problem)) => hints(problem),
            Self::There(ApiError::Unreadable(_)) => {
                Some("check that the address is that of a NoETL server".to_owned())
            }
            Self::Here(RuntimeError::Store(_) | RuntimeError::Machine(_)) => None,
        }
    }

    /// The exit code it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NoServer => Exit::Unreachable,
            Self::There(error) => exit_of_refusal(error),
            // No server is missing where all of it is this process.
            Self::Here(RuntimeError::Refused(problem)) => match Exit::of_status(problem.status) {
                Exit::Unreachable => Exit::Failed,
                exit => exit,
            },
            Self::Here(RuntimeError::Store(_) | RuntimeError::Machine(_)) => Exit::Failed,
        }
    }

    /// The kind of a refusal.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Here(RuntimeError::Refused(problem)) => problem.known_code(),
            Self::There(error) => error.code(),
            Self::Here(RuntimeError::Store(_) | RuntimeError::Machine(_)) | Self::NoServer => None,
        }
    }
}

/// The exit code that the refusal or the silence of a server leads to.
pub(crate) fn exit_of_refusal(error: &ApiError) -> Exit {
    match error {
        ApiError::Refused { problem, .. } => Exit::of_status(problem.status),
        // Somebody answers, who is no server of this kind: a proxy, or another address.
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => Exit::Unreachable,
    }
}

/// What a refusal says about each thing that is wrong.
fn hints(problem: &Problem) -> Option<String> {
    let of_errors: Vec<String> = problem
        .errors
        .iter()
        .take(MAX_HINTS)
        .map(|error| {
            let place = match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: "),
                (Some(line), None) => format!("line {line}: "),
                (None, _) => String::new(),
            };
            let code = error.code.as_deref();
            let code = code.map_or_else(String::new, |code| format!(" ({code})"));
            visible(&format!("{place}{}{code}", error.message))
        })
        .collect();
    match problem.known_code() {
        _ if !of_errors.is_empty() => Some(of_errors.join("\n        ")),
        Some(ErrorCode::Unauthenticated) => Some(NO_IDENTITY.to_owned()),
        Some(code) => Some(format!("learn more with: noetl explain {}", code.as_str())),
        None => None,
    }
}

impl Host {
    /// Registers a playbook.
    pub(crate) async fn register(&self, content: &str) -> Result<RegisterAnswer, HostError> {
        let request = RegisterRequest {
            content: content.to_owned(),
            resource_type: None,
            dry_run: false,
        };
        Ok(match self {
            Self::Here(runtime) => runtime.register_any_definition(request).await?,
            Self::There(client) => client.catalog_register(&request).await?,
        })
    }

    /// Starts a run.
    pub(crate) async fn execute(
        &self,
        request: ExecuteRequest,
    ) -> Result<ExecuteAnswer, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.execute(request).await?,
            Self::There(client) => client.execute(&request).await?,
        })
    }

    /// Where a run stands, and what came out.
    pub(crate) async fn status(&self, execution_id: ExecutionId) -> Result<StatusView, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.execution_status(execution_id).await?,
            Self::There(client) => client.status(execution_id).await?,
        })
    }

    /// The server, for what only a server can do.
    pub(crate) fn server(&self) -> Result<&Client, HostError> {
        match self {
            Self::Here(_) => Err(HostError::NoServer),
            Self::There(client) => Ok(client),
        }
    }

    /// A page of the runs, newest first.
    pub(crate) async fn executions(
        &self,
        query: ExecutionsQuery,
    ) -> Result<ExecutionList, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.executions(query).await?,
            Self::There(client) => client.executions(&query).await?,
        })
    }

    /// A run, with the first events of its log.
    pub(crate) async fn detail(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ExecutionDetail, HostError> {
        let query = DetailQuery {
            page_size: PageLimit::MIN,
            ..DetailQuery::default()
        };
        Ok(match self {
            Self::Here(runtime) => runtime.execution_detail(execution_id, query).await?,
            Self::There(client) => client.execution(execution_id, &query).await?,
        })
    }

    /// A page of the log of a run.
    pub(crate) async fn log(
        &self,
        execution_id: ExecutionId,
        query: EventsQuery,
    ) -> Result<EventPage, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.events(execution_id, query).await?,
            Self::There(client) => client.events(execution_id, &query).await?,
        })
    }

    /// Data that a log has by reference.
    pub(crate) async fn resolve(&self, reference: &str) -> Result<Json, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.resolve_result(reference).await?,
            Self::There(client) => client.resolve(reference).await?,
        })
    }

    /// Why a run waits, or how it came to its end.
    pub(crate) async fn explain(
        &self,
        execution_id: ExecutionId,
        query: ExplainQuery,
    ) -> Result<Explanation, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.explain(execution_id, query).await?,
            Self::There(client) => client.explain(execution_id, &query).await?,
        })
    }

    /// A page of the definitions.
    pub(crate) async fn definitions(&self, request: ListRequest) -> Result<CatalogList, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.definitions(request).await?,
            Self::There(client) => client.catalog_list(&request).await?,
        })
    }

    /// A definition.
    pub(crate) async fn definition(
        &self,
        request: ResourceRequest,
    ) -> Result<CatalogItem, HostError> {
        Ok(match self {
            Self::Here(runtime) => runtime.catalog_item(request).await?,
            Self::There(client) => client.catalog_resource(&request).await?,
        })
    }

    /// A page of the versions of a definition, newest first.
    pub(crate) async fn versions(
        &self,
        path: PlaybookPath,
        cursor: Option<Text>,
    ) -> Result<CatalogList, HostError> {
        let limit = PageLimit::MAX;
        Ok(match self {
            Self::Here(runtime) => runtime.definition_versions(path, limit, cursor).await?,
            Self::There(client) => {
                client
                    .catalog_versions(&path, limit, cursor.as_ref())
                    .await?
            }
        })
    }

    /// Ends a run. One that has ended already is none to end.
    pub(crate) async fn cancel(
        &self,
        execution_id: ExecutionId,
        reason: &str,
    ) -> Result<(), HostError> {
        let request = CancelRequest {
            reason: Some(reason.into()),
            cascade: None,
        };
        let cancelled = match self {
            Self::Here(runtime) => runtime
                .cancel(execution_id, None, request)
                .await
                .map(|_| ())
                .map_err(HostError::from),
            Self::There(client) => client
                .cancel(execution_id, &request)
                .await
                .map(|_| ())
                .map_err(HostError::from),
        };
        match cancelled {
            Err(error) if error.code() == Some(ErrorCode::AlreadyTerminal) => Ok(()),
            other => other,
        }
    }
}

/// A pool for one run of this process, which no other process works for.
pub(crate) fn own_pool() -> PoolName {
    // What is made here is always a name; were it not, the pool that every worker knows is one.
    PoolName::new(format!("{POOL_PREFIX}{}", chance())).unwrap_or_else(|_| PoolName::shared())
}
