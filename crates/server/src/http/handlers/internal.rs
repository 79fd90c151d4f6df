//! What the parts of the platform ask of each other.

use axum::extract::State;
use noetl_api::internal::{
    AdvanceAnswer, AdvanceRequest, MaterializeAnswer, ProjectAnswer, ProjectRequest, PurgeAnswer,
    PurgeRequest, SentEvent,
};
use noetl_types::Json;

use crate::http::acting::App;
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
use crate::http::failure::Failure;

/// Copies events into the log.
pub(in crate::http) async fn project(
    State(app): State<App>,
    JsonBody(request): JsonBody<ProjectRequest>,
) -> Result<Answer<ProjectAnswer>, Failure> {
    Ok(Answer(app.of_nobody().project(request).await?))
}

/// Copies events into the log, as workers tell them.
pub(in crate::http) async fn materialize(
    State(app): State<App>,
    JsonListBody(events): JsonListBody<SentEvent>,
) -> Result<Answer<MaterializeAnswer>, Failure> {
    let events = events.into_iter().map(|sent| sent.0).collect();
    Ok(Answer(app.of_nobody().materialize(events).await?))
}

/// Lets read models follow their logs.
pub(in crate::http) async fn advance(
    State(app): State<App>,
    JsonBody(request): JsonBody<AdvanceRequest>,
) -> Result<Answer<AdvanceAnswer>, Failure> {
    Ok(Answer(app.of_nobody().advance(request).await?))
}

/// Drops what is old.
pub(in crate::http) async fn purge(
    State(app): State<App>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<PurgeRequest>,
) -> Result<Answer<PurgeAnswer>, Failure> {
    Ok(Answer(app.of_nobody().purge(request).await?))
}

/// The cells that there are: none, since nothing configures one.
pub(in crate::http) async fn cells() -> Answer<Json> {
    Answer(Json::object([("cells", Json::list([]))]))
}
