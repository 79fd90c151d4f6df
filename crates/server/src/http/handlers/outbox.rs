//! The outbox: rows go to publishers, and come back marked.

use axum::extract::State;
use noetl_api::internal::{
    MarkFailedAnswer, MarkFailedRequest, MarkPublishedAnswer, MarkPublishedRequest, OutboxChanged,
    OutboxClaimAnswer, OutboxClaimRequest, OutboxIds, OutboxList, PendingCount, QuarantineList,
};
use noetl_store::{OutboxFilter, OutboxStatus, QuarantineFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId};

use crate::http::acting::App;
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::failure::Failure;
use crate::http::params::Params;

/// Hands rows to a publisher.
pub(in crate::http) async fn claim(
    State(app): State<App>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<OutboxClaimRequest>,
) -> Result<Answer<OutboxClaimAnswer>, Failure> {
    Ok(Answer(app.of_nobody().claim_outbox(request).await?))
}

/// Rows are out.
pub(in crate::http) async fn mark_published(
    State(app): State<App>,
    JsonBody(request): JsonBody<MarkPublishedRequest>,
) -> Result<Answer<MarkPublishedAnswer>, Failure> {
    Ok(Answer(
        app.of_nobody().mark_outbox_published(request).await?,
    ))
}

/// A row could not be published.
pub(in crate::http) async fn mark_failed(
    State(app): State<App>,
    JsonBody(request): JsonBody<MarkFailedRequest>,
) -> Result<Answer<MarkFailedAnswer>, Failure> {
    Ok(Answer(app.of_nobody().mark_outbox_failed(request).await?))
}

/// How many rows could be claimed.
pub(in crate::http) async fn pending_count(
    State(app): State<App>,
) -> Result<Answer<PendingCount>, Failure> {
    Ok(Answer(app.of_nobody().outbox_pending().await?))
}

/// Rows, by id.
pub(in crate::http) async fn list(
    State(app): State<App>,
    mut params: Params,
) -> Result<Answer<OutboxList>, Failure> {
    let status = params.read("status", |status| {
        OutboxStatus::parse(&status.to_ascii_uppercase())
    })?;
    listed(&app, params, status).await
}

/// Rows that failed too often.
pub(in crate::http) async fn dead(
    State(app): State<App>,
    params: Params,
) -> Result<Answer<OutboxList>, Failure> {
    listed(&app, params, Some(OutboxStatus::Dead)).await
}

async fn listed(
    app: &App,
    mut params: Params,
    status: Option<OutboxStatus>,
) -> Result<Answer<OutboxList>, Failure> {
    let filter = OutboxFilter {
        status,
        after: params.read("after", str::parse::<OutboxId>)?,
        limit: params.page_limit("limit", PageLimit::default())?,
    };
    params.nothing_else()?;
    Ok(Answer(app.of_nobody().outbox(filter).await?))
}

/// What was refused while its neighbours went on.
pub(in crate::http) async fn quarantine(
    State(app): State<App>,
    mut params: Params,
) -> Result<Answer<QuarantineList>, Failure> {
    let filter = QuarantineFilter {
        source: params.text("source")?,
        after: params.read("after", str::parse::<QuarantineId>)?,
        limit: params.page_limit("limit", PageLimit::default())?,
    };
    params.nothing_else()?;
    Ok(Answer(app.of_nobody().quarantine(filter).await?))
}

/// Sends dead rows out again.
pub(in crate::http) async fn replay(
    State(app): State<App>,
    JsonBody(request): JsonBody<OutboxIds>,
) -> Result<Answer<OutboxChanged>, Failure> {
    Ok(Answer(app.of_nobody().replay_outbox(request).await?))
}

/// Gives dead rows up.
pub(in crate::http) async fn discard(
    State(app): State<App>,
    JsonBody(request): JsonBody<OutboxIds>,
) -> Result<Answer<OutboxChanged>, Failure> {
    Ok(Answer(app.of_nobody().discard_outbox(request).await?))
}
