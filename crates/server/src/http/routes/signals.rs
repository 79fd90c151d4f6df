//! Signals and approvals.

use axum::http::Uri;
use axum::response::Response;
use noetl_api::paths;
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{
    ApproveRequest, ApproveResponse, BroadcastResponse, SignalRequest, SignalResponse,
};
use noetl_types::limits::PageLimit;

use super::{EXEC_READ, EXEC_RUN, Route, get, handlers, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::page_response;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::params::{PathExecutionId, QueryParams};
use crate::http::request_context::AuthorizedCall;

const EXEC_APPROVE: RouteAccess = RouteAccess::AnyOf(&[Scope::ExecApprove]);

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::EXECUTION_SIGNAL, EXEC_RUN, send_signal).audited(),
        post(paths::SIGNALS, EXEC_RUN, broadcast_signal).audited(),
        post(paths::EXECUTION_APPROVE, EXEC_APPROVE, submit_approval).audited(),
        get(paths::APPROVALS, EXEC_READ, list_approvals),
    ]
}

/// Lists open approvals.
async fn list_approvals(
    AuthorizedCall(app): AuthorizedCall,
    uri: Uri,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let query = ApprovalsQuery {
        execution_id: params.parse_param("execution_id", str::parse)?,
        limit: Some(params.page_limit("limit", PageLimit::MAX)?),
        cursor: params.text_param("cursor")?,
    };
    params.reject_unknown()?;
    let list = app.services.queries.list_approvals(&app.ctx, query).await?;
    let next = list.next_cursor.clone();
    Ok(page_response(list, &uri, next.as_ref()))
}

handlers! {
    /// Sends a signal to an execution.
    send_signal(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBody<SignalRequest>) -> SignalResponse =>
        app.services.executions
            .send_signal(&app.ctx, execution_id, Some(app.identity.actor()), request);
    /// Sends a signal to all executions that wait for it.
    broadcast_signal(app: AuthorizedCall, request: JsonBody<SignalRequest>) -> BroadcastResponse =>
        app.services.executions.broadcast_signal(&app.ctx, Some(app.identity.actor()), request);
    /// Submits the decision of an approval.
    submit_approval(app: AuthorizedCall, execution_id: PathExecutionId,
        request: JsonBody<ApproveRequest>) -> ApproveResponse =>
        app.services.executions.submit_approval(&app.ctx, execution_id, app.identity.actor(), request);
}
