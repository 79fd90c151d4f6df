//! Status and feed of the event stream.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use noetl_api::paths;
use noetl_api::stream::{FeedResponse, StreamStatus};
use noetl_store::FeedLimit;
use noetl_types::{ErrorCode, ExecutionId, FeedPosition, Seq};

use super::{EXEC_READ, PLATFORM, Route, get, handlers, post};
use crate::http::http_error::HttpError;
use crate::http::json_response::{APPLICATION_JSON, JsonResponse, typed_response};
use crate::http::params::QueryParams;
use crate::http::request_context::{AppState, AuthorizedCall};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::STREAM_STATUS, EXEC_READ, get_operator_stream_status),
        get(paths::STREAM_FEED, EXEC_READ, read_stream_feed),
        get(paths::STREAM_EVENT, EXEC_READ, get_stream_event),
        get(paths::INTERNAL_STREAM_STATUS, PLATFORM, get_stream_status),
        post(paths::STREAM_REBUILD, PLATFORM, rebuild_stream).audited(),
    ]
}

/// Range and default of the number of events per response.
const FEED_LIMIT_RANGE: std::ops::RangeInclusive<u32> = 1..=1_000;
const DEFAULT_FEED_LIMIT: u32 = 100;

/// Range of the wait time, in milliseconds.
const FEED_WAIT_MS_RANGE: std::ops::RangeInclusive<u32> = 0..=30_000;

/// Returns the status of the stream to the operator, because it shows the load of all tenants.
async fn get_operator_stream_status(
    AuthorizedCall(app): AuthorizedCall,
) -> Result<JsonResponse<StreamStatus>, HttpError> {
    app.ctx.auth.check_operator()?;
    Ok(JsonResponse(app.services.publishing.stream_status().await?))
}

/// Returns the feed after a position, or from its end.
async fn read_stream_feed(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<FeedResponse>, HttpError> {
    let after = params.parse_param("after", parse_feed_position)?;
    let limit = FeedLimit::clamped(
        params.number_param("limit", FEED_LIMIT_RANGE)?.unwrap_or(DEFAULT_FEED_LIMIT),
    );
    let wait = params.number_param("wait_ms", FEED_WAIT_MS_RANGE)?.unwrap_or(0);
    params.reject_unknown()?;
    let after = match after {
        Some(after) => after,
        None => app.services.publishing.feed_end().await?,
    };
    let wait = Duration::from_millis(wait.into());
    tokio::select! {
        response = app.services.publishing.read_feed(&app.ctx, after, limit, wait) => Ok(JsonResponse(response?)),
        () = app.shutdown.cancelled() => {
            Ok(JsonResponse(app.services.publishing.read_feed(&app.ctx, after, limit, Duration::ZERO).await?))
        }
    }
}

fn parse_feed_position(text: &str) -> Result<FeedPosition, &'static str> {
    const INVALID_POSITION: &str = "invalid position: use one from an earlier response";
    let (tx, position) = text.split_once('.').ok_or(INVALID_POSITION)?;
    Ok(FeedPosition {
        tx: tx.parse().map_err(|_| INVALID_POSITION)?,
        position: position.parse().map_err(|_| INVALID_POSITION)?,
    })
}

/// Returns an event in the format of the stream, without size limit.
async fn get_stream_event(
    AuthorizedCall(app): AuthorizedCall,
    Path((execution_id, seq)): Path<(String, String)>,
) -> Result<Response, HttpError> {
    let bad_id = |text: String| HttpError::new(ErrorCode::BadId, text);
    let execution_id: ExecutionId =
        execution_id.parse().map_err(|error| bad_id(format!("invalid execution id: {error}")))?;
    let seq: i64 = seq.parse().map_err(|error| bad_id(format!("invalid seq: {error}")))?;
    let seq = Seq::new(seq).map_err(|error| bad_id(error.to_string()))?;
    let body = app.services.publishing.streamed_event(&app.ctx, execution_id, seq).await?;
    Ok(typed_response(APPLICATION_JSON, body))
}

handlers! {
    /// Returns the status of the stream. The stream contains the events of all tenants, so the response
    /// does not depend on the caller.
    get_stream_status(app: State<AppState>) -> StreamStatus =>
        app.services().publishing.stream_status();
    /// Publishes the whole log of all tenants again.
    rebuild_stream(app: State<AppState>) -> StreamStatus =>
        app.services().publishing.request_stream_rebuild();
}
