//! The wire of classic workers: commands by name, events one by one.

use noetl_api::classic::{
    ClaimAnswer, ClaimRequest, ClassicCommand, CommandList, EventAnswer, EventBatch,
    EventBatchAnswer, EventPost,
};
use noetl_api::query::CommandsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandStatus, PoolName, WorkerId};

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{EventOf, Params};

/// A command, by the event that issued it.
pub(in crate::http) async fn command(
    For(app): For,
    EventOf(event_id): EventOf,
) -> Result<Answer<ClassicCommand>, Failure> {
    Ok(Answer(app.runtime.command_of(event_id).await?))
}

/// Gives a command to a worker that names it.
pub(in crate::http) async fn claim(
    For(app): For,
    EventOf(event_id): EventOf,
    JsonBody(request): JsonBody<ClaimRequest>,
) -> Result<Answer<ClaimAnswer>, Failure> {
    Ok(Answer(app.runtime.claim_command(event_id, request).await?))
}

/// Takes an event.
pub(in crate::http) async fn event(
    For(app): For,
    JsonBody(post): JsonBody<EventPost>,
) -> Result<Answer<EventAnswer>, Failure> {
    Ok(Answer(app.runtime.take_event(post).await?))
}

/// Takes several events of one execution.
pub(in crate::http) async fn events(
    For(app): For,
    JsonBody(batch): JsonBody<EventBatch>,
) -> Result<Answer<EventBatchAnswer>, Failure> {
    Ok(Answer(app.runtime.take_events(batch).await?))
}

/// The queue.
pub(in crate::http) async fn list(
    For(app): For,
    mut params: Params,
) -> Result<Answer<CommandList>, Failure> {
    let query = CommandsQuery {
        status: params.read("status", |status| {
            CommandStatus::parse(&status.to_ascii_uppercase())
        })?,
        pool: params.read("pool", |pool| PoolName::new(pool))?,
        worker_id: params.read("worker_id", |worker| WorkerId::new(worker))?,
        execution_id: params.read("execution_id", str::parse)?,
        limit: params.page_limit("limit", PageLimit::default())?,
        cursor: params.text("cursor")?,
    };
    params.nothing_else()?;
    Ok(Answer(app.runtime.commands(query).await?))
}
