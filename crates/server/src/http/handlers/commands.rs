//! Commands: handed out, kept, reported on.

use noetl_api::command::{
    HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, ReportAnswer, ReportRequest,
};
use noetl_types::ErrorCode;
use noetl_types::limits::MAX_LONG_POLL;

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;

/// Hands out commands. Whoever waits for them when the server stops goes away with none.
pub(in crate::http) async fn lease(
    For(app): For,
    JsonBody(request): JsonBody<LeaseRequest>,
) -> Result<Answer<LeaseAnswer>, Failure> {
    within_long_poll("/wait_ms", request.wait_ms)?;
    tokio::select! {
        // What was found is handed over, stop or no stop.
        biased;
        answer = app.runtime.lease(request) => Ok(Answer(answer?)),
        () = app.shutdown.cancelled() => Ok(Answer(LeaseAnswer::default())),
    }
}

/// Keeps commands.
pub(in crate::http) async fn heartbeat(
    For(app): For,
    JsonBody(request): JsonBody<HeartbeatRequest>,
) -> Result<Answer<HeartbeatAnswer>, Failure> {
    Ok(Answer(app.runtime.keep(request).await?))
}

/// Takes what became of commands.
pub(in crate::http) async fn report(
    For(app): For,
    JsonBody(request): JsonBody<ReportRequest>,
) -> Result<Answer<ReportAnswer>, Failure> {
    if let Some(lease) = &request.lease {
        within_long_poll("/lease/wait_ms", lease.wait_ms)?;
    }
    Ok(Answer(app.runtime.report(request).await?))
}

fn within_long_poll(pointer: &str, wait_ms: u64) -> Result<(), Failure> {
    let most = MAX_LONG_POLL.as_ms();
    if wait_ms <= most {
        return Ok(());
    }
    let message = format!("{wait_ms} is out of range 0..{most}");
    Err(Failure::at(ErrorCode::OutOfRange, pointer, message))
}
