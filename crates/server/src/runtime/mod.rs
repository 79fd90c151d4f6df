//! Drives executions: decides what follows, appends it, hands out commands, takes reports.
//!
//! Owns time, chance and waiting; the engine decides and the store keeps. All that is in memory
//! here can be lost at any moment.

mod admission;
mod alarms;
mod background;
mod behalf;
mod capability;
mod claim;
mod classic;
mod credentials;
mod definition;
mod driver;
mod entropy;
mod errands;
mod error;
mod globs;
mod ids;
mod keychain;
mod leases;
mod lent;
mod messaging;
mod neighbours;
mod outbox;
mod outcome;
mod platform;
mod project;
mod purge;
mod quota;
mod repeat;
mod reports;
mod requests;
mod results;
mod rotation;
mod sealing;
mod secret_acts;
mod settings;
mod signals;
mod slots;
mod start;
mod steer;
mod stream;
mod tokens;
mod traces;
mod trail;
mod upkeep;
mod worker_api;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use noetl_api::command::LeasedCommand;
use noetl_api::explain::At;
use noetl_bus::{Desk, Followers, Following};
use noetl_engine::{State, decode};
use noetl_store::{
    Append, AppendRefused, Appended, CatalogEntry, CatalogKey, Execution, Head, LogPage,
    SnapshotKey, Store,
};
use noetl_types::id::Id;
use noetl_types::redact::SecretsOfRuns;
use noetl_types::{CatalogId, EventId, ExecutionId, TenantId, Text, Timestamp, Version};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chance::{Chance, SystemChance};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::read::{KnownWorkers, SeqSeen};
use crate::vault::Signer;
use alarms::Alarms;
pub use behalf::Behalf;
pub use capability::Capability;
use classic::Claims;
use definition::Definitions;
pub(crate) use definition::{Definition, NotRunnable};
use driver::Driver;
pub use error::RuntimeError;
pub(crate) use error::causes;
use ids::Ids;
pub(crate) use keychain::{KeychainCaller, KeychainKey};
use messaging::Messaging;
pub use messaging::NatsSettings;
use neighbours::Neighbours;
pub(crate) use outcome::Outcome;
use quota::Quota;
pub(crate) use requests::{Admitted, AtWork};
pub(crate) use secret_acts::SecretNote;
pub use settings::Settings;
pub(crate) use slots::slot_key;
pub(crate) use start::catalog_key;
pub use stream::StreamSettings;
pub(crate) use tokens::TokenName;
use tokens::Tokens;
use traces::Traces;
pub(crate) use trail::Act;
use trail::Trail;
use upkeep::Worries;
pub(crate) use upkeep::Worry;

/// Drives executions on a store. A clone is another handle of the same, on the same behalf.
#[derive(Clone)]
pub struct Runtime {
    core: Arc<Core>,
    behalf: Behalf,
    /// The request that calls follow from, where they may do so once.
    work: Option<EventId>,
    /// Where it is noted what calls do to a secret.
    note: Option<SecretNote>,
    /// Who makes calls, where somebody showed who it is.
    actor: Option<Text>,
    /// Where it is noted how far the log of a run was.
    seq_seen: Option<SeqSeen>,
}

struct Core {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    ids: Ids,
    definitions: Definitions,
    settings: Settings,
    driver: Driver,
    desk: Desk<LeasedCommand>,
    /// Held by whoever leases from the store.
    granting: tokio::sync::Mutex<()>,
    followers: Followers<Outcome>,
    /// Who claimed commands by name.
    claims: Claims,
    /// Secrets that were lent for runs.
    lent: SecretsOfRuns,
    /// What is known of workers, as of a moment ago.
    known_workers: KnownWorkers,
    /// Whether all tables were there when somebody looked.
    tables_seen: AtomicBool,
    opened_at: Timestamp,
    alarms: Alarms,
    metrics: Arc<Metrics>,
    worries: Worries,
    /// The way to other processes, where there is one.
    messaging: Option<Messaging>,
    /// What signs the capabilities of notices, where they have some.
    signer: Option<Signer>,
    /// The other servers on the same store.
    neighbours: Neighbours,
    /// Changes with every append of this process, and with every one that others tell of.
    appended: watch::Sender<u64>,
    /// What this process is called among servers.
    instance: Text,
    /// Tokens that were asked about lately.
    tokens: Tokens,
    /// What is on its way to the trail.
    trail: Trail,
    /// How many executions go on.
    quota: Quota,
    /// Ended runs whose traces are to be sent.
    traces: Traces,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// What a core is made of.
struct Parts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    ids: Ids,
    messaging: Option<Messaging>,
    signer: Option<Signer>,
    instance: Text,
}

