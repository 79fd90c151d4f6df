//! The system as people look at it, and what it does not do.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use noetl_api::system::{DatabaseAnswer, ServerStatus, ShardInfo, StatsAnswer, WhoAmI, Widgets};
use noetl_playbook::{SchemaOf, json_schema};
use noetl_types::{ErrorCode, Text};

use crate::http::acting::{App, For};
use crate::http::answer::{Answer, JSON, of_type};
use crate::http::failure::Failure;
use crate::http::params::{Params, TextOf};

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

/// Whether the tables of the database are there.
pub(in crate::http) async fn validate_database(
    For(app): For,
) -> Result<Answer<DatabaseAnswer>, Failure> {
    Ok(Answer(app.runtime.validate_database().await?))
}

/// Prepares the database.
pub(in crate::http) async fn init_database(
    For(app): For,
) -> Result<Answer<DatabaseAnswer>, Failure> {
    Ok(Answer(app.runtime.init_database().await?))
}

/// The JSON Schema of a kind of document.
pub(in crate::http) async fn schema(
    State(app): State<App>,
    TextOf(document): TextOf,
) -> Result<Response, Failure> {
    let schema = match document.as_str() {
        "playbook.json" => json_schema(SchemaOf::Playbook).to_string(),
        "subscription.json" => json_schema(SchemaOf::Subscription).to_string(),
        "config.json" => {
            let unknown = "this server does not know the settings that it was started with";
            let schema = app.config_schema();
            let schema = schema.ok_or_else(|| Failure::new(ErrorCode::NotSupported, unknown))?;
            schema.to_owned()
        }
        _ => {
            let text = "there are schemas of playbook.json, subscription.json and config.json";
            return Err(Failure::new(ErrorCode::NotFound, text));
        }
    };
    Ok(of_type(JSON, schema))
}

/// A statement for the database. Nothing would keep it to one tenant, or from what is sealed: a
/// transaction that only reads still calls functions that take any role. So none is taken at all.
pub(in crate::http) async fn sql_console(State(app): State<App>) -> Failure {
    if app.has_sql_console() {
        let text = "this version has no SQL console: nothing would keep a statement to its tenant and from \
            secrets; ask for runs by /api/executions, or ask the database itself with a role that only reads";
        return Failure::new(ErrorCode::NotSupported, text);
    }
    let text =
        "the SQL console is closed: NOETL_SQL_CONSOLE is off, and this version has none to open";
    Failure::new(ErrorCode::Forbidden, text)
}

/// What is known by name and not done here.
pub(in crate::http) async fn not_supported() -> Failure {
    Failure::new(
        ErrorCode::NotSupported,
        "this server knows the address and does not do that in this version; nothing was changed",
    )
}
