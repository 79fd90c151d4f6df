//! Location of a run: this process, once the database is free, or the server that uses it.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::{Client, ClientSettings};
use noetl_playbook::model::ToolKind;
use noetl_server::Runtime;
use noetl_store::Store;
use noetl_types::{Millis, PoolName};
use noetl_worker::WorkerError;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RunRequest;
use crate::config::Config;
use crate::error::Error;
use crate::io::Io;
use crate::progress::ProgressStyle;
use crate::render::text_layout::escape_control;
use crate::roles::{
    self, OpenResult, OrphanScope, ServerLockFile, StartError, StopSignals, StoreLocation, Target,
    WorkerPlan,
};

/// Interval between attempts to open a database that is in use.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for pending writes at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Location of a run.
pub(super) enum RunTarget {
    Local(Box<LocalProcess>),
    Remote(Client),
}

/// Components that run in this process.
pub(super) struct LocalProcess {
    runtime: Runtime,
    pool: PoolName,
    /// `None` once the worker has ended.
    worker: Option<JoinHandle<Result<(), WorkerError>>>,
    stop: CancellationToken,
}

impl RunTarget {
    /// Target for requests about the run.
    pub(super) fn target(&self) -> Target {
        match self {
            Self::Local(local) => Target::Local(local.runtime.clone()),
            Self::Remote(client) => Target::Remote(client.clone()),
        }
    }

    /// Pool of the local worker, if the run is local.
    pub(super) fn local_pool(&self) -> Option<PoolName> {
        match self {
            Self::Local(local) => Some(local.pool.clone()),
            Self::Remote(_) => None,
        }
    }

    /// Waits until the worker ends by itself, and reports this once. The end is not an error if the
    /// worker was drained.
    pub(super) async fn worker_ended(&mut self) -> Result<(), StartError> {
        if let Self::Local(local) = self
            && let Some(worker) = &mut local.worker
        {
            let result = worker.await;
            local.worker = None;
            return match StartError::from_component_end("worker", result) {
                StartError::ComponentStopped { .. } => Ok(()),
                error => Err(error),
            };
        }
        std::future::pending().await
    }

    /// Stops the local components: kills tools and completes pending writes.
    pub(super) async fn shut_down(self) {
        let Self::Local(local) = self else { return };
        let LocalProcess { runtime, worker, stop, .. } = *local;
        stop.cancel();
        // A failure of the worker was already reported.
        if let Some(worker) = worker {
            drop(worker.await);
        }
        runtime.close(CLOSE_TIMEOUT).await;
    }
}

/// Selects the location of the run. Waits while the database is in use. Returns `None` if the user
/// stops waiting.
pub(super) async fn find_run_target(
    request: &RunRequest<'_>,
    location: &StoreLocation,
    config: &Config,
    io: &mut Io<'_>,
    signals: &mut StopSignals,
) -> Result<Option<RunTarget>, Error> {
    let wait_start = Instant::now();
    let limit = Duration::from(request.lock_timeout);
    let mut is_announced = request.style == ProgressStyle::Quiet;
    loop {
        let lock_file = match location.open_store().await? {
            OpenResult::Store(store) => {
                if !matches!(location, StoreLocation::Database(_)) {
                    warn_unanswerable_waits(request, io)?;
                }
                let local = start_local_process(store, location, config, io).await?;
                return Ok(Some(RunTarget::Local(Box::new(local))));
            }
            OpenResult::InUse(lock_file) => lock_file,
        };
        if let Some(client) = connect_to_holder(lock_file.as_ref(), config).await? {
            return Ok(Some(RunTarget::Remote(client)));
        }
        if wait_start.elapsed() >= limit {
            return Err(database_in_use_error(location, lock_file, request.lock_timeout).into());
        }
        if !is_announced {
            is_announced = true;
            io.print_message(format_args!(
                "waiting for another run that uses {}",
                location.display_name()
            ))?;
        }
        tokio::select! {
            () = tokio::time::sleep(LOCK_RETRY_INTERVAL) => {}
            _ = signals.next_signal() => return Ok(None),
        }
    }
}

/// Warns about steps that wait for a signal or approval. These are received through a server, so a
/// local run would wait forever.
fn warn_unanswerable_waits(request: &RunRequest<'_>, io: &mut Io<'_>) -> Result<(), Error> {
    let mut steps = request.source.playbook.workflow.iter();
    let waits = |kind: ToolKind| matches!(kind, ToolKind::Wait | ToolKind::Approval);
    let waiting_step = steps.find(|step| step.tool.tasks().iter().any(|task| waits(*task.kind)));
    if let Some(step) = waiting_step.filter(|_| request.style != ProgressStyle::Quiet) {
        let name = escape_control(&step.name);
        io.print_message(format_args!(
            "step '{name}' waits for an answer, which requires a server; start 'noetl dev' and run this again"
        ))?;
    }
    Ok(())
}

/// Client of the server that uses the database, if it responds.
async fn connect_to_holder(
    lock_file: Option<&ServerLockFile>,
    config: &Config,
) -> Result<Option<Client>, Error> {
    let settings =
        ClientSettings { connect_timeout: Millis::from_secs(1), ..roles::client_settings(config)? };
    let Some(client) = lock_file.and_then(|lock_file| Client::new(&lock_file.url, settings).ok())
    else {
        return Ok(None);
    };
    Ok(client.check_readiness().await.is_ok().then_some(client))
}

fn database_in_use_error(
    location: &StoreLocation,
    lock_file: Option<ServerLockFile>,
    waited: Millis,
) -> StartError {
    StartError::DatabaseInUse {
        path: location.display_name(),
        waited,
        holder: lock_file
            .map(|lock_file| format!("process {} at {}", lock_file.pid, lock_file.url)),
    }
}

/// Starts the runtime and a worker in this process.
async fn start_local_process(
    store: Arc<dyn Store>,
    location: &StoreLocation,
    config: &Config,
    io: &mut Io<'_>,
) -> Result<LocalProcess, Error> {
    let runtime = roles::open_runtime(Arc::clone(&store), location, config, None).await?;
    if let Some(orphans) = OrphanScope::for_location(location, config)? {
        let result = roles::cancel_orphans(&*store, &runtime, orphans).await;
        result.map_err(StartError::Runtime)?;
    }
    let pool = roles::local_pool_name();
    let plan = WorkerPlan::new(config, pool.clone(), &io.env)?.for_single_run();
    let toolbox = roles::build_toolbox(
        config,
        &io.env,
        roles::CodeTrust::Trusted,
        roles::PlatformToolSettings::default(),
    )?;
    let worker = plan.build_worker(Arc::new(runtime.clone()), toolbox);
    let stop = CancellationToken::new();
    let worker = tokio::spawn(worker.run(stop.clone()));
    Ok(LocalProcess { runtime, pool, worker: Some(worker), stop })
}
