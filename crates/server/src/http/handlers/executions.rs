//! Executions are looked at.

use axum::http::Uri;
use axum::response::Response;
use noetl_api::execution::{
    Analysis, AnalyzeRequest, CancellationCheck, EventPage, ExecutionDetail, StatusView,
};
use noetl_api::explain::{At, ExplainQuery, Explanation};
use noetl_api::query::{DetailQuery, EventsQuery, ExecutionsQuery, Order};
use noetl_types::limits::{MAX_PAGE_OFFSET, PageLimit};
use noetl_types::{EventName, ExecutionStatus, Seq, Timestamp};

use crate::http::acting::For;
use crate::http::answer::{Answer, AsOf};
use crate::http::body::JsonBodyOrDefault;
use crate::http::failure::Failure;
use crate::http::paged::paged;
use crate::http::params::{ExecutionOf, Params};

/// The list of executions.
pub(in crate::http) async fn list(
    For(app): For,
    uri: Uri,
    mut params: Params,
) -> Result<Response, Failure> {
    let query = ExecutionsQuery {
        status: params.read("status", |status| {
            ExecutionStatus::parse(&status.to_ascii_uppercase())
        })?,
        path: params.text("path")?,
        catalog_id: params.read("catalog_id", str::parse)?,
        parent: params.read("parent", str::parse)?,
        label: params.text("label")?,
        since: params.read("since", Timestamp::parse)?,
        until: params.read("until", Timestamp::parse)?,
        q: params.text("q")?,
        system: params.flag("system")?,
        roots: params.flag("roots")?.unwrap_or(false),
        limit: params.page_limit("limit", PageLimit::default())?,
        offset: params.number("offset", 0..=MAX_PAGE_OFFSET)?.unwrap_or(0),
        cursor: params.text("cursor")?,
    };
    let page = app.runtime.executions(query).await?;
    Ok(paged(page.executions, &uri, page.next_cursor.as_ref()))
}

/// An execution with a page of its log.
pub(in crate::http) async fn detail(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    mut params: Params,
) -> Result<AsOf<ExecutionDetail>, Failure> {
    let usual = DetailQuery::default();
    let query = DetailQuery {
        page: params.number("page", 1..=u32::MAX)?.unwrap_or(usual.page),
        page_size: params.page_limit("page_size", usual.page_size)?,
        since_event_id: params.read("since_event_id", str::parse)?,
        event_type: params.read("event_type", EventName::read)?,
    };
    let (runtime, seen) = app.runtime.seeing();
    let detail = runtime.execution_detail(execution_id, query).await?;
    Ok(AsOf(detail, seen))
}

/// Where an execution stands.
pub(in crate::http) async fn status(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<AsOf<StatusView>, Failure> {
    let (runtime, seen) = app.runtime.seeing();
    Ok(AsOf(runtime.execution_status(execution_id).await?, seen))
}

/// Why an execution waits, or how it came to its end.
pub(in crate::http) async fn explain(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    mut params: Params,
) -> Result<AsOf<Explanation>, Failure> {
    let query = ExplainQuery {
        step: params.text("step")?,
        at: params.read("at", At::parse)?,
    };
    params.nothing_else()?;
    let (runtime, seen) = app.runtime.seeing();
    Ok(AsOf(runtime.explain(execution_id, query).await?, seen))
}

/// The same with some of its events.
pub(in crate::http) async fn analyze(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBodyOrDefault(request): JsonBodyOrDefault<AnalyzeRequest>,
) -> Result<Answer<Analysis>, Failure> {
    Ok(Answer(app.runtime.analyze(execution_id, request).await?))
}

/// Whether somebody ended an execution.
pub(in crate::http) async fn cancellation(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
) -> Result<Answer<CancellationCheck>, Failure> {
    Ok(Answer(app.runtime.cancellation(execution_id).await?))
}

/// The log of an execution.
pub(in crate::http) async fn events(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    mut params: Params,
) -> Result<AsOf<EventPage>, Failure> {
    let seq = |text: &str| -> Result<Seq, String> {
        let number = text.parse::<i64>().map_err(|error| error.to_string())?;
        Seq::new(number).map_err(|error| error.to_string())
    };
    let order = |text: &str| Order::parse(text).ok_or("neither `asc` nor `desc`");
    let after_seq = match params.read("after_seq", str::parse::<i64>)? {
        // Behind the place before the first: from the beginning.
        None | Some(0) => None,
        Some(number) => Some(Seq::new(number).map_err(|error| {
            Failure::new(noetl_types::ErrorCode::OutOfRange, error.to_string())
        })?),
    };
    let query = EventsQuery {
        after_seq,
        before_seq: params.read("before_seq", seq)?,
        event_type: params.read("type", EventName::read)?,
        step: params.text("step")?,
        order: params.read("order", order)?.unwrap_or_default(),
        limit: params.page_limit("limit", PageLimit::default())?,
        cursor: params.text("cursor")?,
    };
    params.nothing_else()?;
    let (runtime, seen) = app.runtime.seeing();
    Ok(AsOf(runtime.events(execution_id, query).await?, seen))
}
