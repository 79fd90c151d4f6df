//! Workers: who they are, and that they live.

use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    Done, PoolHeartbeatAnswer, Pools, RegisterWorker, RuntimeView, WorkerName,
};

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::Params;

/// Makes a worker known.
pub(in crate::http) async fn register(
    For(app): For,
    JsonBody(worker): JsonBody<RegisterWorker>,
) -> Result<Answer<RuntimeView>, Failure> {
    Ok(Answer(app.runtime.register_worker(worker).await?))
}

/// Notes that a worker lives.
pub(in crate::http) async fn heartbeat(
    For(app): For,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<Answer<PoolHeartbeatAnswer>, Failure> {
    Ok(Answer(app.runtime.worker_alive(worker).await?))
}

/// Lets a worker go.
pub(in crate::http) async fn deregister(
    For(app): For,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<Answer<Done>, Failure> {
    app.runtime.worker_leaves(worker).await?;
    Ok(Answer(Done::ok()))
}

/// Asks a worker to finish and leave.
pub(in crate::http) async fn drain(
    For(app): For,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<Answer<RuntimeView>, Failure> {
    Ok(Answer(app.runtime.drain_worker(worker).await?))
}

/// The workers, and how busy their pools are.
pub(in crate::http) async fn pools(
    For(app): For,
    mut params: Params,
) -> Result<Answer<Pools>, Failure> {
    let query = PoolsQuery {
        kind: params.text("kind")?,
        status: params.text("status")?,
        name: params.text("name")?,
    };
    Ok(Answer(app.runtime.pools(query).await?))
}
