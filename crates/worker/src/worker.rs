//! The main loop of a worker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::WorkerApi;
use noetl_tools::Toolbox;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::context::WorkerContext;
use crate::heartbeat::{
    command_watch_loop, deregister_worker, lease_renewal_loop, pool_heartbeat_loop, register_worker,
};
use crate::metrics::WorkerMetrics;
use crate::output::output_loop;
use crate::poll::poll_until_draining;
use crate::report::report_loop;
use crate::settings::{WorkerError, WorkerSettings};
use crate::tools::ToolRunner;

/// Time for tools to stop after cancellation. A process has a grace period of five seconds.
const TOOL_STOP_TIMEOUT: Duration = Duration::from_secs(7);
/// Timeout of deregistration.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker.
pub struct Worker {
    api: Arc<dyn WorkerApi>,
    tools: Arc<dyn ToolRunner>,
    settings: WorkerSettings,
    metrics: Arc<WorkerMetrics>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker with the standard tools.
    pub fn new(api: Arc<dyn WorkerApi>, toolbox: Arc<Toolbox>, settings: WorkerSettings) -> Self {
        Self::with_tool_runner(api, toolbox, settings)
    }

    /// A worker with other tools.
    pub fn with_tool_runner(
        api: Arc<dyn WorkerApi>,
        tools: Arc<dyn ToolRunner>,
        settings: WorkerSettings,
    ) -> Self {
        Self {
            api,
            tools,
            metrics: Arc::new(WorkerMetrics::for_concurrency(settings.max_concurrent)),
            settings,
        }
    }

    /// The metrics of the worker.
    pub fn metrics(&self) -> Arc<WorkerMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Runs until the caller or the server requests a shutdown. Running commands are then finished,
    /// or returned if they take too long.
    ///
    /// Dropping the future stops everything at once. The leases then expire.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), WorkerError> {
        // The server may request draining too, which must not trigger the caller's shutdown.
        let draining = shutdown.child_token();
        let (context, reports) =
            WorkerContext::new(self.api, self.tools, self.settings, self.metrics, draining);
        let _stop_all = context.shutdown.clone().drop_guard();
        let result = context.draining.run_until_cancelled(register_worker(&context)).await;
        match result {
            None => return Ok(()),
            Some(result) => result?,
        }
        tokio::spawn(report_loop(Arc::clone(&context), reports));
        tokio::spawn(output_loop(Arc::clone(&context)));
        tokio::spawn(lease_renewal_loop(Arc::clone(&context)));
        tokio::spawn(command_watch_loop(Arc::clone(&context)));
        tokio::spawn(pool_heartbeat_loop(Arc::clone(&context)));
        poll_until_draining(&context).await;
        drain_commands(&context).await;
        context.shutdown.cancel();
        deregister_worker(&context, DEREGISTER_TIMEOUT).await;
        context.tools.shutdown().await;
        Ok(())
    }
}

/// Waits for commands to finish and for their reports to be delivered. Commands that take too long
/// are stopped and not reported.
async fn drain_commands(context: &WorkerContext) {
    let permits = context.settings.max_concurrent.max(1);
    let all_free = || context.permits.acquire_many(permits);
    if timeout(context.settings.drain_timeout.into(), all_free()).await.is_ok() {
        return;
    }
    let left = context.leases.all_leases().len();
    tracing::warn!(
        worker_id = %context.settings.worker_id,
        left,
        "commands did not finish in time and are returned"
    );
    context.shutdown.cancel();
    let _ = timeout(TOOL_STOP_TIMEOUT, all_free()).await;
}
