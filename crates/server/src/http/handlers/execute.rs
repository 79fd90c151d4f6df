//! Start and control of executions.

use noetl_api::execute::{
    ExecuteBatchRequest, ExecuteBatchResponse, ExecuteRequest, ExecuteResponse, RerunRequest,
};
use noetl_api::execution::{
    CancelRequest, CancelResponse, CleanupRequest, CleanupResponse, ControlRequest,
    ControlResponse, FinalizeRequest, FinalizeResponse,
};
use noetl_types::ErrorCode;

use crate::http::access::Scope;
use crate::http::authorized_runtime::AuthorizedRuntime;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::idempotency::IdempotentResponse;
use crate::http::json_response::JsonResponse;
use crate::http::params::{IdempotencyKeyHeader, PathExecutionId, TraceHeaders};

/// Starts an execution.
pub(in crate::http) async fn start_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    key: IdempotencyKeyHeader,
    TraceHeaders(trace): TraceHeaders,
    JsonBody(mut request): JsonBody<ExecuteRequest>,
) -> Result<IdempotentResponse<ExecuteResponse>, HttpError> {
    request.trace = request.trace.or(trace);
    if request.parent_execution_id.is_none() && !app.identity.allows_scope(Scope::ExecRun) {
        let text = "a worker can start only child executions: send parent_execution_id, or use a token \
            with the scope exec:run";
        return Err(HttpError::new(ErrorCode::Forbidden, text));
    }
    let (response, is_replay) = match key.key_text() {
        None => (app.runtime.execute(request).await?, false),
        Some(key) => {
            let started = app.runtime.start_once(request, key).await?;
            (started.answer, started.is_replay)
        }
    };
    Ok(IdempotentResponse { response: JsonResponse(response), is_replay })
}

/// Cancels an execution.
pub(in crate::http) async fn cancel_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBodyOrDefault(request): JsonBodyOrDefault<CancelRequest>,
) -> Result<JsonResponse<CancelResponse>, HttpError> {
    let actor = Some(app.identity.actor());
    let cancelled = app.runtime.cancel_execution(execution_id, actor, request).await?;
    Ok(JsonResponse(cancelled))
}

/// Starts several executions.
pub(in crate::http) async fn start_executions(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(request): JsonBody<ExecuteBatchRequest>,
) -> Result<JsonResponse<ExecuteBatchResponse>, HttpError> {
    Ok(JsonResponse(app.runtime.execute_batch(request).await?))
}

/// Starts an execution with the definition and input of an earlier one.
pub(in crate::http) async fn rerun_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RerunRequest>,
) -> Result<JsonResponse<ExecuteResponse>, HttpError> {
    Ok(JsonResponse(app.runtime.rerun_execution(execution_id, request).await?))
}

/// Pauses an execution.
pub(in crate::http) async fn pause_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBodyOrDefault(request): JsonBodyOrDefault<ControlRequest>,
) -> Result<JsonResponse<ControlResponse>, HttpError> {
    let actor = Some(app.identity.actor());
    Ok(JsonResponse(app.runtime.pause_execution(execution_id, actor, request).await?))
}

/// Resumes an execution.
pub(in crate::http) async fn resume_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBodyOrDefault(request): JsonBodyOrDefault<ControlRequest>,
) -> Result<JsonResponse<ControlResponse>, HttpError> {
    let actor = Some(app.identity.actor());
    Ok(JsonResponse(app.runtime.resume_execution(execution_id, actor, request).await?))
}

/// Ends an execution with a given status.
pub(in crate::http) async fn finalize_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBody(request): JsonBody<FinalizeRequest>,
) -> Result<JsonResponse<FinalizeResponse>, HttpError> {
    let actor = Some(app.identity.actor());
    Ok(JsonResponse(app.runtime.finalize_execution(execution_id, actor, request).await?))
}

/// Cancels idle executions.
pub(in crate::http) async fn clean_up_executions(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBodyOrDefault(request): JsonBodyOrDefault<CleanupRequest>,
) -> Result<JsonResponse<CleanupResponse>, HttpError> {
    let actor = Some(app.identity.actor());
    Ok(JsonResponse(app.runtime.cancel_idle_executions(actor, request).await?))
}