impl Runtime {
    /// Begins to drive what a store holds.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, RuntimeError> {
        Self::open_by_chance(store, clock, Arc::new(SystemChance), settings).await
    }

    /// The same with random numbers from elsewhere, so that a run can be repeated to the byte.
    pub async fn open_by_chance(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
        settings: Settings,
    ) -> Result<Self, RuntimeError> {
        let instance = u64::from_be_bytes(entropy::bytes(&*chance));
        let instance = Text::from(format!("{}-{instance:016x}", settings.server_name));
        let now = clock.now();
        let ids = Ids::lease(
            Arc::clone(&store),
            instance.clone(),
            settings.machine_id,
            now,
        )
        .await?;
        let (messaging, notices) = match &settings.nats {
            Some(nats) => Messaging::open(nats)
                .await
                .map(|(messaging, notices)| (Some(messaging), Some(notices)))?,
            None => (None, None),
        };
        let signer = capability::signer(&*store, &*chance, &settings).await?;
        let parts = Parts {
            store,
            clock,
            chance,
            ids,
            messaging,
            signer,
            instance,
        };
        let core = Core::new(parts, settings);
        core.begin_stream().await?;
        core.work_in_background();
        if let Some(notices) = notices {
            core.work_with_others(notices);
        }
        let runtime = Self {
            core,
            behalf: Behalf::default(),
            work: None,
            note: None,
            actor: None,
            seq_seen: None,
        };
        if runtime.settings().platform {
            runtime.run_platform();
        }
        Ok(runtime)
    }

    /// A handle of the same on behalf of somebody else.
    #[must_use]
    pub fn on_behalf_of(&self, behalf: Behalf) -> Self {
        Self {
            core: Arc::clone(&self.core),
            behalf,
            work: None,
            note: None,
            actor: None,
            seq_seen: None,
        }
    }

    /// The same handle for calls that follow from a request which was taken under an id: what they do
    /// is known by that id, and done once.
    #[must_use]
    pub(crate) fn working_on(self, work: Option<EventId>) -> Self {
        Self { work, ..self }
    }

    /// The same handle for calls of somebody: what begins by them says so.
    #[must_use]
    pub(crate) fn acting_as(self, actor: Option<Text>) -> Self {
        Self { actor, ..self }
    }

    /// The same handle for calls that note how far the log of a run was.
    #[must_use]
    pub(crate) fn noting_seq(self, seen: SeqSeen) -> Self {
        let seq_seen = Some(seen);
        Self { seq_seen, ..self }
    }

    /// Where it is noted how far the log of a run was.
    pub(crate) fn seq_seen(&self) -> Option<&SeqSeen> {
        self.seq_seen.as_ref()
    }

    /// Whom calls are made for.
    pub(crate) fn behalf(&self) -> &Behalf {
        &self.behalf
    }

    /// Whose data is read and written.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.behalf.tenant_id
    }

    /// Looks at what a store holds, and drives nothing: no lease runs out, no timer fires, no id is
    /// made. For a store that another process may be writing to.
    pub fn open_to_read(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let parts = Parts {
            ids: Ids::none(Arc::clone(&store)),
            store,
            clock,
            chance: Arc::new(SystemChance),
            messaging: None,
            signer: None,
            instance: settings.server_name.clone(),
        };
        Self {
            core: Core::new(parts, settings),
            behalf: Behalf::default(),
            work: None,
            note: None,
            actor: None,
            seq_seen: None,
        }
    }

    /// Stops: whoever waits is answered, what is being written is finished.
    pub async fn close(&self, patience: Duration) {
        self.core.shutdown.cancel();
        self.core.sum_up_refusals(true).await;
        self.core.desk.look_again();
        self.core.tasks.close();
        if tokio::time::timeout(patience, self.core.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("stopped before everything was written");
        }
        self.core.ids.give_back(self.now()).await;
    }

    /// Where everything is kept.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.core.store
    }

    /// Does something that nobody waits for; what is begun is finished before the runtime is closed.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.core.tasks.spawn(work);
    }

    /// Does something to its end, even if whoever waits for it goes away.
    pub(crate) fn carried_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.core.tasks.spawn(work)
    }

    /// What an operator chose.
    pub(crate) fn settings(&self) -> &Settings {
        &self.core.settings
    }

    /// What is known of workers, as of a moment ago.
    pub(crate) fn known_workers(&self) -> &KnownWorkers {
        &self.core.known_workers
    }

    /// Whether all tables were there when somebody looked.
    pub(crate) fn tables_seen(&self) -> &AtomicBool {
        &self.core.tables_seen
    }

    /// What is not as it should be with the store.
    pub(crate) fn worries(&self) -> Vec<Worry> {
        self.core.worries.all()
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// For how long it has driven what the store holds.
    pub(crate) fn uptime(&self) -> noetl_types::Millis {
        self.now().since(self.core.opened_at)
    }

    /// What it counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.core.metrics
    }

    /// Makes an id.
    pub(crate) fn mint<T: Id>(&self) -> Result<T, RuntimeError> {
        Ok(self.core.ids.mint(self.now())?)
    }

    /// Whether ids can be made.
    pub(crate) fn has_machine_id(&self) -> bool {
        self.core.ids.is_usable(self.now())
    }

    /// Whether the NATS server is reached, where there is one.
    pub(crate) fn reaches_nats(&self) -> Option<bool> {
        let messaging = self.core.messaging.as_ref()?;
        Some(messaging.link().facts().is_connected)
    }

    /// What is wrong with the way to other processes, where there is one.
    pub(crate) fn messaging_trouble(&self) -> Option<Result<(), Text>> {
        let messaging = self.core.messaging.as_ref()?;
        Some(messaging.trouble().map_or(Ok(()), Err))
    }

    /// What an execution has come to, with its definition; nothing where there is none.
    pub(crate) async fn state_of(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<(Arc<Definition>, State)>, RuntimeError> {
        self.core.look(execution_id).await
    }

    /// The same as it was at a moment, and where its log stood.
    pub(crate) async fn state_at(
        &self,
        execution: &Execution,
        at: At,
    ) -> Result<(Arc<Definition>, State, Head), RuntimeError> {
        self.core.look_at(execution, at).await
    }

    /// Counts a snapshot that cannot be used, and drops it.
    pub(crate) async fn reject_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) {
        self.core.reject_snapshot(execution_id, key, version).await;
    }

    /// Waits until the log of an execution is past a version, or until time is up.
    pub async fn wait_for_events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        patience: Duration,
    ) {
        let mut following = self.following(execution_id);
        // Whether it was told or time is up: the caller looks at the log.
        drop(tokio::time::timeout(patience, following.past(after)).await);
    }

    /// Hears of what is appended to an execution from now on: here, or by another server that says so.
    pub(crate) fn following(&self, execution_id: ExecutionId) -> Following<Outcome> {
        self.core.followers.follow(execution_id)
    }
}

