//! Protocol of classic workers: they claim commands by id and post events.

use noetl_api::classic::{
    ClaimRequest, ClaimResponse, ClassicCommand, ClassicEventBatch, ClassicEventBatchResponse,
    ClassicEventRequest, ClassicEventResponse, CommandList,
};
use noetl_api::paths;
use noetl_api::query::CommandsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandStatus, PoolName, WorkerId};

use super::{EXEC_READ, MAX_BATCH_BODY_SIZE, Route, WORKER, get, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::{PathEventId, QueryParams};
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::COMMANDS, EXEC_READ, list_commands),
        get(paths::COMMAND, WORKER, get_command).accepts_command_token(),
        post(paths::COMMAND_CLAIM, WORKER, claim_command).accepts_command_token(),
        post(paths::EVENTS, WORKER, post_event)
            .max_body(MAX_BATCH_BODY_SIZE)
            .accepts_command_token(),
        post(paths::EVENTS_BATCH, WORKER, post_events)
            .max_body(MAX_BATCH_BODY_SIZE)
            .accepts_command_token(),
    ]
}

/// Returns a command by the id of the event that issued it.
async fn get_command(
    AuthorizedCall(app): AuthorizedCall,
    PathEventId(event_id): PathEventId,
) -> Result<JsonResponse<ClassicCommand>, HttpError> {
    Ok(JsonResponse(app.services.classic.classic_command(&app.ctx, event_id).await?))
}

/// Claims a command for a worker.
async fn claim_command(
    AuthorizedCall(app): AuthorizedCall,
    PathEventId(event_id): PathEventId,
    JsonBody(request): JsonBody<ClaimRequest>,
) -> Result<JsonResponse<ClaimResponse>, HttpError> {
    Ok(JsonResponse(app.services.classic.claim_command(&app.ctx, event_id, request).await?))
}

/// Processes an event of a worker.
async fn post_event(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(post): JsonBody<ClassicEventRequest>,
) -> Result<JsonResponse<ClassicEventResponse>, HttpError> {
    Ok(JsonResponse(app.services.classic.ingest_event(&app.ctx, post).await?))
}

/// Processes several events of one execution.
async fn post_events(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(batch): JsonBody<ClassicEventBatch>,
) -> Result<JsonResponse<ClassicEventBatchResponse>, HttpError> {
    Ok(JsonResponse(app.services.classic.ingest_events(&app.ctx, batch).await?))
}

/// Lists the commands of the queue.
async fn list_commands(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<CommandList>, HttpError> {
    let query = CommandsQuery {
        status: params
            .parse_param("status", |status| CommandStatus::parse(&status.to_ascii_uppercase()))?,
        pool: params.parse_param("pool", |pool| PoolName::new(pool))?,
        worker_id: params.parse_param("worker_id", |worker| WorkerId::new(worker))?,
        execution_id: params.parse_param("execution_id", str::parse)?,
        limit: params.page_limit("limit", PageLimit::default())?,
        cursor: params.text_param("cursor")?,
    };
    params.reject_unknown()?;
    Ok(JsonResponse(app.services.queries.list_commands(&app.ctx, query).await?))
}
