//! `noetl dev` and `noetl server`: run a server until it is stopped.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use noetl_server::Runtime;
use noetl_server::http::{self, HttpListeners, HttpSettings};
use noetl_store::{PrivilegeCheck, Store};
use noetl_types::{Millis, PoolName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::table::{BOOTSTRAP_TOKEN, SQL_CONSOLE};
use crate::config::{Config, Dev, GivenSettings, Server, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::roles::{
    self, OpenResult, OrphanScope, ServerLockFile, StartError, StoreLocation, WorkerPlan,
};

/// Start a server and a worker in one process for development
///
/// Listens on a loopback address, stores data in a database in the data directory, and accepts
/// local clients without a token. A 'noetl run' on the same database is executed by this server.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The first line on standard output is the address. Ctrl-C stops the server:
running work is finished or continues at the next start. A second Ctrl-C quits
immediately.

Examples:
  noetl dev                      on port 8082, or NOETL_PORT
  noetl dev --port 0             on any free port
  noetl dev --store memory       without persistent data")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) settings: SettingFlags<Dev>,
}

/// Start a server
///
/// Schedules runs, dispatches commands to workers and serves the API. Several servers can share a
/// PostgreSQL database. A database file can be used by one server only.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The first line on standard output is the address; log lines are written to
standard error. Clients authenticate with tokens ('noetl token'); the first
token is printed at the first start. With NOETL_DEV=true, local clients need
no token. Connections from other machines require TLS.

Examples:
  noetl server                                       with a database file
  NOETL_DSN=postgres://noetl@db/noetl noetl server   with PostgreSQL
  noetl config show --origin                         show the settings")]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) settings: SettingFlags<Server>,
}

/// Default runtime threads of a server.
const DEFAULT_SERVER_THREADS: usize = 64;
/// Drain timeout of the worker when a development server stops.
const WORKER_DRAIN_TIMEOUT: Millis = Millis::from_secs(5);
/// Maximum time for pending writes at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that remaining tasks get to stop after the server has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Mode of the process: with or without a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServeMode {
    WithWorker,
    ServerOnly,
}

/// Runs the server until the process is stopped.
pub(crate) fn run(
    given: &GivenSettings,
    mode: ServeMode,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    // The memory of a server contains keys and decrypted secrets. A development server stays
    // debuggable.
    if mode == ServeMode::ServerOnly {
        noetl_tools::sandbox::hide_this_process();
    }
    let config = Config::load(given, &io.env)?;
    roles::start_logging(&config, io.err.is_terminal(), io.err.paint().is_on())?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if config.value(&SQL_CONSOLE)? {
        tracing::warn!("NOETL_SQL_CONSOLE is set, but this version has no SQL console");
    }
    let location = StoreLocation::from_config(&config)?;
    let runtime = roles::build_tokio_runtime(&config, DEFAULT_SERVER_THREADS)?;
    let result = runtime.block_on(serve_until_stopped(&config, &location, mode, io));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| CommandExit::Ok)
}

async fn serve_until_stopped(
    config: &Config,
    location: &StoreLocation,
    mode: ServeMode,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let (graceful, immediate) = roles::shutdown_tokens()?;
    // Listens before opening the store: a second server on the same port must not touch the store.
    let settings = roles::http_settings(config, location, mode == ServeMode::WithWorker)?;
    let bound = roles::bind_listeners(config, &settings).await?;
    let store = open_store(location).await?;
    warn_missing_log_privileges(&*store, location).await?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", bound.public);
    let endpoint = roles::ServerEndpoint { url: &url, requires_tokens: !settings.is_dev };
    let runtime = roles::open_runtime(Arc::clone(&store), location, config, Some(endpoint)).await?;
    if let Some(orphans) = OrphanScope::for_location(location, config)? {
        let count =
            roles::cancel_orphans(&*store, &runtime, orphans).await.map_err(StartError::Runtime)?;
        if count > 0 {
            tracing::warn!(count, "cancelled runs whose process no longer exists");
        }
    }
    let first_token = if settings.is_dev {
        None
    } else {
        let configured = config.get(&BOOTSTRAP_TOKEN)?;
        let token = runtime.bootstrap_admin_token(configured.as_deref()).await;
        token.map_err(StartError::Runtime)?
    };
    let worker = match mode {
        ServeMode::WithWorker => Some(start_worker(config, &runtime, io)?),
        ServeMode::ServerOnly => None,
    };
    let extra_urls = ExtraUrls {
        internal: bound.internal.map(|address| format!("{scheme}://{address}")),
        metrics: bound.metrics.map(|address| format!("{scheme}://{address}")),
    };
    let process = DevProcess::start(runtime, bound.listeners, settings, worker);
    let _lock_file = match location.file_path() {
        Some(file) => {
            Some(ServerLockFile::new(url.clone()).write_beside(file).map_err(StartError::Process)?)
        }
        None => None,
    };
    print_addresses(&url, location, mode, &extra_urls, io)?;
    if let Some(token) = first_token {
        print_first_token(&token, io)?;
    }
    tokio::select! {
        stopped = process.run_until(&graceful) => stopped?,
        () = immediate.cancelled() => {}
    }
    Ok(())
}

