//! State of executions in the past.

use noetl_api::paths;
use noetl_api::replay::{ReplayCutoff, ReplayQuery, ReplayResponse};
use noetl_types::replay::ProjectionKind;
use noetl_types::{ErrorCode, EventId, ExecutionId, Timestamp};

use super::{EXEC_READ, Route, get};
use crate::access::AuthContext;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::QueryParams;
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![get(paths::REPLAY_STATE, EXEC_READ, get_replay_state)]
}

/// Returns the state of an execution at a point of its log.
async fn get_replay_state(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<ReplayResponse>, HttpError> {
    let query = parse_replay_query(&mut params, &app.ctx.auth)?;
    Ok(JsonResponse(app.services.queries.replay_state(&app.ctx, query).await?))
}

fn parse_replay_query(
    params: &mut QueryParams,
    caller: &AuthContext,
) -> Result<ReplayQuery, HttpError> {
    let execution_id = params
        .text_param("execution_id")?
        .ok_or_else(|| HttpError::new(ErrorCode::BadQuery, "execution_id is missing"))?;
    let execution_id: ExecutionId = execution_id.parse().map_err(|error| {
        let text = format!("invalid execution id: {error}");
        HttpError::new(ErrorCode::BadId, text)
    })?;
    let defaults = ReplayQuery::new(execution_id);
    Ok(ReplayQuery {
        tenant_id: params
            .parse_param("tenant_id", str::parse)?
            .unwrap_or_else(|| caller.tenant_id.clone()),
        organization_id: params
            .parse_param("organization_id", str::parse)?
            .unwrap_or_else(|| caller.organization_id.clone()),
        cutoff: parse_cutoff(params)?,
        projection: params
            .parse_param("projection", ProjectionKind::parse)?
            .unwrap_or(defaults.projection),
        limit: params.number_param("limit", 1..=u32::MAX)?,
        resolve_payloads: params
            .bool_param("resolve_payloads")?
            .unwrap_or(defaults.resolve_payloads),
        ..defaults
    })
}

/// Parses the point to stop at, given by at most one of three parameters.
fn parse_cutoff(params: &mut QueryParams) -> Result<ReplayCutoff, HttpError> {
    let event = params.parse_param("as_of_event_id", str::parse::<EventId>)?;
    let position = params.parse_param("as_of_position", str::parse::<i64>)?;
    let time = params.parse_param("as_of_time", parse_lenient_time)?;
    match (event, position, time) {
        (None, None, None) => Ok(ReplayCutoff::End),
        (Some(id), None, None) => Ok(ReplayCutoff::Event(id)),
        (None, Some(seq), None) => Ok(ReplayCutoff::Position(seq)),
        (None, None, Some(time)) => Ok(ReplayCutoff::Time(time)),
        (event, position, _) => {
            let mut names = Vec::new();
            names.extend(event.map(|_| "as_of_event_id"));
            names.extend(position.map(|_| "as_of_position"));
            names.extend(time.map(|_| "as_of_time"));
            let names = names.join(" and ");
            let text = format!("{names} are mutually exclusive; send only one of them");
            Err(HttpError::new(ErrorCode::BadQuery, text))
        }
    }
}

/// Parses a time. A time without zone is UTC.
fn parse_lenient_time(text: &str) -> Result<Timestamp, String> {
    match Timestamp::parse_lenient(text) {
        Ok(Some(time)) => Ok(time),
        Ok(None) => Err("not a time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
