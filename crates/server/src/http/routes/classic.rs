//! Protocol of classic workers: they claim commands by id and post events.

use noetl_api::classic::{
    ClaimRequest, ClaimResponse, ClassicCommand, ClassicEventBatch, ClassicEventBatchResponse,
    ClassicEventRequest, ClassicEventResponse, CommandList,
};
use noetl_api::paths;
use noetl_api::query::CommandsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandStatus, PoolName, WorkerId};

use super::{EXEC_READ, MAX_BATCH_BODY_SIZE, Route, WORKER, get, handlers, post};
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

handlers! {
    /// Returns a command by the id of the event that issued it.
    get_command(app: AuthorizedCall, event_id: PathEventId) -> ClassicCommand =>
        app.services.classic.classic_command(&app.ctx, event_id);
    /// Claims a command for a worker.
    claim_command(app: AuthorizedCall, event_id: PathEventId, request: JsonBody<ClaimRequest>)
        -> ClaimResponse => app.services.classic.claim_command(&app.ctx, event_id, request);
    /// Processes an event of a worker.
    post_event(app: AuthorizedCall, post: JsonBody<ClassicEventRequest>) -> ClassicEventResponse =>
        app.services.classic.ingest_event(&app.ctx, post);
    /// Processes several events of one execution.
    post_events(app: AuthorizedCall, batch: JsonBody<ClassicEventBatch>)
        -> ClassicEventBatchResponse => app.services.classic.ingest_events(&app.ctx, batch);
}
