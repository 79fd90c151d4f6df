//! Live events of one execution or of the tenant.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use noetl_api::execution::EventView;
use noetl_api::paths;
use noetl_store::LogEpoch;
use noetl_types::{EventName, ExecutionVersion, FeedPosition, PlaybookPath};

use super::{EXEC_READ, Route, get};
use crate::http::http_error::HttpError;
use crate::http::live_stream::{self, LiveItem, LiveSource, StreamFormat};
use crate::http::params::{PathExecutionId, QueryParams};
use crate::http::request_context::AuthorizedCall;
use crate::services::queries::{FeedFilter, FeedFollower, FeedUpdate, LogFollower, LogPosition};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::EXECUTION_EVENTS_STREAM, EXEC_READ, follow_execution),
        get(paths::EVENTS_STREAM, EXEC_READ, follow_events),
    ]
}

/// Streams the log of an execution until it ends. The id of an event is its seq.
async fn follow_execution(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let after = match live_stream::requested_event_id(&headers, &mut params)? {
        None => ExecutionVersion::EMPTY,
        Some(id) => id
            .parse()
            .ok()
            .and_then(|seq| ExecutionVersion::new(seq).ok())
            .ok_or_else(live_stream::invalid_event_id)?,
    };
    params.reject_unknown()?;
    let follower = app.services.queries.follow_log(&app.ctx, execution_id, after).await?;
    Ok(live_stream::live_response(follower, StreamFormat::from_accept(&headers), app))
}

impl LiveSource for LogFollower {
    async fn next_items(&mut self, timeout: Duration) -> Result<Option<Vec<LiveItem>>, HttpError> {
        let events = Self::next(self, timeout).await?;
        let with_id = |event: EventView| LiveItem::Event {
            id: event.seq.to_string(),
            event: Box::new(event),
        };
        Ok(events.map(|events| events.into_iter().map(with_id).collect()))
    }
}

/// Streams all events of the tenant as they are committed. The id of an event is the log epoch and
/// its feed position.
async fn follow_events(
    AuthorizedCall(app): AuthorizedCall,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let after = match live_stream::requested_event_id(&headers, &mut params)? {
        None => None,
        Some(id) => Some(parse_event_id(&id).ok_or_else(live_stream::invalid_event_id)?),
    };
    let filter = FeedFilter {
        tenant_id: app.ctx.tenant().clone(),
        event_type: params.parse_param("type", EventName::parse)?,
        execution_id: params.parse_param("execution_id", str::parse)?,
        path: params.parse_param("path", str::parse::<PlaybookPath>)?,
    };
    params.reject_unknown()?;
    let follower = app.services.queries.follow_feed(&app.ctx, filter, after).await?;
    Ok(live_stream::live_response(follower, StreamFormat::from_accept(&headers), app))
}

/// Parses the id of an event. An id without log epoch belongs to the current epoch.
fn parse_event_id(id: &str) -> Option<(Option<LogEpoch>, FeedPosition)> {
    let (epoch, position) = match id.split_once(':') {
        Some((epoch, position)) => (Some(LogEpoch::new(epoch.parse().ok()?)), position),
        None => (None, id),
    };
    let (tx, position) = position.split_once('.')?;
    let position = FeedPosition { tx: tx.parse().ok()?, position: position.parse().ok()? };
    Some((epoch, position))
}

fn format_event_id(log_position: LogPosition) -> String {
    let FeedPosition { tx, position } = log_position.at;
    format!("{}:{tx}.{position}", log_position.log_epoch.get())
}

impl LiveSource for FeedFollower {
    async fn next_items(&mut self, timeout: Duration) -> Result<Option<Vec<LiveItem>>, HttpError> {
        let updates = Self::next(self, timeout).await?;
        let items = updates.into_iter().map(|update| match update {
            FeedUpdate::Event(position, event) => {
                LiveItem::Event { id: format_event_id(position), event }
            }
            FeedUpdate::Gap { after, first } => {
                LiveItem::Gap { id: format_event_id(after), first: first.map(format_event_id) }
            }
        });
        Ok(Some(items.collect()))
    }
}
