//! Shared state of the parts of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_api::command::{LeaseRequest, LeasedCommand, NextLease};
use noetl_api::{ApiError, WorkerApi};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::redact::ExecutionSecretRegistry;
use noetl_types::{Millis, Text, Timestamp};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::command::run_command;
use crate::definitions::DefinitionCache;
use crate::leases::{ActiveLeases, GrantTime, granted_duration};
use crate::metrics::WorkerMetrics;
use crate::output::OutputQueue;
use crate::platform_client::PlatformClient;
use crate::report::OutgoingReport;
use crate::settings::WorkerSettings;
use crate::tools::ToolRunner;

/// Minimum interval of lease renewals.
const MIN_RENEW_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum interval of lease renewals. The response also lists cancelled commands, which must not
/// wait for the duration of a long lease.
const MAX_RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of concurrent progress calls.
const MAX_PROGRESS_CALLS: usize = 4;

/// Shared state of the parts of a worker.
pub(crate) struct WorkerContext {
    pub(crate) api: Arc<dyn WorkerApi>,
    pub(crate) tools: Arc<dyn ToolRunner>,
    pub(crate) settings: WorkerSettings,
    pub(crate) definitions: Arc<DefinitionCache>,
    /// Server operations for tools.
    pub(crate) platform_client: Arc<PlatformClient>,
    pub(crate) leases: ActiveLeases,
    pub(crate) metrics: Arc<WorkerMetrics>,
    /// Secrets to redact, by execution.
    pub(crate) secrets: ExecutionSecretRegistry,
    /// One permit for each concurrent command.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) report_queue: mpsc::UnboundedSender<OutgoingReport>,
    pub(crate) outputs: OutputQueue,
    /// Permits for sending progress. Other commands wait.
    pub(crate) progress_permits: Semaphore,
    /// Cancelled when no more commands are to be leased.
    pub(crate) draining: CancellationToken,
    /// Cancelled when everything must end.
    pub(crate) shutdown: CancellationToken,
    /// Notified when a lease is shorter than all before.
    pub(crate) renew_interval_changed: Notify,
    /// Notified when the server does not know the worker any more.
    pub(crate) unregistered: Notify,
    kinds: Option<Vec<Text>>,
    /// The shortest lease that was granted, in milliseconds.
    shortest_lease: AtomicU64,
}

impl WorkerContext {
    pub(crate) fn new(
        api: Arc<dyn WorkerApi>,
        tools: Arc<dyn ToolRunner>,
        settings: WorkerSettings,
        metrics: Arc<WorkerMetrics>,
        draining: CancellationToken,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<OutgoingReport>) {
        let (report_queue, reports) = mpsc::unbounded_channel();
        let kinds = settings.kinds.as_ref();
        let kinds = kinds.map(|kinds| kinds.iter().map(|kind| kind.as_str().into()).collect());
        let permits = usize::try_from(settings.max_concurrent.max(1)).unwrap_or(1);
        let definitions = Arc::new(DefinitionCache::new(Arc::clone(&api), settings.payload_cache));
        let context = Self {
            platform_client: Arc::new(PlatformClient::new(
                Arc::clone(&api),
                Arc::clone(&definitions),
            )),
            definitions,
            leases: ActiveLeases::default(),
            metrics,
            secrets: ExecutionSecretRegistry::default(),
            permits: Arc::new(Semaphore::new(permits)),
            report_queue,
            outputs: OutputQueue::default(),
            progress_permits: Semaphore::new(MAX_PROGRESS_CALLS),
            draining,
            shutdown: CancellationToken::new(),
            renew_interval_changed: Notify::new(),
            unregistered: Notify::new(),
            kinds,
            shortest_lease: AtomicU64::new(settings.lease_duration.map_or(u64::MAX, Millis::as_ms)),
            api,
            tools,
            settings,
        };
        (Arc::new(context), reports)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.settings.clock)()
    }

    /// Interval of lease renewals.
    pub(crate) fn renew_interval(&self) -> Duration {
        let lease = Millis::from_ms(self.shortest_lease.load(Ordering::Relaxed));
        (Duration::from(lease) / 3).clamp(MIN_RENEW_INTERVAL, MAX_RENEW_INTERVAL)
    }

    /// Builds a request for as many commands as there are permits.
    pub(crate) fn lease_request(&self, permits: usize) -> LeaseRequest {
        LeaseRequest {
            worker_id: self.settings.worker_id.clone(),
            pool: self.settings.pool.clone(),
            max: lease_batch(permits),
            wait_ms: self.settings.poll_wait.as_ms(),
            kinds: self.kinds.clone(),
            lease_ms: self.settings.lease_duration.map(Millis::as_ms),
        }
    }

    /// Builds the lease request of a report. The server does not wait for commands that are not
    /// available yet.
    pub(crate) fn next_lease(&self, permits: usize) -> NextLease {
        NextLease {
            pool: self.settings.pool.clone(),
            max: lease_batch(permits),
            wait_ms: 0,
            kinds: self.kinds.clone(),
            lease_ms: self.settings.lease_duration.map(Millis::as_ms),
        }
    }

    /// Starts commands, each with one permit. Remaining permits are released.
    pub(crate) fn start_commands(
        self: &Arc<Self>,
        commands: Vec<LeasedCommand>,
        mut permits: Option<OwnedSemaphorePermit>,
        granted: GrantTime,
    ) {
        for command in commands {
            let Some(permit) = permits.as_mut().and_then(|permits| permits.split(1)) else {
                tracing::warn!(
                    execution_id = %command.execution_id,
                    command_id = %command.command_id,
                    "the server sent more commands than there are permits; the lease of this one will expire"
                );
                continue;
            };
            if let Some(granted) = granted_duration(&command) {
                self.record_lease_duration(granted);
            }
            tokio::spawn(run_command(Arc::clone(self), command, granted, permit));
        }
    }

    fn record_lease_duration(&self, granted: Millis) {
        let granted = granted.as_ms().max(1);
        let shortest = self.shortest_lease.fetch_min(granted, Ordering::Relaxed);
        if granted < shortest {
            self.renew_interval_changed.notify_one();
        }
    }
}

/// Calls the server with a timeout. A server that does not respond in time counts as unreachable.
pub(crate) async fn call_with_timeout<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let timed_out = |_| ApiError::Unreachable("no response in time".into());
    timeout(limit, call).await.map_err(timed_out)?
}

fn lease_batch(permits: usize) -> LeaseBatchSize {
    LeaseBatchSize::clamped(i64::try_from(permits).unwrap_or(i64::MAX))
}