/// Warns if the server's role can change the event log although a separate owner role is
/// configured.
async fn warn_missing_log_privileges(
    store: &dyn Store,
    location: &StoreLocation,
) -> Result<(), Error> {
    if !location.has_separate_owner() {
        return Ok(());
    }
    let missing = store.list_failed_privilege_checks().await.map_err(Error::Store)?;
    for check in missing.iter().filter(|failed| failed.check == PrivilegeCheck::AppendOnly) {
        tracing::warn!(wall = %check, "the event log is not protected against changes by the server's role");
    }
    Ok(())
}

async fn open_store(location: &StoreLocation) -> Result<Arc<dyn Store>, StartError> {
    match location.open_store().await? {
        OpenResult::Store(store) => Ok(store),
        OpenResult::InUse(lock_file) => Err(StartError::DatabaseInUse {
            path: location.display_name(),
            waited: Millis::ZERO,
            holder: Some(match lock_file {
                Some(lock_file) => {
                    format!("the server of process {} at {}", lock_file.pid, lock_file.url)
                }
                None => "a 'noetl run'".to_owned(),
            }),
        }),
    }
}

/// A worker in this process and its stop token.
struct InProcessWorker {
    task: JoinHandle<Result<(), noetl_worker::WorkerError>>,
    stop: CancellationToken,
}

fn start_worker(config: &Config, runtime: &Runtime, io: &Io<'_>) -> Result<InProcessWorker, Error> {
    let plan = WorkerPlan::new(config, PoolName::shared(), &io.env)?
        .with_drain_timeout(WORKER_DRAIN_TIMEOUT);
    let toolbox = roles::build_toolbox(
        config,
        &io.env,
        roles::CodeTrust::Trusted,
        roles::PlatformToolSettings::default(),
    )?;
    let stop = CancellationToken::new();
    let worker = plan.build_worker(Arc::new(runtime.clone()), toolbox);
    let task = tokio::spawn(worker.run(stop.clone()));
    Ok(InProcessWorker { task, stop })
}

/// All components of the process.
struct DevProcess {
    runtime: Runtime,
    server: JoinHandle<Result<(), http::ServeError>>,
    stop_server: CancellationToken,
    worker: Option<InProcessWorker>,
}

impl DevProcess {
    fn start(
        runtime: Runtime,
        listeners: HttpListeners,
        settings: HttpSettings,
        worker: Option<InProcessWorker>,
    ) -> Self {
        let stop_server = CancellationToken::new();
        let server = http::serve_http(runtime.clone(), listeners, settings, stop_server.clone());
        Self { runtime, server: tokio::spawn(server), stop_server, worker }
    }

    /// Runs until it is stopped or a component ends, then shuts down in order: first no new work is
    /// accepted, then no new requests, then pending writes are completed.
    async fn run_until(mut self, stop: &CancellationToken) -> Result<(), StartError> {
        let result = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = &mut self.server => Err(StartError::from_component_end("server", ended)),
            error = worker_end(&mut self.worker) => Err(error),
        };
        tracing::info!("stopping");
        if let Some(worker) = self.worker.filter(|worker| !worker.task.is_finished()) {
            worker.stop.cancel();
            drop(worker.task.await);
        }
        self.stop_server.cancel();
        if !self.server.is_finished() {
            drop(self.server.await);
        }
        self.runtime.close(CLOSE_TIMEOUT).await;
        result
    }
}

/// Waits for the worker to end. Never returns without a worker.
async fn worker_end(worker: &mut Option<InProcessWorker>) -> StartError {
    match worker {
        Some(worker) => StartError::from_component_end("worker", (&mut worker.task).await),
        None => std::future::pending().await,
    }
}

/// Prints the first token, to standard output only, so that no log contains it.
fn print_first_token(token: &str, io: &mut Io<'_>) -> Result<(), Error> {
    writeln!(io.out, "First token, with full access (shown only once):")?;
    writeln!(io.out, "{token}")?;
    io.out.flush()?;
    Ok(())
}

/// URLs of the separate internal and metrics listeners.
struct ExtraUrls {
    internal: Option<String>,
    metrics: Option<String>,
}

