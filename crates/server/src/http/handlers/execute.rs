//! Executions begin and are ended.

use axum::Extension;
use axum::extract::State;
use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_api::execution::{CancelAnswer, CancelRequest};

use crate::http::access::Caller;
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::failure::Failure;
use crate::http::params::ExecutionOf;
use crate::http::routes::App;

/// Starts an execution.
pub(in crate::http) async fn execute(
    State(app): State<App>,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Result<Answer<ExecuteAnswer>, Failure> {
    Ok(Answer(app.runtime.execute(request).await?))
}

/// Ends an execution.
pub(in crate::http) async fn cancel(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
    Extension(caller): Extension<Caller>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<CancelRequest>,
) -> Result<Answer<CancelAnswer>, Failure> {
    let actor = Some(caller?.actor());
    let cancelled = app.runtime.cancel(execution_id, actor, request).await?;
    Ok(Answer(cancelled))
}
