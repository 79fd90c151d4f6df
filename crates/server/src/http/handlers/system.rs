//! The system as people look at it, and what it does not do.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use noetl_api::system::{ServerStatus, ShardInfo, StatsAnswer, WhoAmI, Widgets};
use noetl_types::{ErrorCode, Text};

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::failure::Failure;
use crate::http::params::Params;

/// Shards that a caller may ask about.
const SHARDS: std::ops::RangeInclusive<u32> = 1..=1024;

/// Counters.
pub(in crate::http) async fn stats(For(app): For) -> Result<Answer<StatsAnswer>, Failure> {
    Ok(Answer(app.runtime.dashboard().await?))
}

/// The same as tiles.
pub(in crate::http) async fn widgets(For(app): For) -> Result<Answer<Widgets>, Failure> {
    Ok(Answer(app.runtime.widgets().await?))
}

/// Where an execution is placed.
pub(in crate::http) async fn shard_info(
    For(app): For,
    mut params: Params,
) -> Result<Answer<ShardInfo>, Failure> {
    let execution_id = params.read("execution_id", str::parse)?;
    let execution_id =
        execution_id.ok_or_else(|| Failure::new(ErrorCode::BadQuery, "execution_id is missing"))?;
    let count = params.number("shard_count", SHARDS)?;
    Ok(Answer(app.runtime.shard_info(execution_id, count)))
}

/// Who makes the request.
pub(in crate::http) async fn whoami(For(app): For) -> Answer<WhoAmI> {
    let (scopes, behalf) = (app.identity.scopes(), app.identity.behalf());
    Answer(WhoAmI {
        actor: app.identity.actor(),
        tenant_id: Text::from(&behalf.tenant_id),
        organization_id: Text::from(&behalf.organization_id),
        scopes: scopes.map(|scope| scope.as_str().into()).collect(),
    })
}

/// How the server is.
pub(in crate::http) async fn health(For(app): For) -> Response {
    let health = app.runtime.health().await;
    let is_well = health.status == "ok";
    let mut response = Answer(health).into_response();
    if !is_well {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// What the server knows of itself.
pub(in crate::http) async fn status(For(app): For) -> Answer<ServerStatus> {
    Answer(app.runtime.server_status().await)
}

/// What is known by name and not done here.
pub(in crate::http) async fn not_supported() -> Failure {
    Failure::new(
        ErrorCode::NotSupported,
        "this server does not do that; nothing was changed",
    )
}
