//! The worker as a whole.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::WorkerApi;
use noetl_tools::Toolbox;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::heartbeat::{deregister, keep_leases, keep_place, register};
use crate::metrics::Metrics;
use crate::poll::poll;
use crate::report::send_reports;
use crate::settings::{Settings, WorkerError};
use crate::shop::Shop;
use crate::tools::Tools;

/// Time for tools to end after they were told to; a process gets five seconds of grace.
const GRACE: Duration = Duration::from_secs(7);
/// Time to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// A worker.
pub struct Worker {
    api: Arc<dyn WorkerApi>,
    tools: Arc<dyn Tools>,
    settings: Settings,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker with the tools of the house.
    pub fn new(api: Arc<dyn WorkerApi>, toolbox: Arc<Toolbox>, settings: Settings) -> Self {
        Self::with_tools(api, toolbox, settings)
    }

    /// A worker with other tools.
    pub fn with_tools(api: Arc<dyn WorkerApi>, tools: Arc<dyn Tools>, settings: Settings) -> Self {
        Self {
            api,
            tools,
            metrics: Arc::new(Metrics::of(settings.max_concurrent)),
            settings,
        }
    }

    /// What it counts, also while it works.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Works until it is told to stop, by the caller or by the server. What is under way then is
    /// finished, or given back when that takes too long.
    ///
    /// A dropped future stops everything at once; leases then run out by themselves.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), WorkerError> {
        // The server may ask the worker to leave too; that is not the caller's shutdown.
        let leaving = shutdown.child_token();
        let (shop, reports) = Shop::new(self.api, self.tools, self.settings, self.metrics, leaving);
        let _stop_all = shop.ending.clone().drop_guard();
        let registered = shop.leaving.run_until_cancelled(register(&shop)).await;
        match registered {
            None => return Ok(()),
            Some(registered) => registered?,
        }
        tokio::spawn(send_reports(Arc::clone(&shop), reports));
        tokio::spawn(keep_leases(Arc::clone(&shop)));
        tokio::spawn(keep_place(Arc::clone(&shop)));
        poll(&shop).await;
        drain(&shop).await;
        shop.ending.cancel();
        deregister(&shop, GOODBYE).await;
        shop.tools.shutdown().await;
        Ok(())
    }
}

/// Lets commands finish and their results go out; what takes too long is stopped and not reported.
async fn drain(shop: &Shop) {
    let slots = shop.settings.max_concurrent.max(1);
    let all_free = || shop.slots.acquire_many(slots);
    if timeout(shop.settings.drain.into(), all_free())
        .await
        .is_ok()
    {
        return;
    }
    let left = shop.holdings.all().len();
    tracing::warn!(
        worker_id = %shop.settings.worker_id,
        left,
        "commands that did not end in time are given back"
    );
    shop.ending.cancel();
    let _ = timeout(GRACE, all_free()).await;
}
