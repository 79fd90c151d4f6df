//! What the parts of the platform ask of each other.

use axum::extract::State;
use noetl_api::internal::{
    AdvanceAnswer, AdvanceRequest, MaterializeAnswer, ProjectAnswer, ProjectRequest, PurgeAnswer,
    PurgeRequest, SentEvent,
};
use noetl_types::Json;

use crate::http::acting::{App, ForCopies};
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
use crate::http::failure::Failure;

/// Copies events into the log.
pub(in crate::http) async fn project(
    ForCopies(runtime, scope): ForCopies,
    JsonBody(request): JsonBody<ProjectRequest>,
) -> Result<Answer<ProjectAnswer>, Failure> {
    Ok(Answer(runtime.project(request, scope).await?))
}

/// Copies events into the log, as workers tell them.
pub(in crate::http) async fn materialize(
    ForCopies(runtime, scope): ForCopies,
    JsonListBody(events): JsonListBody<SentEvent>,
) -> Result<Answer<MaterializeAnswer>, Failure> {
    let events = events.into_iter().map(|sent| sent.0).collect();
    Ok(Answer(runtime.materialize(events, scope).await?))
}

/// Lets read models follow their logs.
pub(in crate::http) async fn advance(
    ForCopies(runtime, scope): ForCopies,
    JsonBody(request): JsonBody<AdvanceRequest>,
) -> Result<Answer<AdvanceAnswer>, Failure> {
    Ok(Answer(runtime.advance(request, scope).await?))
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
