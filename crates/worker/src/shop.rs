//! What the parts of a worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noetl_api::command::{LeaseRequest, LeasedCommand, NextLease};
use noetl_api::{ApiError, WorkerApi};
use noetl_types::limits::LeaseBatch;
use noetl_types::redact::SecretsOfRuns;
use noetl_types::{Millis, Text, Timestamp};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::chance::Chance;
use crate::errands::Errands;
use crate::held::{Holdings, granted};
use crate::library::Library;
use crate::metrics::Metrics;
use crate::report::Outgoing;
use crate::settings::Settings;
use crate::tools::Tools;

/// A lease is never renewed more often than this.
const SHORTEST_PACE: Duration = Duration::from_millis(50);
/// A lease is never renewed more seldom than this: the answer also tells what was cancelled, and
/// that must not wait for as long as a lease may last.
const LONGEST_PACE: Duration = Duration::from_secs(10);

/// Calls at once that only say how far commands are.
const SAYING: usize = 4;

/// What the parts of a worker share.
pub(crate) struct Shop {
    pub(crate) api: Arc<dyn WorkerApi>,
    pub(crate) tools: Arc<dyn Tools>,
    pub(crate) settings: Settings,
    pub(crate) library: Arc<Library>,
    /// What tools may ask of the server.
    pub(crate) errands: Arc<Errands>,
    pub(crate) holdings: Holdings,
    pub(crate) metrics: Arc<Metrics>,
    /// What has to be hidden in all that is done for a run.
    pub(crate) secrets: SecretsOfRuns,
    pub(crate) chance: Chance,
    /// One permit for each command that may run at once.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) outbox: mpsc::UnboundedSender<Outgoing>,
    /// Commands that tell at once how far they are; the others wait for their turn.
    pub(crate) saying: Semaphore,
    /// Set when no more work is wanted.
    pub(crate) leaving: CancellationToken,
    /// Set when everything must end.
    pub(crate) ending: CancellationToken,
    /// Told when leases turn out shorter than they were thought to be.
    pub(crate) pace_changed: Notify,
    /// Told when the server does not know the worker any more.
    pub(crate) fenced: Notify,
    kinds: Option<Vec<Text>>,
    /// The shortest lease that was granted, in milliseconds.
    shortest_lease: AtomicU64,
}

impl Shop {
    pub(crate) fn new(
        api: Arc<dyn WorkerApi>,
        tools: Arc<dyn Tools>,
        settings: Settings,
        metrics: Arc<Metrics>,
        leaving: CancellationToken,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (outbox, reports) = mpsc::unbounded_channel();
        let kinds = settings.kinds.as_ref();
        let kinds = kinds.map(|kinds| kinds.iter().map(|kind| kind.as_str().into()).collect());
        let slots = usize::try_from(settings.max_concurrent.max(1)).unwrap_or(1);
        let library = Arc::new(Library::new(Arc::clone(&api), settings.payload_cache));
        let shop = Self {
            errands: Arc::new(Errands::new(Arc::clone(&api), Arc::clone(&library))),
            library,
            holdings: Holdings::default(),
            metrics,
            secrets: SecretsOfRuns::default(),
            chance: Chance::new(),
            slots: Arc::new(Semaphore::new(slots)),
            outbox,
            saying: Semaphore::new(SAYING),
            leaving,
            ending: CancellationToken::new(),
            pace_changed: Notify::new(),
            fenced: Notify::new(),
            kinds,
            shortest_lease: AtomicU64::new(settings.lease.as_ms()),
            api,
            tools,
            settings,
        };
        (Arc::new(shop), reports)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.settings.clock)()
    }

    /// How often leases are renewed.
    pub(crate) fn pace(&self) -> Duration {
        let lease = Millis::from_ms(self.shortest_lease.load(Ordering::Relaxed));
        (Duration::from(lease) / 3).clamp(SHORTEST_PACE, LONGEST_PACE)
    }

    /// A request for as many commands as there are slots in hand.
    pub(crate) fn lease_request(&self, slots: usize) -> LeaseRequest {
        LeaseRequest {
            worker_id: self.settings.worker_id.clone(),
            pool: self.settings.pool.clone(),
            max: batch(slots),
            wait_ms: self.settings.poll_wait.as_ms(),
            kinds: self.kinds.clone(),
            lease_ms: Some(self.settings.lease.as_ms()),
        }
    }

    /// The same as part of a report: what is not there yet is not waited for.
    pub(crate) fn next_lease(&self, slots: usize) -> NextLease {
        NextLease {
            pool: self.settings.pool.clone(),
            max: batch(slots),
            wait_ms: 0,
            kinds: self.kinds.clone(),
            lease_ms: Some(self.settings.lease.as_ms()),
        }
    }

    /// Begins commands, each in a slot of its own. Slots that are left over become free.
    pub(crate) fn begin(
        self: &Arc<Self>,
        commands: Vec<LeasedCommand>,
        mut slots: Option<OwnedSemaphorePermit>,
    ) {
        for command in commands {
            let Some(slot) = slots.as_mut().and_then(|slots| slots.split(1)) else {
                tracing::warn!(
                    execution_id = %command.execution_id,
                    command_id = %command.command_id,
                    "the server sent more commands than there are slots; one is left to expire"
                );
                continue;
            };
            if let Some(granted) = granted(&command) {
                self.note_lease(granted);
            }
            tokio::spawn(crate::command::work(Arc::clone(self), command, slot));
        }
    }

    fn note_lease(&self, granted: Millis) {
        let granted = granted.as_ms().max(1);
        let shortest = self.shortest_lease.fetch_min(granted, Ordering::Relaxed);
        if granted < shortest {
            self.pace_changed.notify_one();
        }
    }
}

/// The answer of a server within a time; one that does not answer is as good as away.
pub(crate) async fn answered<T>(
    within: Duration,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let unanswered = |_| ApiError::Unreachable("no answer in time".into());
    timeout(within, call).await.map_err(unanswered)?
}

fn batch(slots: usize) -> LeaseBatch {
    LeaseBatch::clamped(i64::try_from(slots).unwrap_or(i64::MAX))
}
