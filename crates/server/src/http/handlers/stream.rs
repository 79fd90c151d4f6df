//! The stream of all events.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use noetl_api::stream::{FeedAnswer, StreamStatus};
use noetl_store::FeedLimit;
use noetl_types::{ErrorCode, ExecutionId, FeedPosition, Seq};

use crate::http::acting::{App, For};
use crate::http::answer::{Answer, JSON, of_type};
use crate::http::failure::Failure;
use crate::http::params::Params;

/// Events that one answer may hold, and how many it holds unless the caller says so.
const LIMITS: std::ops::RangeInclusive<u32> = 1..=1_000;
const USUAL: u32 = 100;

/// How long a caller may wait, in milliseconds.
const WAITS: std::ops::RangeInclusive<u32> = 0..=30_000;

/// Where it stands: the stream of all tenants, so the answer is the same for everybody.
pub(in crate::http) async fn status(
    State(app): State<App>,
) -> Result<Answer<StreamStatus>, Failure> {
    Ok(Answer(app.of_nobody().stream_status().await?))
}

/// The feed behind a place, or from its end.
pub(in crate::http) async fn feed(
    For(app): For,
    mut params: Params,
) -> Result<Answer<FeedAnswer>, Failure> {
    let after = params.read("after", place)?;
    let limit = FeedLimit::clamped(params.number("limit", LIMITS)?.unwrap_or(USUAL));
    let wait = params.number("wait_ms", WAITS)?.unwrap_or(0);
    params.nothing_else()?;
    let after = match after {
        Some(after) => after,
        None => app.runtime.end_of_feed().await?,
    };
    let wait = Duration::from_millis(wait.into());
    tokio::select! {
        answer = app.runtime.feed(after, limit, wait) => Ok(Answer(answer?)),
        () = app.shutdown.cancelled() => {
            Ok(Answer(app.runtime.feed(after, limit, Duration::ZERO).await?))
        }
    }
}

fn place(text: &str) -> Result<FeedPosition, &'static str> {
    const NOT_A_PLACE: &str = "not a place that an answer named";
    let (tx, position) = text.split_once('.').ok_or(NOT_A_PLACE)?;
    Ok(FeedPosition {
        tx: tx.parse().map_err(|_| NOT_A_PLACE)?,
        position: position.parse().map_err(|_| NOT_A_PLACE)?,
    })
}

/// An event as the stream carries it, whatever its size.
pub(in crate::http) async fn event(
    For(app): For,
    Path((execution_id, seq)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let wrong = |why: String| Failure::new(ErrorCode::BadId, why);
    let execution_id: ExecutionId = execution_id
        .parse()
        .map_err(|error| wrong(format!("not the id of an execution: {error}")))?;
    let seq: i64 = seq
        .parse()
        .map_err(|error| wrong(format!("not the place of an event: {error}")))?;
    let seq = Seq::new(seq).map_err(|error| wrong(error.to_string()))?;
    let body = app.runtime.streamed_event(execution_id, seq).await?;
    Ok(of_type(JSON, body))
}

/// Has the whole log published again: the log of all tenants, so it is nobody's in particular.
pub(in crate::http) async fn rebuild(
    State(app): State<App>,
) -> Result<Answer<StreamStatus>, Failure> {
    Ok(Answer(app.of_nobody().rebuild_stream().await?))
}
