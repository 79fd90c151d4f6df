//! Executions: start, read and control.

use axum::http::Uri;
use axum::response::Response;
use noetl_api::execute::{
    ExecuteBatchRequest, ExecuteBatchResponse, ExecuteRequest, ExecuteResponse, RerunRequest,
};
use noetl_api::execution::{
    AnalyzeRequest, CancelRequest, CancelResponse, CancellationCheck, CleanupRequest,
    CleanupResponse, ControlRequest, ControlResponse, EventPage, ExecutionAnalysis,
    ExecutionDetail, ExecutionStatusView, FinalizeRequest, FinalizeResponse,
};
use noetl_api::explain::{ExecutionExplanation, ExplainQuery, PointInTime};
use noetl_api::paths;
use noetl_api::query::{EventOrder, EventsQuery, ExecutionDetailQuery, ExecutionsQuery};
use noetl_types::limits::{MAX_PAGE_OFFSET, PageLimit};
use noetl_types::{ErrorCode, EventName, ExecutionStatus, Seq, Timestamp};

use super::{
    ADMIN, EXEC_READ, EXEC_READ_OR_WORKER, EXEC_RUN, MAX_BATCH_BODY_SIZE, Route, get, handlers,
    post,
};
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::json_response::page_response;
use crate::http::json_response::{JsonAtSeq, JsonResponse};
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::middleware::idempotency::IdempotentResponse;
use crate::http::params::{IdempotencyKeyHeader, PathExecutionId, QueryParams, TraceHeaders};
use crate::http::request_context::AuthorizedCall;
use crate::services::executions::StartRequest;

/// Users start executions, and workers start child executions.
const EXEC_RUN_OR_WORKER: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecRun, Scope::Worker]);

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::EXECUTE, EXEC_RUN_OR_WORKER, start_execution),
        post(paths::EXECUTE_BATCH, EXEC_RUN, start_executions).max_body(MAX_BATCH_BODY_SIZE),
        get(paths::EXECUTIONS, EXEC_READ, list_executions),
        get(paths::EXECUTION, EXEC_READ, get_execution),
        get(paths::EXECUTION_STATUS, EXEC_READ, get_execution_status),
        get(paths::EXECUTION_EVENTS, EXEC_READ, list_execution_events),
        get(paths::EXECUTION_EXPLAIN, EXEC_READ, explain_execution),
        post(paths::EXECUTION_ANALYZE, EXEC_READ, analyze_execution),
        get(paths::EXECUTION_CANCELLATION, EXEC_READ_OR_WORKER, check_cancellation),
        post(paths::EXECUTION_CANCEL, EXEC_RUN, cancel_execution).audited(),
        post(paths::EXECUTION_STOP, EXEC_RUN, cancel_execution).audited(),
        post(paths::EXECUTION_RERUN, EXEC_RUN, rerun_execution).audited(),
        post(paths::EXECUTION_PAUSE, EXEC_RUN, pause_execution).audited(),
        post(paths::EXECUTION_RESUME, EXEC_RUN, resume_execution).audited(),
        post(paths::EXECUTION_FINALIZE, ADMIN, finalize_execution).audited(),
        post(paths::EXECUTIONS_CLEANUP, ADMIN, clean_up_executions).audited(),
    ]
}

/// Lists executions.
async fn list_executions(
    AuthorizedCall(app): AuthorizedCall,
    uri: Uri,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let query = ExecutionsQuery {
        status: params
            .parse_param("status", |status| ExecutionStatus::parse(&status.to_ascii_uppercase()))?,
        path: params.text_param("path")?,
        catalog_id: params.parse_param("catalog_id", str::parse)?,
        parent: params.parse_param("parent", str::parse)?,
        label: params.text_param("label")?,
        since: params.parse_param("since", Timestamp::parse)?,
        until: params.parse_param("until", Timestamp::parse)?,
        q: params.text_param("q")?,
        system: params.bool_param("system")?,
        roots: params.bool_param("roots")?.unwrap_or(false),
        limit: params.page_limit("limit", PageLimit::default())?,
        offset: params.number_param("offset", 0..=MAX_PAGE_OFFSET)?.unwrap_or(0),
        cursor: params.text_param("cursor")?,
    };
    let page = app.services.queries.list_executions(&app.ctx, query).await?;
    Ok(page_response(page.executions, &uri, page.next_cursor.as_ref()))
}

