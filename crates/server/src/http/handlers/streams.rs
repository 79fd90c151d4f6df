//! Events as they happen.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use noetl_api::execution::EventView;
use noetl_store::LogEpoch;
use noetl_types::{EventName, FeedPosition, PlaybookPath, Version};

use crate::http::acting::For;
use crate::http::failure::Failure;
use crate::http::live::{self, Form, News, Source};
use crate::http::params::{ExecutionOf, Params};
use crate::read::{FeedFollower, FeedWish, Follower, LogPlace, Told};

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
    Ok(live::answer(follower, Form::wanted(&headers), app))
}

impl Source for Follower {
    async fn next(&mut self, patience: Duration) -> Result<Option<Vec<News>>, Failure> {
        let events = Self::next(self, patience).await?;
        let with_id = |event: EventView| News::Event {
            id: event.seq.to_string(),
            event: Box::new(event),
        };
        Ok(events.map(|events| events.into_iter().map(with_id).collect()))
    }
}

/// All events as they are committed. The id of an event is the life of the log and its place among all
/// events of that.
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
    Ok(live::answer(follower, Form::wanted(&headers), app))
}

/// An id without a life is one of the present life.
fn place(id: &str) -> Option<(Option<LogEpoch>, FeedPosition)> {
    let (epoch, place) = match id.split_once(':') {
        Some((epoch, place)) => (Some(LogEpoch::new(epoch.parse().ok()?)), place),
        None => (None, id),
    };
    let (tx, position) = place.split_once('.')?;
    let place = FeedPosition {
        tx: tx.parse().ok()?,
        position: position.parse().ok()?,
    };
    Some((epoch, place))
}

fn id_of(place: LogPlace) -> String {
    let FeedPosition { tx, position } = place.at;
    format!("{}:{tx}.{position}", place.log_epoch.get())
}

impl Source for FeedFollower {
    async fn next(&mut self, patience: Duration) -> Result<Option<Vec<News>>, Failure> {
        let told = Self::next(self, patience).await?;
        let news = told.into_iter().map(|told| match told {
            Told::Event(place, event) => News::Event {
                id: id_of(place),
                event,
            },
            Told::Gap { after, first } => News::Gap {
                id: id_of(after),
                first: first.map(id_of),
            },
        });
        Ok(Some(news.collect()))
    }
}
