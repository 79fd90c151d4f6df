//! Signals and decisions reach executions that wait.

use axum::Extension;
use axum::extract::State;
use noetl_api::signal::{
    ApprovalList, ApproveAnswer, ApproveRequest, BroadcastAnswer, SignalAnswer, SignalRequest,
};

use crate::http::access::Caller;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::ExecutionOf;
use crate::http::routes::App;

/// Sends a signal to an execution.
pub(in crate::http) async fn signal(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
    Extension(caller): Extension<Caller>,
    JsonBody(request): JsonBody<SignalRequest>,
) -> Result<Answer<SignalAnswer>, Failure> {
    let actor = Some(caller?.actor());
    let sent = app.runtime.signal(execution_id, actor, request).await?;
    Ok(Answer(sent))
}

/// Sends a signal to everybody.
pub(in crate::http) async fn broadcast(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonBody(request): JsonBody<SignalRequest>,
) -> Result<Answer<BroadcastAnswer>, Failure> {
    let actor = Some(caller?.actor());
    Ok(Answer(app.runtime.broadcast(actor, request).await?))
}

/// Decides about something that an execution waits for.
pub(in crate::http) async fn approve(
    State(app): State<App>,
    ExecutionOf(execution_id): ExecutionOf,
    Extension(caller): Extension<Caller>,
    JsonBody(request): JsonBody<ApproveRequest>,
) -> Result<Answer<ApproveAnswer>, Failure> {
    let actor = caller?.actor();
    let decided = app.runtime.approve(execution_id, actor, request).await?;
    Ok(Answer(decided))
}

/// What waits for a person.
pub(in crate::http) async fn approvals(
    State(app): State<App>,
) -> Result<Answer<ApprovalList>, Failure> {
    Ok(Answer(app.runtime.approvals().await?))
}