/// Returns an execution with a page of its log.
async fn get_execution(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonAtSeq<ExecutionDetail>, HttpError> {
    let query = ExecutionDetailQuery {
        page: params.number_param("page", 1..=u32::MAX)?,
        page_size: params.optional_page_limit("page_size")?,
        since_event_id: params.parse_param("since_event_id", str::parse)?,
        event_type: params.parse_param("event_type", EventName::parse)?,
    };
    let (ctx, observed) = app.ctx.observe_seq();
    let detail = app.services.queries.execution_detail(&ctx, execution_id, query).await?;
    Ok(JsonAtSeq(detail, observed))
}

/// Returns the status of an execution.
async fn get_execution_status(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
) -> Result<JsonAtSeq<ExecutionStatusView>, HttpError> {
    let (ctx, observed) = app.ctx.observe_seq();
    Ok(JsonAtSeq(app.services.queries.execution_status(&ctx, execution_id).await?, observed))
}

/// Explains why an execution waits, or how it ended.
async fn explain_execution(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonAtSeq<ExecutionExplanation>, HttpError> {
    let query = ExplainQuery {
        step: params.text_param("step")?,
        at: params.parse_param("at", PointInTime::parse)?,
    };
    params.reject_unknown()?;
    let (ctx, observed) = app.ctx.observe_seq();
    Ok(JsonAtSeq(
        app.services.queries.explain_execution(&ctx, execution_id, query).await?,
        observed,
    ))
}

/// Lists the events of an execution.
async fn list_execution_events(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonAtSeq<EventPage>, HttpError> {
    let seq = |text: &str| -> Result<Seq, String> {
        let number = text.parse::<i64>().map_err(|error| error.to_string())?;
        Seq::new(number).map_err(|error| error.to_string())
    };
    let order = |text: &str| EventOrder::parse(text).ok_or("expected `asc` or `desc`");
    let after_seq = match params.parse_param("after_seq", str::parse::<i64>)? {
        // 0 is the position before the first event.
        None | Some(0) => None,
        Some(number) => Some(
            Seq::new(number)
                .map_err(|error| HttpError::new(ErrorCode::OutOfRange, error.to_string()))?,
        ),
    };
    let query = EventsQuery {
        after_seq,
        before_seq: params.parse_param("before_seq", seq)?,
        event_type: params.parse_param("type", EventName::parse)?,
        step: params.text_param("step")?,
        order: params.parse_param("order", order)?.unwrap_or_default(),
        limit: params.page_limit("limit", PageLimit::default())?,
        cursor: params.text_param("cursor")?,
    };
    params.reject_unknown()?;
    let (ctx, observed) = app.ctx.observe_seq();
    Ok(JsonAtSeq(app.services.queries.list_events(&ctx, execution_id, query).await?, observed))
}

/// Starts an execution.
async fn start_execution(
    AuthorizedCall(app): AuthorizedCall,
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
    let mut start = StartRequest::from(request);
    if let Some(key) = key.key_text() {
        start = start.with_idempotency_key(key)?;
    }
    let started = app.services.executions.start(&app.ctx, start).await?;
    Ok(IdempotentResponse { response: JsonResponse(started.answer), is_replay: started.is_replay })
}

handlers! {
    /// Explains an execution, with a sample of its events, for classic clients.
    analyze_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBodyOrDefault<AnalyzeRequest>) -> ExecutionAnalysis =>
        app.services.queries.analyze_execution(&app.ctx, execution_id, request);
    /// Returns the cancellation state of an execution.
    check_cancellation(app: AuthorizedCall, execution_id: PathExecutionId) -> CancellationCheck =>
        app.services.executions.check_cancellation(&app.ctx, execution_id);
    /// Cancels an execution.
    cancel_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBodyOrDefault<CancelRequest>) -> CancelResponse =>
        app.services.executions
            .cancel_execution(&app.ctx, execution_id, Some(app.identity.actor()), request);
    /// Starts several executions.
    start_executions(app: AuthorizedCall, request: JsonBody<ExecuteBatchRequest>)
        -> ExecuteBatchResponse => app.services.executions.execute_batch(&app.ctx, request);
    /// Starts an execution with the definition and input of an earlier one.
    rerun_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBodyOrDefault<RerunRequest>) -> ExecuteResponse =>
        app.services.executions.rerun_execution(&app.ctx, execution_id, request);
    /// Pauses an execution.
    pause_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBodyOrDefault<ControlRequest>) -> ControlResponse =>
        app.services.executions
            .pause_execution(&app.ctx, execution_id, Some(app.identity.actor()), request);
    /// Resumes an execution.
    resume_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBodyOrDefault<ControlRequest>) -> ControlResponse =>
        app.services.executions
            .resume_execution(&app.ctx, execution_id, Some(app.identity.actor()), request);
    /// Ends an execution with a given status.
    finalize_execution(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBody<FinalizeRequest>) -> FinalizeResponse =>
        app.services.executions
            .finalize_execution(&app.ctx, execution_id, Some(app.identity.actor()), request);
    /// Cancels idle executions.
    clean_up_executions(app: AuthorizedCall, request: JsonBodyOrDefault<CleanupRequest>)
        -> CleanupResponse =>
        app.services.executions.cancel_idle_executions(&app.ctx, Some(app.identity.actor()), request);
}
