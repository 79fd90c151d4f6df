//! Services of the control plane, one per concern.
//!
//! A service is a struct with the few things that it needs: the infrastructure, its own state, and
//! the services that it calls. A method that acts for a caller takes its
//! [`CallContext`](crate::CallContext). All state held in memory can be lost at any moment.

pub mod anchors;
pub(crate) mod audit_log;
pub(crate) mod catalog;
pub(crate) mod command_token;
pub(crate) mod credentials;
pub(crate) mod executions;
pub(crate) mod follow_ups;
pub(crate) mod idempotent_requests;
pub(crate) mod identities;
pub(crate) mod ids;
pub(crate) mod infrastructure;
pub(crate) mod issued_secrets;
pub(crate) mod keychain;
pub(crate) mod leases;
pub(crate) mod lru;
pub(crate) mod maintenance;
pub(crate) mod notifications;
pub(crate) mod peers;
pub(crate) mod projection;
pub(crate) mod publishing;
pub mod queries;
pub(crate) mod quotas;
pub(crate) mod reports;
pub(crate) mod results;
pub(crate) mod store_clock;
pub(crate) mod sweeper;
pub(crate) mod system_playbooks;
pub(crate) mod system_status;
pub(crate) mod task_output;
pub(crate) mod token_seals;
pub(crate) mod traces;
pub mod verification;
pub(crate) mod waiters;
pub(crate) mod worker_api;
pub(crate) mod workers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use noetl_store::Store;
use noetl_types::Text;
use tokio::sync::mpsc;

use crate::classic::{ClassicApi, ClassicClaims};
use crate::clock::Clock;
use crate::crypto::HmacSigner;
use crate::driver::Driver;
use crate::error::{Result, RuntimeError, error_chain};
use crate::random_source::{RandomSource, SystemRandom};
use crate::rng;
use crate::settings::Settings;

use anchors::Anchors;
pub use audit_log::AuditLog;
pub use catalog::Catalog;
pub use credentials::Credentials;
pub use executions::Executions;
use follow_ups::FollowUps;
use follow_ups::slots::SlotGrants;
use idempotent_requests::IdempotentRequests;
pub use identities::Identities;
use ids::IdAllocator;
pub use infrastructure::Infrastructure;
use issued_secrets::IssuedSecrets;
pub use keychain::Keychain;
pub use leases::Leases;
pub use maintenance::Maintenance;
use notifications::{CommandNotification, CommandNotifier, NOTIFICATION_SUBJECTS, NatsMessaging};
use peers::{PeerNotifier, Peers};
pub use projection::Projection;
pub use publishing::Publishing;
pub use queries::Queries;
use quotas::Quotas;
pub use reports::Reports;
pub use results::Results;
use store_clock::StoreClock;
use sweeper::Sweeper;
pub use system_playbooks::SystemPlaybooks;
pub use system_status::SystemStatus;
pub use task_output::TaskOutput;
use traces::Traces;
use verification::{Verification, VerifyStatus};
use waiters::Waiters;
pub use worker_api::LocalWorkerApi;
pub use workers::WorkerRegistry;

/// The services of one server on a store. Clones share them.
#[derive(Clone)]
pub struct ControlPlane {
    pub infra: Arc<Infrastructure>,
    pub anchors: Arc<Anchors>,
    pub audit: Arc<AuditLog>,
    pub catalog: Arc<Catalog>,
    pub classic: Arc<ClassicApi>,
    pub credentials: Arc<Credentials>,
    pub executions: Arc<Executions>,
    pub identities: Arc<Identities>,
    pub(crate) idempotent_requests: Arc<IdempotentRequests>,
    pub keychain: Arc<Keychain>,
    pub leases: Arc<Leases>,
    pub maintenance: Arc<Maintenance>,
    pub projection: Arc<Projection>,
    pub publishing: Arc<Publishing>,
    pub queries: Arc<Queries>,
    pub reports: Arc<Reports>,
    pub results: Arc<Results>,
    pub system_playbooks: Arc<SystemPlaybooks>,
    pub system_status: Arc<SystemStatus>,
    pub task_output: Arc<TaskOutput>,
    pub verification: Arc<Verification>,
    pub workers: Arc<WorkerRegistry>,
    pub(crate) driver: Arc<Driver>,
    /// Held here, because the driver only refers to it.
    follow_ups: Arc<FollowUps>,
}

