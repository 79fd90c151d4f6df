//! Location of a run: this process, once the database is free, or the server that uses it.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::{Client, ClientSettings};
use noetl_playbook::model::ToolKind;
use noetl_server::ControlPlane;
use noetl_store::Store;
use noetl_types::{Millis, PoolName};
use tokio::time::Instant;

use super::RunRequest;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::io::Io;
use crate::render::text_layout::escape_control;
use crate::roles::{
    self, InProcessWorker, OpenResult, ServerLockFile, StopSignals, StoreLocation, Target,
};

/// Interval between attempts to open a database that is in use.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for pending writes at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Target of a run, with the components in this process if the run is local.
pub(super) struct RunTarget {
    pub(super) target: Target,
    local: Option<LocalProcess>,
}

/// Components that run in this process.
struct LocalProcess {
    runtime: ControlPlane,
    pool: PoolName,
    /// `None` once the worker has ended.
    worker: Option<InProcessWorker>,
}

impl RunTarget {
    /// Pool of the local worker, if the run is local.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        self.local.as_ref().map(|local| &local.pool)
    }

    /// Waits until the worker ends by itself, and reports this once. The end is not an error if the
    /// worker was drained.
    pub(super) async fn worker_ended(&mut self) -> Result<()> {
        if let Some(local) = &mut self.local
            && let Some(worker) = &mut local.worker
        {
            let result = (&mut worker.task).await;
            local.worker = None;
            return match result {
                Ok(Ok(())) => Ok(()),
                ended => Err(roles::component_end_error("worker", ended)),
            };
        }
        std::future::pending().await
    }

    /// Stops the local components: kills tools and completes pending writes.
    pub(super) async fn shut_down(self) {
        let Some(LocalProcess { runtime, worker, .. }) = self.local else { return };
        if let Some(worker) = worker {
            worker.stop.cancel();
            // A failure of the worker was already reported.
            drop(worker.task.await);
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
) -> Result<Option<RunTarget>> {
    let wait_start = Instant::now();
    let limit = Duration::from(request.lock_timeout);
    let mut is_announced = false;
    loop {
        let lock_file = match location.open_store().await? {
            OpenResult::Store(store) => {
                if !matches!(location, StoreLocation::Database(_)) {
                    warn_unanswerable_waits(request, io)?;
                }
                let local = start_local_process(store, location, config, io).await?;
                let target = Target::Local(local.runtime.clone());
                return Ok(Some(RunTarget { target, local: Some(local) }));
            }
            OpenResult::InUse(lock_file) => lock_file,
        };
        if let Some(client) = connect_to_holder(lock_file.as_ref(), config).await? {
            return Ok(Some(RunTarget { target: Target::Remote(client), local: None }));
        }
        if wait_start.elapsed() >= limit {
            return Err(database_in_use_error(location, lock_file, request.lock_timeout));
        }
        if !is_announced {
            is_announced = true;
            let name = location.display_name();
            io.print_note(format_args!("waiting for another run that uses {name}"))?;
        }
        tokio::select! {
            () = tokio::time::sleep(LOCK_RETRY_INTERVAL) => {}
            _ = signals.next_signal() => return Ok(None),
        }
    }
}

/// Warns about steps that wait for a signal or approval. These are received through a server, so a
/// local run would wait forever.
fn warn_unanswerable_waits(request: &RunRequest<'_>, io: &mut Io<'_>) -> Result<()> {
    let mut steps = request.source.playbook.workflow.iter();
    let waits = |kind: ToolKind| matches!(kind, ToolKind::Wait | ToolKind::Approval);
    let waiting_step = steps.find(|step| step.tool.tasks().iter().any(|task| waits(*task.kind)));
    if let Some(step) = waiting_step {
        let name = escape_control(&step.name);
        io.print_note(format_args!(
            "step '{name}' waits for an answer, which requires a server; start 'noetl dev' and run this again"
        ))?;
    }
    Ok(())
}

/// Client of the server that uses the database, if it responds.
async fn connect_to_holder(
    lock_file: Option<&ServerLockFile>,
    config: &Config,
) -> Result<Option<Client>> {
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
) -> Error {
    let time = waited.to_human();
    let choice = "choose another database with --store sqlite:PATH";
    let help = match lock_file.map(|holder| format!("process {} at {}", holder.pid, holder.url)) {
        Some(holder) if waited == Millis::ZERO => format!("stop {holder}, or {choice}"),
        None if waited == Millis::ZERO => format!("stop the other process, or {choice}"),
        Some(holder) => format!("{holder} did not respond within {time}; stop it, or {choice}"),
        None => {
            format!("it did not finish within {time}; wait longer with --lock-timeout, or {choice}")
        }
    };
    location.in_use_error(&help)
}

/// Starts the runtime and a worker in this process.
async fn start_local_process(
    store: Arc<dyn Store>,
    location: &StoreLocation,
    config: &Config,
    io: &mut Io<'_>,
) -> Result<LocalProcess> {
    let runtime = roles::open_runtime(Arc::clone(&store), location, config, None).await?;
    roles::cancel_orphans(&*store, &runtime, location, config).await?;
    let pool = roles::local_pool_name();
    // The worker stops without draining, since nothing is needed after the run ends.
    let worker = InProcessWorker::start(&runtime, pool.clone(), Millis::ZERO, config, &io.env)?;
    Ok(LocalProcess { runtime, pool, worker: Some(worker) })
}
