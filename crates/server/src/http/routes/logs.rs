//! Output that tasks of an execution sent while they ran.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use noetl_api::output::{OutputPage, OutputQuery};
use noetl_api::paths;

use super::{EXEC_READ, Route, get};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::live_stream::{self, LiveItem, LiveSource, StreamFormat};
use crate::http::params::{PathExecutionId, QueryParams};
use crate::http::request_context::AuthorizedCall;
use crate::services::queries::OutputFollower;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::EXECUTION_LOGS, EXEC_READ, list_output),
        get(paths::EXECUTION_LOGS_STREAM, EXEC_READ, follow_output),
    ]
}

/// Lists the output of an execution.
async fn list_output(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    mut params: QueryParams,
) -> Result<JsonResponse<OutputPage>, HttpError> {
    let query = OutputQuery {
        after: params.parse_param("after", parse_position)?,
        limit: params.number_param("limit", 1..=u32::MAX)?,
        ..output_query(&mut params)?
    };
    params.reject_unknown()?;
    Ok(JsonResponse(app.services.queries.list_output(&app.ctx, execution_id, query).await?))
}

/// Streams the output of an execution until it ends. The id of a chunk is its position.
async fn follow_output(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let after = live_stream::requested_event_id(&headers, &mut params)?
        .map(|id| parse_position(&id).map_err(|_| live_stream::invalid_event_id()));
    let query = OutputQuery { after: after.transpose()?, ..output_query(&mut params)? };
    params.reject_unknown()?;
    let follower = app.services.queries.follow_output(&app.ctx, execution_id, query).await?;
    Ok(live_stream::live_response(follower, StreamFormat::from_accept(&headers), app))
}

fn output_query(params: &mut QueryParams) -> Result<OutputQuery, HttpError> {
    Ok(OutputQuery {
        step: params.text_param("step")?,
        attempt: params.number_param("attempt", 1..=u32::MAX)?,
        ..OutputQuery::default()
    })
}

/// Parses a position, which a store can hold.
fn parse_position(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.parse::<u64>().map(|position| position.min(i64::MAX.unsigned_abs()))
}

impl LiveSource for OutputFollower {
    async fn next_items(&mut self, timeout: Duration) -> Result<Option<Vec<LiveItem>>, HttpError> {
        let chunks = Self::next(self, timeout).await?;
        Ok(chunks.map(|chunks| chunks.into_iter().map(LiveItem::Output).collect()))
    }
}
