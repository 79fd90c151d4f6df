//! Read access to executions.

use axum::http::Uri;
use axum::response::Response;
use noetl_api::execution::{
    AnalyzeRequest, CancellationCheck, EventPage, ExecutionAnalysis, ExecutionDetail,
    ExecutionStatusView,
};
use noetl_api::explain::{ExecutionExplanation, ExplainQuery, PointInTime};
use noetl_api::query::{EventOrder, EventsQuery, ExecutionDetailQuery, ExecutionsQuery};
use noetl_types::limits::{MAX_PAGE_OFFSET, PageLimit};
use noetl_types::{EventName, ExecutionStatus, Seq, Timestamp};

use crate::http::authorized_runtime::AuthorizedRuntime;
use crate::http::body::JsonBodyOrDefault;
use crate::http::http_error::HttpError;
use crate::http::json_response::{JsonAtSeq, JsonResponse};
use crate::http::page_response::page_response;
use crate::http::params::{PathExecutionId, QueryParams};

/// Lists executions.
pub(in crate::http) async fn list_executions(
    AuthorizedRuntime(app): AuthorizedRuntime,
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
    let page = app.runtime.list_executions(query).await?;
    Ok(page_response(page.executions, &uri, page.next_cursor.as_ref()))
}

/// Returns an execution with a page of its log.
pub(in crate::http) async fn get_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonAtSeq<ExecutionDetail>, HttpError> {
    let defaults = ExecutionDetailQuery::default();
    let query = ExecutionDetailQuery {
        page: params.number_param("page", 1..=u32::MAX)?.unwrap_or(defaults.page),
        page_size: params.page_limit("page_size", defaults.page_size)?,
        since_event_id: params.parse_param("since_event_id", str::parse)?,
        event_type: params.parse_param("event_type", EventName::parse)?,
    };
    let (runtime, observed) = app.runtime.observe_seq();
    let detail = runtime.execution_detail(execution_id, query).await?;
    Ok(JsonAtSeq(detail, observed))
}

/// Returns the status of an execution.
pub(in crate::http) async fn get_execution_status(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
) -> Result<JsonAtSeq<ExecutionStatusView>, HttpError> {
    let (runtime, observed) = app.runtime.observe_seq();
    Ok(JsonAtSeq(runtime.execution_status(execution_id).await?, observed))
}

/// Explains why an execution waits, or how it ended.
pub(in crate::http) async fn explain_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonAtSeq<ExecutionExplanation>, HttpError> {
    let query = ExplainQuery {
        step: params.text_param("step")?,
        at: params.parse_param("at", PointInTime::parse)?,
    };
    params.reject_unknown()?;
    let (runtime, observed) = app.runtime.observe_seq();
    Ok(JsonAtSeq(runtime.explain_execution(execution_id, query).await?, observed))
}

/// Explains an execution, with a sample of its events, for classic clients.
pub(in crate::http) async fn analyze_execution(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    JsonBodyOrDefault(request): JsonBodyOrDefault<AnalyzeRequest>,
) -> Result<JsonResponse<ExecutionAnalysis>, HttpError> {
    Ok(JsonResponse(app.runtime.analyze_execution(execution_id, request).await?))
}

/// Returns the cancellation state of an execution.
pub(in crate::http) async fn check_cancellation(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
) -> Result<JsonResponse<CancellationCheck>, HttpError> {
    Ok(JsonResponse(app.runtime.check_cancellation(execution_id).await?))
}

/// Lists the events of an execution.
pub(in crate::http) async fn list_execution_events(
    AuthorizedRuntime(app): AuthorizedRuntime,
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
        Some(number) => Some(Seq::new(number).map_err(|error| {
            HttpError::new(noetl_types::ErrorCode::OutOfRange, error.to_string())
        })?),
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
    let (runtime, observed) = app.runtime.observe_seq();
    Ok(JsonAtSeq(runtime.list_events(execution_id, query).await?, observed))
}
