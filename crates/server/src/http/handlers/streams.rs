//! Events as they happen.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use noetl_api::execution::EventView;
use noetl_types::Version;

use crate::http::failure::Failure;
use crate::http::live::{self, Form, Source};
use crate::http::params::{ExecutionOf, Params};
use crate::http::routes::App;
use crate::read::Follower;

/// The log of an execution as it grows, to its end. The id of an event is its place in the log.
pub(in crate::http) async fn execution(
    State(app): State<App>,
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
