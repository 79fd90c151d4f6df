//! Executions begin, are steered, and are ended.

use noetl_api::execute::{
    ExecuteAnswer, ExecuteBatch, ExecuteBatchAnswer, ExecuteRequest, RerunRequest,
};
use noetl_api::execution::{
    CancelAnswer, CancelRequest, CleanupAnswer, CleanupRequest, FinalizeAnswer, FinalizeRequest,
    SteerAnswer, SteerRequest,
};
use noetl_types::ErrorCode;

use crate::http::access::Scope;
use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::failure::Failure;
use crate::http::once::Once;
use crate::http::params::{ExecutionOf, KeyOf, TraceOf};

/// Starts an execution.
pub(in crate::http) async fn execute(
    For(app): For,
    key: KeyOf,
    TraceOf(trace): TraceOf,
    JsonBody(mut request): JsonBody<ExecuteRequest>,
) -> Result<Once<ExecuteAnswer>, Failure> {
    request.trace = request.trace.or(trace);
    if request.parent_execution_id.is_none() && !app.identity.may(Scope::ExecRun) {
        let text = "a worker starts runs only under one that it works for: name it by \
            parent_execution_id, or show a token with the scope exec:run";
        return Err(Failure::new(ErrorCode::Forbidden, text));
    }
    let (answer, is_replay) = match key.text() {
        None => (app.runtime.execute(request).await?, false),
        Some(key) => {
            let begun = app.runtime.begin_once(request, key).await?;
            (begun.answer, begun.is_replay)
        }
    };
    Ok(Once {
        answer: Answer(answer),
        is_replay,
    })
}

/// Ends an execution.
pub(in crate::http) async fn cancel(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBodyOrDefault(request): JsonBodyOrDefault<CancelRequest>,
) -> Result<Answer<CancelAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    let cancelled = app.runtime.cancel(execution_id, actor, request).await?;
    Ok(Answer(cancelled))
}

/// Starts many executions.
pub(in crate::http) async fn batch(
    For(app): For,
    JsonBody(request): JsonBody<ExecuteBatch>,
) -> Result<Answer<ExecuteBatchAnswer>, Failure> {
    Ok(Answer(app.runtime.execute_batch(request).await?))
}

/// Runs a definition once more, with the input of an earlier execution.
pub(in crate::http) async fn rerun(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RerunRequest>,
) -> Result<Answer<ExecuteAnswer>, Failure> {
    Ok(Answer(app.runtime.rerun(execution_id, request).await?))
}

/// Holds an execution.
pub(in crate::http) async fn pause(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBodyOrDefault(request): JsonBodyOrDefault<SteerRequest>,
) -> Result<Answer<SteerAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    Ok(Answer(
        app.runtime.pause(execution_id, actor, request).await?,
    ))
}

/// Lets an execution go on.
pub(in crate::http) async fn resume(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBodyOrDefault(request): JsonBodyOrDefault<SteerRequest>,
) -> Result<Answer<SteerAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    Ok(Answer(
        app.runtime.resume(execution_id, actor, request).await?,
    ))
}

/// Says how an execution ended.
pub(in crate::http) async fn finalize(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    JsonBody(request): JsonBody<FinalizeRequest>,
) -> Result<Answer<FinalizeAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    Ok(Answer(
        app.runtime.finalize(execution_id, actor, request).await?,
    ))
}

/// Ends executions that nothing happens to any more.
pub(in crate::http) async fn clean_up(
    For(app): For,
    JsonBodyOrDefault(request): JsonBodyOrDefault<CleanupRequest>,
) -> Result<Answer<CleanupAnswer>, Failure> {
    let actor = Some(app.identity.actor());
    Ok(Answer(app.runtime.clean_up(actor, request).await?))
}
