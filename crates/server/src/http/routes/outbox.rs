//! The outbox and the quarantine.

use axum::extract::State;
use noetl_api::internal::{
    MarkFailedRequest, MarkFailedResponse, MarkPublishedRequest, MarkPublishedResponse,
    OutboxChangeResponse, OutboxClaimRequest, OutboxClaimResponse, OutboxIds, OutboxList,
    PendingCount, QuarantineList,
};
use noetl_api::paths;
use noetl_store::{OutboxFilter, OutboxStatus, QuarantineFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId};

use super::{Route, get, handlers, post};
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::params::QueryParams;
use crate::http::request_context::AppState;

const OUTBOX: RouteAccess = RouteAccess::Internal(Scope::InternalOutbox);

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::OUTBOX, OUTBOX, list_outbox_rows),
        post(paths::OUTBOX_CLAIM, OUTBOX, claim_outbox_rows),
        post(paths::OUTBOX_MARK_PUBLISHED, OUTBOX, mark_rows_published),
        post(paths::OUTBOX_MARK_FAILED, OUTBOX, mark_row_failed),
        get(paths::OUTBOX_PENDING_COUNT, OUTBOX, count_pending_rows),
        get(paths::OUTBOX_DEAD, OUTBOX, list_dead_rows),
        get(paths::QUARANTINE, OUTBOX, list_quarantine),
        // Operations that discard data permanently are audited.
        post(paths::OUTBOX_REPLAY, OUTBOX, replay_dead_rows).audited(),
        post(paths::OUTBOX_DISCARD, OUTBOX, discard_dead_rows).audited(),
    ]
}

/// Lists rows in the order of their ids.
async fn list_outbox_rows(
    State(app): State<AppState>,
    mut params: QueryParams,
) -> Result<JsonResponse<OutboxList>, HttpError> {
    let status =
        params.parse_param("status", |status| OutboxStatus::parse(&status.to_ascii_uppercase()))?;
    list_rows_with_status(&app, params, status).await
}

/// Lists rows that reached the maximum number of attempts.
async fn list_dead_rows(
    State(app): State<AppState>,
    params: QueryParams,
) -> Result<JsonResponse<OutboxList>, HttpError> {
    list_rows_with_status(&app, params, Some(OutboxStatus::Dead)).await
}

async fn list_rows_with_status(
    app: &AppState,
    mut params: QueryParams,
    status: Option<OutboxStatus>,
) -> Result<JsonResponse<OutboxList>, HttpError> {
    let filter = OutboxFilter {
        status,
        after: params.parse_param("after", str::parse::<OutboxId>)?,
        limit: params.page_limit("limit", PageLimit::default())?,
    };
    params.reject_unknown()?;
    Ok(JsonResponse(app.services().publishing.list_outbox(filter).await?))
}

/// Lists events in quarantine.
async fn list_quarantine(
    State(app): State<AppState>,
    mut params: QueryParams,
) -> Result<JsonResponse<QuarantineList>, HttpError> {
    let filter = QuarantineFilter {
        source: params.text_param("source")?,
        after: params.parse_param("after", str::parse::<QuarantineId>)?,
        limit: params.page_limit("limit", PageLimit::default())?,
    };
    params.reject_unknown()?;
    Ok(JsonResponse(app.services().publishing.list_quarantine(filter).await?))
}

handlers! {
    /// Claims rows for a publisher.
    claim_outbox_rows(app: State<AppState>, request: JsonBodyOrDefault<OutboxClaimRequest>)
        -> OutboxClaimResponse => app.services().publishing.claim_outbox(request);
    /// Marks rows as published.
    mark_rows_published(app: State<AppState>, request: JsonBody<MarkPublishedRequest>)
        -> MarkPublishedResponse => app.services().publishing.mark_outbox_published(request);
    /// Marks a row as failed.
    mark_row_failed(app: State<AppState>, request: JsonBody<MarkFailedRequest>)
        -> MarkFailedResponse => app.services().publishing.mark_outbox_failed(request);
    /// Returns the number of rows that can be claimed.
    count_pending_rows(app: State<AppState>) -> PendingCount =>
        app.services().publishing.outbox_pending();
    /// Makes dead rows claimable again.
    replay_dead_rows(app: State<AppState>, request: JsonBody<OutboxIds>) -> OutboxChangeResponse =>
        app.services().publishing.replay_outbox(request);
    /// Discards dead rows.
    discard_dead_rows(app: State<AppState>, request: JsonBody<OutboxIds>) -> OutboxChangeResponse =>
        app.services().publishing.discard_outbox(request);
}
