//! Location of a run: this process, or the server that uses the database.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execute::DedupKey;
use noetl_api::{Client, ClientSettings, WorkerApi};
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
    self, FileHost, InProcessWorker, KeyFile, OPEN_RETRY_INTERVAL, OpenResult, ServerLockFile,
    SocketServer, StopSignals, StoreLocation, Target,
};

/// Maximum time for pending writes at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Target of a run, with the components in this process.
pub(super) struct RunTarget {
    pub(super) target: Target,
    /// `None` if a server executes the run.
    local: Option<LocalProcess>,
}

/// Components that run in this process.
struct LocalProcess {
    control_plane: LocalControlPlane,
    pool: PoolName,
    /// `None` once the worker has ended.
    worker: Option<InProcessWorker>,
}

/// Control plane of a local run.
enum LocalControlPlane {
    /// This process has the database open and serves other processes.
    Own(ControlPlane, Option<SocketServer>),
    /// Another process has the database open. This one takes over when it ends.
    Shared(FileHost),
}

impl RunTarget {
    /// Pool of the local worker, if the run is local.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        self.local.as_ref().map(|local| &local.pool)
    }

    /// Deduplication key of the start of the run, if another process can end before it answers.
    pub(super) fn dedup_key(&self) -> Option<DedupKey> {
        let is_shared =
            |local: &&LocalProcess| matches!(local.control_plane, LocalControlPlane::Shared(_));
        let local = self.local.as_ref().filter(is_shared)?;
        Some(DedupKey { key: local.pool.as_str().into(), window_secs: None })
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
    pub(super) async fn shut_down(self) -> Result<()> {
        let Some(LocalProcess { control_plane, worker, .. }) = self.local else { return Ok(()) };
        if let Some(worker) = worker {
            worker.stop.cancel();
            // A failure of the worker was already reported.
            drop(worker.task.await);
        }
        match control_plane {
            LocalControlPlane::Own(runtime, socket) => {
                if let Some(socket) = socket {
                    socket.stop().await;
                }
                runtime.close(CLOSE_TIMEOUT).await;
                Ok(())
            }
            LocalControlPlane::Shared(host) => host.stop().await,
        }
    }
}

/// Selects the location of the run. Waits while a process that does not share the database has it
/// open. Returns `None` if the user stops waiting.
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
                print_answer_note(request, location, io)?;
                let runtime = open_own_runtime(store, location, config).await?;
                let (target, api) =
                    (Target::Local(runtime.clone()), Arc::new(runtime.worker_api()));
                let socket = SocketServer::start(&runtime, location);
                let control_plane = LocalControlPlane::Own(runtime, socket);
                let local = LocalProcess::start(control_plane, api, config, io)?;
                return Ok(Some(RunTarget { target, local: Some(local) }));
            }
            OpenResult::InUse(lock_file) => lock_file,
        };
        if lock_file.is_none()
            && let Some(host) = connect_to_run(location, config).await?
        {
            print_answer_note(request, location, io)?;
            let client = host.client().clone();
            let control_plane = LocalControlPlane::Shared(host);
            let local = LocalProcess::start(control_plane, Arc::new(client.clone()), config, io)?;
            return Ok(Some(RunTarget { target: Target::File(client), local: Some(local) }));
        }
        if let Some(client) = connect_to_holder(lock_file.as_ref(), config).await? {
            return Ok(Some(RunTarget { target: Target::Remote(client), local: None }));
        }
        if wait_start.elapsed() >= limit {
            return Err(database_in_use_error(location, lock_file, request.lock_timeout));
        }
        if !is_announced {
            is_announced = true;
            let name = location.display_name();
            io.print_note(format_args!("waiting for another process that uses {name}"))?;
        }
        tokio::select! {
            () = tokio::time::sleep(OPEN_RETRY_INTERVAL) => {}
            _ = signals.next_signal() => return Ok(None),
        }
    }
}

/// Names the command that answers a step that can wait for a signal or approval.
fn print_answer_note(
    request: &RunRequest<'_>,
    location: &StoreLocation,
    io: &mut Io<'_>,
) -> Result<()> {
    let steps = request.source.playbook.workflow.iter();
    let mut tasks = steps.flat_map(|step| step.tool.tasks().iter().map(move |task| (step, task)));
    let waiting = tasks.find_map(|(step, task)| match *task.kind {
        ToolKind::Approval => Some((step, "approve last")),
        ToolKind::Wait => Some((step, "signal last NAME")),
        _ => None,
    });
    let Some((step, command)) = waiting else { return Ok(()) };
    let name = escape_control(&step.name);
    match location {
        StoreLocation::Memory => io.print_note(format_args!(
            "step '{name}' can wait for an answer, which a run without a database cannot receive; \
             run this without --ephemeral"
        ))?,
        StoreLocation::File { .. } => io.print_note(format_args!(
            "step '{name}' can wait for an answer; give it in another terminal with: noetl runs \
             {command}"
        ))?,
        // Servers on the same database receive answers.
        StoreLocation::Database(_) => {}
    }
    Ok(())
}

/// Connects to another process that runs playbooks on the database, if there is one.
async fn connect_to_run(location: &StoreLocation, config: &Config) -> Result<Option<FileHost>> {
    let Some(mut host) = FileHost::start(location, config, KeyFile::Optional)? else {
        return Ok(None);
    };
    if host.is_reachable().await? {
        return Ok(Some(host));
    }
    host.stop().await?;
    Ok(None)
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

/// Opens the runtime of this process.
async fn open_own_runtime(
    store: Arc<dyn Store>,
    location: &StoreLocation,
    config: &Config,
) -> Result<ControlPlane> {
    let runtime =
        roles::open_runtime(Arc::clone(&store), location, config, None, KeyFile::Optional).await?;
    roles::cancel_orphans(&*store, &runtime, location, config).await?;
    Ok(runtime)
}

impl LocalProcess {
    /// Starts a worker in this process.
    fn start(
        control_plane: LocalControlPlane,
        api: Arc<dyn WorkerApi>,
        config: &Config,
        io: &Io<'_>,
    ) -> Result<Self> {
        let pool = roles::local_pool_name();
        // The worker stops without draining, since nothing is needed after the run ends.
        let worker = InProcessWorker::start(api, pool.clone(), Millis::ZERO, config, &io.env)?;
        Ok(Self { control_plane, pool, worker: Some(worker) })
    }
}
