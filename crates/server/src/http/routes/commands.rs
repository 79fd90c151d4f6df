//! Protocol of workers: lease, heartbeat and report of commands.

use noetl_api::command::{
    HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse, ReportRequest, ReportResponse,
};
use noetl_api::output::{OutputRequest, OutputResponse};
use noetl_api::paths;
use noetl_types::ErrorCode;
use noetl_types::limits::MAX_LONG_POLL_WAIT;

use super::{MAX_OUTPUT_BODY_SIZE, MAX_REPORT_BODY_SIZE, Route, WORKER, handlers, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::COMMANDS_LEASE, WORKER, lease_commands),
        post(paths::COMMANDS_HEARTBEAT, WORKER, renew_leases),
        post(paths::COMMANDS_REPORT, WORKER, report_commands).max_body(MAX_REPORT_BODY_SIZE),
        post(paths::COMMANDS_OUTPUT, WORKER, store_output).max_body(MAX_OUTPUT_BODY_SIZE),
    ]
}

/// Leases commands to a worker. A waiting request gets an empty answer when the server stops.
async fn lease_commands(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(request): JsonBody<LeaseRequest>,
) -> Result<JsonResponse<LeaseResponse>, HttpError> {
    check_wait_ms("/wait_ms", request.wait_ms)?;
    tokio::select! {
        // Leased commands are delivered even if the server stops.
        biased;
        response = app.services.leases.lease_commands(&app.ctx, request) => Ok(JsonResponse(response?)),
        () = app.shutdown.cancelled() => Ok(JsonResponse(LeaseResponse::default())),
    }
}

/// Processes reports about commands, and leases the next ones.
async fn report_commands(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(request): JsonBody<ReportRequest>,
) -> Result<JsonResponse<ReportResponse>, HttpError> {
    if let Some(lease) = &request.lease {
        check_wait_ms("/lease/wait_ms", lease.wait_ms)?;
    }
    Ok(JsonResponse(app.services.reports.process_reports(&app.ctx, request).await?))
}

fn check_wait_ms(pointer: &str, wait_ms: u64) -> Result<(), HttpError> {
    let max = MAX_LONG_POLL_WAIT.as_ms();
    if wait_ms <= max {
        return Ok(());
    }
    let message = format!("{wait_ms} is out of range 0..{max}");
    Err(HttpError::at_pointer(ErrorCode::OutOfRange, pointer, message))
}

handlers! {
    /// Renews the leases of commands, and waits for the loss of one if the request says so.
    renew_leases(app: AuthorizedCall, request: JsonBody<HeartbeatRequest>) -> HeartbeatResponse =>
        app.services.leases.renew_leases(&app.ctx, request);
    /// Stores output of running commands.
    store_output(app: AuthorizedCall, request: JsonBody<OutputRequest>) -> OutputResponse =>
        app.services.task_output.store_outputs(&app.ctx, request);
}
