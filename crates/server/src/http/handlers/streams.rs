//! Events as they happen.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use noetl_api::execution::EventView;
use noetl_types::{EventName, FeedPosition, PlaybookPath, Version};

use crate::http::acting::For;
use crate::http::failure::Failure;
use crate::http::live::{self, Form, Source};
use crate::http::params::{ExecutionOf, Params};
use crate::read::{FeedFollower, FeedWish, Follower};

/// The log of an execution as it grows, to its end. The id of an event is its place in the log.
pub(in crate::http) async fn execution(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Failure> {
    let after = match live::resume_after(&headers, &mut params)? {
        None => Version::EMPTY,
        Some(id) => id
            .parse()
            .ok()
            .and_then(|seq| Version::new(seq).ok())
            .ok_or_else(live::bad_id)?,
    };
    params.nothing_else()?;
    let follower = app.runtime.follow(execution_id, after).await?;
    Ok(live::answer(follower, Form::wanted(&headers), app.shutdown))
}

impl Source for Follower {
    async fn next(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Vec<(String, EventView)>>, Failure> {
        let events = Self::next(self, patience).await?;
        let with_id = |event: EventView| (event.seq.to_string(), event);
        Ok(events.map(|events| events.into_iter().map(with_id).collect()))
    }
}

/// All events as they are committed. The id of an event is its place among all of them.
pub(in crate::http) async fn all(
    For(app): For,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Failure> {
    let after = match live::resume_after(&headers, &mut params)? {
        None => None,
        Some(id) => Some(place(&id).ok_or_else(live::bad_id)?),
    };
    let wish = FeedWish {
        tenant_id: app.runtime.tenant().clone(),
        event_type: params.read("type", EventName::read)?,
        execution_id: params.read("execution_id", str::parse)?,
        path: params.read("path", str::parse::<PlaybookPath>)?,
    };
    params.nothing_else()?;
    let follower = app.runtime.follow_all(wish, after).await?;
    Ok(live::answer(follower, Form::wanted(&headers), app.shutdown))
}

fn place(id: &str) -> Option<FeedPosition> {
    let (tx, position) = id.split_once('.')?;
    Some(FeedPosition {
        tx: tx.parse().ok()?,
        position: position.parse().ok()?,
    })
}

impl Source for FeedFollower {
    async fn next(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Vec<(String, EventView)>>, Failure> {
        let events = Self::next(self, patience).await?;
        let with_id =
            |(at, event): (FeedPosition, EventView)| (format!("{}.{}", at.tx, at.position), event);
        Ok(Some(events.into_iter().map(with_id).collect()))
    }
}
