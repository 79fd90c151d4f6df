//! Signals and decisions reach executions that wait.

use axum::http::Uri;
use axum::response::Response;
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{
    ApproveAnswer, ApproveRequest, BroadcastAnswer, SignalAnswer, SignalRequest,
};
use noetl_types::limits::PageLimit;

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::paged::paged;
use crate::http::params::{ExecutionOf, Params};

/// Sends a signal to an execution.
pub(in crate::http) async fn signal(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBody(request): JsonBody<SignalRequest>,
) -> Result<Answer<SignalAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    let sent = app.runtime.signal(execution_id, actor, request).await?;
    Ok(Answer(sent))
}

/// Sends a signal to everybody.
pub(in crate::http) async fn broadcast(
    For(app): For,
    JsonBody(request): JsonBody<SignalRequest>,
) -> Result<Answer<BroadcastAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    Ok(Answer(app.runtime.broadcast(actor, request).await?))
}

/// Decides about something that an execution waits for.
pub(in crate::http) async fn approve(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBody(request): JsonBody<ApproveRequest>,
) -> Result<Answer<ApproveAnswer>, Failure> {
    let actor = app.identity.actor();
    let decided = app.runtime.approve(execution_id, actor, request).await?;
    Ok(Answer(decided))
}

/// What waits for a person.
pub(in crate::http) async fn approvals(
    For(app): For,
    uri: Uri,
    mut params: Params,
) -> Result<Response, Failure> {
    let query = ApprovalsQuery {
        execution_id: params.read("execution_id", str::parse)?,
        limit: Some(params.page_limit("limit", PageLimit::MAX)?),
        cursor: params.text("cursor")?,
    };
    params.nothing_else()?;
    let list = app.runtime.approvals(query).await?;
    let next = list.next_cursor.clone();
    Ok(paged(list, &uri, next.as_ref()))
}