fn print_addresses(
    url: &str,
    location: &StoreLocation,
    mode: ServeMode,
    extra_urls: &ExtraUrls,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    writeln!(io.out, "NoETL listening on {url}")?;
    if let Some(internal) = &extra_urls.internal {
        writeln!(io.out, "Internal API on {internal}")?;
    }
    if let Some(metrics) = &extra_urls.metrics {
        writeln!(io.out, "Metrics on {metrics}/metrics")?;
    }
    let name = location.display_name();
    match location {
        StoreLocation::Memory => writeln!(io.out, "Data in memory, lost when the server stops")?,
        StoreLocation::File { .. } | StoreLocation::Database(_) => {
            writeln!(io.out, "Data in {name}")?;
        }
    }
    match mode {
        ServeMode::WithWorker => writeln!(io.out, "Stop with Ctrl-C")?,
        ServeMode::ServerOnly => {
            writeln!(io.out, "Workers: noetl worker --server {url} · stop with Ctrl-C")?;
        }
    }
    io.out.flush()?;
    let ExtraUrls { internal, metrics } = extra_urls;
    tracing::info!(url, ?internal, ?metrics, store = %name, "listening");
    Ok(())
}

#[cfg(test)]
mod tests {
    use noetl_server::{RuntimeError, Settings, SystemClock};
    use noetl_store::MemoryStore;
    use noetl_types::MachineId;
    use noetl_worker::WorkerError;

    use super::*;

    /// Behaviour of a fake server or worker task.
    #[derive(Clone, Copy)]
    enum FakeTask {
        /// Runs until it is cancelled.
        Runs,
        /// Returns without being cancelled.
        Exits,
        /// Panics.
        Crashes,
    }

    impl FakeTask {
        async fn run_task<E>(self, stop: CancellationToken) -> Result<(), E> {
            match self {
                Self::Runs => stop.cancelled().await,
                Self::Exits => {}
                Self::Crashes => panic!("deliberate panic of the test"),
            }
            Ok(())
        }
    }

    struct DevProcessFixture {
        process: DevProcess,
        store: Arc<MemoryStore>,
        stop_server: CancellationToken,
        stop_worker: CancellationToken,
    }

    /// Opens a runtime with a fixed machine id, which only one process can lease at a time.
    async fn open_runtime(store: &Arc<MemoryStore>) -> Result<Runtime, RuntimeError> {
        let settings =
            Settings { machine_id: Some(MachineId::new(7).unwrap()), ..Settings::default() };
        Runtime::open(Arc::clone(store) as _, Arc::new(SystemClock), settings).await
    }

    async fn start_fixture(server: FakeTask, worker: FakeTask) -> DevProcessFixture {
        let store = Arc::new(MemoryStore::new());
        let runtime = open_runtime(&store).await.unwrap();
        assert!(open_runtime(&store).await.is_err());
        let (stop_server, stop_worker) = (CancellationToken::new(), CancellationToken::new());
        let process = DevProcess {
            runtime,
            server: tokio::spawn(server.run_task(stop_server.clone())),
            stop_server: stop_server.clone(),
            worker: Some(InProcessWorker {
                task: tokio::spawn(worker.run_task::<WorkerError>(stop_worker.clone())),
                stop: stop_worker.clone(),
            }),
        };
        DevProcessFixture { process, store, stop_server, stop_worker }
    }

    /// If one task ends, the other is cancelled, pending writes are finished, and the error names
    /// the task.
    #[tokio::test]
    async fn one_ended_task_stops_the_others() {
        for (server, worker, text) in [
            (FakeTask::Crashes, FakeTask::Runs, "the server has crashed"),
            (FakeTask::Runs, FakeTask::Crashes, "the worker has crashed"),
            (FakeTask::Exits, FakeTask::Runs, "the server stopped unexpectedly"),
            (FakeTask::Runs, FakeTask::Exits, "the worker stopped unexpectedly"),
        ] {
            let fixture = start_fixture(server, worker).await;
            let result = fixture.process.run_until(&CancellationToken::new()).await;
            let error = result.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            let is_cancelled = |task: FakeTask, stop: &CancellationToken| {
                !matches!(task, FakeTask::Runs) || stop.is_cancelled()
            };
            assert!(is_cancelled(server, &fixture.stop_server), "{text}");
            assert!(is_cancelled(worker, &fixture.stop_worker), "{text}");
            // The runtime is closed, so its machine id is available again.
            assert!(open_runtime(&fixture.store).await.is_ok(), "{text}");
        }
    }

    /// A requested stop ends both tasks without an error.
    #[tokio::test]
    async fn stop_ends_all_tasks() {
        let fixture = start_fixture(FakeTask::Runs, FakeTask::Runs).await;
        let stop = CancellationToken::new();
        stop.cancel();
        fixture.process.run_until(&stop).await.unwrap();
        assert!(fixture.stop_server.is_cancelled() && fixture.stop_worker.is_cancelled());
        assert!(open_runtime(&fixture.store).await.is_ok());
    }
}