impl Core {
    fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            opened_at: parts.clock.now(),
            store: parts.store,
            clock: parts.clock,
            chance: parts.chance,
            ids: parts.ids,
            definitions: Definitions::default(),
            driver: Driver::new(settings.cached_executions),
            traces: Traces::new(settings.traces.as_ref()),
            settings,
            desk: Desk::default(),
            granting: tokio::sync::Mutex::default(),
            followers: Followers::default(),
            claims: Claims::default(),
            lent: SecretsOfRuns::default(),
            known_workers: KnownWorkers::default(),
            tables_seen: AtomicBool::default(),
            alarms: Alarms::default(),
            worries: Worries::default(),
            metrics: Arc::default(),
            messaging: parts.messaging,
            signer: parts.signer,
            neighbours: Neighbours::default(),
            appended: watch::Sender::new(0),
            instance: parts.instance,
            tokens: Tokens::default(),
            trail: Trail::default(),
            quota: Quota::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        })
    }

    async fn append(&self, append: Append) -> Result<Appended, AppendRefused> {
        let mut answers = self.store.append(vec![append]).await;
        answers.pop().unwrap_or_else(|| {
            Err(AppendRefused::Store(noetl_store::StoreError::fatal(
                "the store did not answer",
            )))
        })
    }

    async fn definition(
        &self,
        tenant_id: &TenantId,
        catalog_id: CatalogId,
    ) -> Result<Arc<Definition>, RuntimeError> {
        let known = self.definitions.get(catalog_id);
        let is_theirs = |known: &Arc<Definition>| known.entry.tenant_id == *tenant_id;
        if let Some(definition) = known.filter(is_theirs) {
            return Ok(definition);
        }
        let key = CatalogKey::Id(catalog_id);
        let entry = self.store.catalog_entry(tenant_id, key).await?;
        let entry = entry.ok_or_else(RuntimeError::no_definition)?;
        self.planned(entry)
    }

    /// A definition, ready to run.
    fn planned(&self, entry: CatalogEntry) -> Result<Arc<Definition>, RuntimeError> {
        if let Some(definition) = self.definitions.get(entry.catalog_id) {
            return Ok(definition);
        }
        let definition = Definition::of(entry, self.settings.defaults);
        let definition = Arc::new(definition.map_err(NotRunnable::into_error)?);
        self.definitions.keep(Arc::clone(&definition));
        Ok(definition)
    }

    /// How an execution ended that has ended.
    async fn last_outcome(&self, execution: &Execution) -> Result<Outcome, RuntimeError> {
        let mut outcome = Outcome {
            status: execution.view.status,
            result: None,
            error: execution.view.error.clone(),
        };
        // Only audit events follow the end, so it is near the end of the log.
        let last = execution.head.version.get();
        let after = Version::new((last - i64::from(LogPage::MAX.get())).max(0)).unwrap_or_default();
        let tail = self
            .store
            .events(execution.execution_id, after, LogPage::MAX)
            .await?;
        let mut ends = tail.iter().rev();
        if let Some(end) = ends.find_map(|stored| Outcome::of(&decode(&stored.record).ok()?)) {
            outcome = end;
        }
        Ok(outcome)
    }
}