impl ControlPlane {
    /// Opens the services and starts their background tasks.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self> {
        Self::open_with_rng(store, clock, Arc::new(SystemRandom), settings).await
    }

    /// Opens the services with the given random number generator, so that a run can be reproduced
    /// byte for byte.
    pub async fn open_with_rng(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn RandomSource>,
        mut settings: Settings,
    ) -> Result<Self> {
        // A process with a wrong key takes no machine id each time it is restarted.
        credentials::key_check::verify_encryption_key(&*store, settings.keys.as_deref()).await?;
        let instance_id = u64::from_be_bytes(rng::random_bytes(&*rng));
        let instance = Text::from(format!("{}-{instance_id:016x}", settings.server_name));
        let clock = StoreClock::measured(&*store, clock).await?;
        let (machine_id, now) = (settings.machine_id, clock.now());
        let ids = IdAllocator::acquire_lease(Arc::clone(&store), instance, machine_id, now).await?;
        let (messaging, notifications) = match &settings.nats {
            Some(nats) => NatsMessaging::open(nats)
                .await
                .map(|(messaging, notifications)| (Some(messaging), Some(notifications)))?,
            None => (None, None),
        };
        let signer = command_token::load_token_signer(&*store, &*rng, &settings).await?;
        let is_alone = *ids.peer_count().borrow() == 0;
        let outbox = publishing::resolve_outbox(&*store, settings.outbox, is_alone).await;
        if outbox.is_err() {
            // Otherwise, this server would count as another one at its next start.
            ids.release_lease(clock.now()).await;
        }
        settings.outbox = outbox?;
        let infra = Arc::new(Infrastructure::new(store, clock, rng, ids, settings));
        let services = Self::assemble(infra, messaging, signer);
        services.seal_tokens().await?;
        services.idempotent_requests.release_abandoned_requests().await?;
        services.publishing.create_stream_cursor().await?;
        services.spawn_background_tasks(notifications);
        Ok(services)
    }

    /// Seals the tokens of an installation that has none yet, and those under an earlier key. From
    /// then on, the chain of anchors says that tokens must have seals. If the chain cannot be
    /// trusted, tokens without a seal stay refused.
    async fn seal_tokens(&self) -> Result<()> {
        let Some(sealer) = &self.identities.sealer else {
            return Ok(());
        };
        let requires_seals = match self.anchors.requires_seals().await {
            Ok(requires_seals) => Some(requires_seals),
            Err(error @ RuntimeError::Store(_)) => return Err(error),
            Err(error) => {
                tracing::error!(error = %error_chain(&error), "API tokens without a seal are not sealed");
                None
            }
        };
        let may_seal_all = requires_seals == Some(false);
        let sealed = sealer.update_seals(self.infra.store(), may_seal_all).await?;
        if sealed > 0 {
            tracing::info!(sealed, "API tokens were sealed with the encryption key");
        }
        match requires_seals {
            Some(requires_seals) if !requires_seals || sealed > 0 => {
                self.anchors.record_seals().await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Opens a store for reading and drives nothing: no lease expires, no timer fires, no id is
    /// allocated. For a store that another process may be writing to.
    pub fn open_read_only(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let ids = IdAllocator::read_only(Arc::clone(&store), settings.server_name.clone());
        let rng = Arc::new(SystemRandom);
        let clock = StoreClock::unmeasured(clock);
        Self::assemble(Arc::new(Infrastructure::new(store, clock, rng, ids, settings)), None, None)
    }

    /// Builds the services, each after those that it calls.
    #[expect(
        clippy::too_many_lines,
        reason = "a list of services, which is read from top to bottom"
    )]
    fn assemble(
        infra: Arc<Infrastructure>,
        messaging: Option<NatsMessaging>,
        signer: Option<HmacSigner>,
    ) -> Self {
        let messaging = messaging.map(Arc::new);
        let waiters = Arc::new(Waiters::default());
        let secrets = Arc::new(IssuedSecrets::default());
        let audit = Arc::new(AuditLog::new(&infra));
        let catalog = Arc::new(Catalog::new(&infra));
        let identities = Arc::new(Identities::new(&infra, signer));
        let claims = Arc::new(ClassicClaims::new(&infra));
        let results =
            Arc::new(Results { infra: Arc::clone(&infra), secrets: Arc::clone(&secrets) });
        let publishing = Arc::new(Publishing {
            infra: Arc::clone(&infra),
            messaging: messaging.clone(),
            waiters: Arc::clone(&waiters),
        });
        let workers = Arc::new(WorkerRegistry::new(&infra, &claims));
        let anchors = Arc::new(Anchors::new(&infra));
        let verify_status = Arc::new(VerifyStatus::default());
        let maintenance = Arc::new(Maintenance::new(&infra, &audit, &anchors, &verify_status));
        let peers = Arc::new(Peers {
            infra: Arc::clone(&infra),
            messaging,
            waiters: Arc::clone(&waiters),
            notifier: PeerNotifier::default(),
        });
        let traces = Arc::new(Traces::new(&infra));
        let driver = Arc::new(Driver::new(&infra, &catalog, &results, &peers, &traces));
        let queries = Arc::new(Queries {
            infra: Arc::clone(&infra),
            driver: Arc::clone(&driver),
            results: Arc::clone(&results),
            publishing: Arc::clone(&publishing),
        });
        let executions = Arc::new(Executions {
            infra: Arc::clone(&infra),
            driver: Arc::clone(&driver),
            catalog: Arc::clone(&catalog),
            queries: Arc::clone(&queries),
            quotas: Arc::new(Quotas::new(&infra)),
            secrets: Arc::clone(&secrets),
        });
        let follow_ups = Arc::new(FollowUps {
            infra: Arc::clone(&infra),
            driver: Arc::clone(&driver),
            executions: Arc::clone(&executions),
            results: Arc::clone(&results),
            slots: SlotGrants { infra: Arc::clone(&infra), driver: Arc::clone(&driver) },
        });
        driver.connect_follow_ups(&follow_ups);
        let leases = Arc::new(Leases::new(&infra, &driver));
        let credentials = Arc::new(Credentials {
            infra: Arc::clone(&infra),
            catalog: Arc::clone(&catalog),
            workers: Arc::clone(&workers),
            secrets: Arc::clone(&secrets),
            audit: Arc::clone(&audit),
        });
        let task_output = Arc::new(TaskOutput {
            infra: Arc::clone(&infra),
            leases: Arc::clone(&leases),
            secrets: Arc::clone(&secrets),
        });
        Self {
            classic: Arc::new(ClassicApi {
                infra: Arc::clone(&infra),
                driver: Arc::clone(&driver),
                catalog: Arc::clone(&catalog),
                results: Arc::clone(&results),
                credentials: Arc::clone(&credentials),
                secrets: Arc::clone(&secrets),
                claims,
            }),
            reports: Arc::new(Reports {
                infra: Arc::clone(&infra),
                driver: Arc::clone(&driver),
                leases: Arc::clone(&leases),
                output: Arc::clone(&task_output),
                secrets: Arc::clone(&secrets),
            }),
            keychain: Arc::new(Keychain { infra: Arc::clone(&infra), secrets }),
            idempotent_requests: Arc::new(IdempotentRequests { infra: Arc::clone(&infra) }),
            projection: Arc::new(Projection {
                infra: Arc::clone(&infra),
                driver: Arc::clone(&driver),
                queries: Arc::clone(&queries),
                waiters,
                log_locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            }),
            system_playbooks: Arc::new(SystemPlaybooks {
                infra: Arc::clone(&infra),
                catalog: Arc::clone(&catalog),
                executions: Arc::clone(&executions),
                publishing: Arc::clone(&publishing),
            }),
            system_status: Arc::new(SystemStatus {
                infra: Arc::clone(&infra),
                workers: Arc::clone(&workers),
                publishing: Arc::clone(&publishing),
                maintenance: Arc::clone(&maintenance),
                tables_found: AtomicBool::default(),
            }),
            verification: Arc::new(Verification::new(&infra, &driver, verify_status)),
            anchors,
            audit,
            catalog,
            credentials,
            executions,
            identities,
            leases,
            maintenance,
            publishing,
            queries,
            results,
            task_output,
            workers,
            follow_ups,
            driver,
            infra,
        }
    }

    /// Spawns the background tasks. Every server runs all of them, and none relies on another
    /// server.
    fn spawn_background_tasks(&self, notifications: Option<mpsc::Receiver<CommandNotification>>) {
        let tasks = &self.infra.tasks;
        tasks.spawn(Arc::clone(&self.maintenance).clock_loop());
        let sweeper = Arc::new(Sweeper::new(&self.driver, &self.follow_ups));
        tasks.spawn(Arc::clone(&sweeper).sweep_loop());
        tasks.spawn(sweeper.timer_loop());
        tasks.spawn(Arc::clone(&self.maintenance).gc_loop());
        tasks.spawn(Arc::clone(&self.maintenance).maintenance_loop());
        tasks.spawn(Arc::clone(&self.anchors).anchor_loop());
        tasks.spawn(Arc::clone(&self.verification).verify_loop());
        tasks.spawn(Arc::clone(&self.driver.peers).peer_channel_loop());
        if self.driver.traces.is_enabled() {
            tasks.spawn(Arc::clone(&self.driver.traces).trace_loop());
        }
        if let (Some(notifications), Some(messaging)) = (notifications, &self.publishing.messaging)
        {
            let notifier = Arc::new(CommandNotifier {
                infra: Arc::clone(&self.infra),
                messaging: Arc::clone(messaging),
                waiters: Arc::clone(&self.driver.waiters),
                identities: Arc::clone(&self.identities),
            });
            tasks.spawn(Arc::clone(&notifier).notify_loop(notifications));
            tasks.spawn(Arc::clone(&notifier).renotify_loop());
            for subjects in NOTIFICATION_SUBJECTS {
                tasks.spawn(Arc::clone(&notifier).listen_loop(subjects));
            }
            if messaging.event_stream.is_some() {
                tasks.spawn(Arc::clone(&self.publishing).stream_loop());
            }
        }
        if self.infra.settings.platform {
            tasks.spawn(Arc::clone(&self.system_playbooks).start_loop());
        }
    }

    /// Returns the API for a worker in the same process that acts for the default tenant.
    pub fn worker_api(&self) -> LocalWorkerApi {
        LocalWorkerApi::new(self.clone())
    }

    /// Shuts down: pending requests are answered, and writes in progress are finished within
    /// `timeout`.
    pub async fn close(&self, timeout: Duration) {
        self.infra.shutdown.cancel();
        self.audit.flush_refusals(true).await;
        self.driver.waiters.matcher.recheck_all();
        self.infra.tasks.close();
        if tokio::time::timeout(timeout, self.infra.tasks.wait()).await.is_err() {
            tracing::warn!("shutdown timed out before all writes were finished");
        }
        self.infra.ids.release_lease(self.infra.now()).await;
    }
}
