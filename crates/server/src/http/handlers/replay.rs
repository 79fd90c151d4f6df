//! Executions are looked at as they were.

use noetl_api::replay::{Cut, ReplayAnswer, ReplayQuery};
use noetl_types::replay::Projection;
use noetl_types::{ErrorCode, EventId, ExecutionId, Timestamp};

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::failure::Failure;
use crate::http::params::Params;
use crate::runtime::Behalf;

/// An execution as of a moment.
pub(in crate::http) async fn state(
    For(app): For,
    mut params: Params,
) -> Result<Answer<ReplayAnswer>, Failure> {
    let query = read(&mut params, app.runtime.behalf())?;
    Ok(Answer(app.runtime.replay_state(query).await?))
}

fn read(params: &mut Params, caller: &Behalf) -> Result<ReplayQuery, Failure> {
    let execution_id = params
        .text("execution_id")?
        .ok_or_else(|| Failure::new(ErrorCode::BadQuery, "execution_id is missing"))?;
    let execution_id: ExecutionId = execution_id.parse().map_err(|error| {
        let text = format!("not the id of an execution: {error}");
        Failure::new(ErrorCode::BadId, text)
    })?;
    let usual = ReplayQuery::new(execution_id);
    Ok(ReplayQuery {
        tenant_id: params
            .read("tenant_id", str::parse)?
            .unwrap_or_else(|| caller.tenant_id.clone()),
        organization_id: params
            .read("organization_id", str::parse)?
            .unwrap_or_else(|| caller.organization_id.clone()),
        cut: cut(params)?,
        projection: params
            .read("projection", Projection::parse)?
            .unwrap_or(usual.projection),
        limit: params.number("limit", 1..=u32::MAX)?,
        resolve_payloads: params
            .flag("resolve_payloads")?
            .unwrap_or(usual.resolve_payloads),
        ..usual
    })
}

/// Where to stop: at most one of three ways to say it.
fn cut(params: &mut Params) -> Result<Cut, Failure> {
    let event = params.read("as_of_event_id", str::parse::<EventId>)?;
    let position = params.read("as_of_position", str::parse::<i64>)?;
    let time = params.read("as_of_time", moment)?;
    match (event, position, time) {
        (None, None, None) => Ok(Cut::End),
        (Some(id), None, None) => Ok(Cut::Event(id)),
        (None, Some(seq), None) => Ok(Cut::Position(seq)),
        (None, None, Some(time)) => Ok(Cut::Time(time)),
        (event, position, _) => {
            let mut given = Vec::new();
            given.extend(event.map(|_| "as_of_event_id"));
            given.extend(position.map(|_| "as_of_position"));
            given.extend(time.map(|_| "as_of_time"));
            let given = given.join(" and ");
            let text = format!("{given} are given; say one of them");
            Err(Failure::new(ErrorCode::BadQuery, text))
        }
    }
}

/// A time; one without a zone is UTC.
fn moment(text: &str) -> Result<Timestamp, String> {
    match Timestamp::parse_lenient(text) {
        Ok(Some(time)) => Ok(time),
        Ok(None) => Err("not a time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
