//! `noetl dev` and `noetl server`: run a server until it is stopped.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use noetl_server::ControlPlane;
use noetl_server::http::{self, HttpListeners, HttpSettings};
use noetl_store::{PrivilegeCheck, Store};
use noetl_types::{Millis, PoolName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::table::{BOOTSTRAP_TOKEN, SQL_CONSOLE};
use crate::config::{Config, Dev, GivenSettings, Server, SettingFlags};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::roles::{self, InProcessWorker, ServerLockFile, SocketServer, StoreLocation};

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
pub(crate) fn run(given: &GivenSettings, mode: ServeMode, io: &mut Io<'_>) -> Result<CommandExit> {
    // The memory of a server contains keys and decrypted secrets. A development server stays
    // debuggable.
    if mode == ServeMode::ServerOnly {
        noetl_tools::sandbox::hide_this_process();
    }
    let config = Config::load(given, &io.env)?;
    roles::start_logging(&config, &io.err)?;
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
) -> Result<()> {
    let (graceful, immediate) = roles::shutdown_tokens()?;
    // Listens before opening the store: a second server on the same port must not touch the store.
    let settings = roles::http_settings(config, location, mode == ServeMode::WithWorker)?;
    let bound = roles::bind_listeners(config, &settings).await?;
    let describe_holder = |lock_file: Option<ServerLockFile>| {
        Some(lock_file.map_or("a 'noetl run'".to_owned(), |lock_file| {
            format!("the server of process {} at {}", lock_file.pid, lock_file.url)
        }))
    };
    let store = location.open_exclusive_store(describe_holder).await?;
    warn_missing_log_privileges(&*store, location).await?;
    for warning in location.permission_warnings() {
        tracing::warn!("{warning}");
    }
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", bound.public);
    let endpoint = roles::ServerEndpoint { url: &url, requires_tokens: !settings.is_dev };
    let runtime = roles::open_runtime(
        Arc::clone(&store),
        location,
        config,
        Some(endpoint),
        roles::KeyFile::CreateIfMissing,
    )
    .await?;
    let count = roles::cancel_orphans(&*store, &runtime, location, config).await?;
    if count > 0 {
        tracing::warn!(count, "cancelled runs whose process no longer exists");
    }
    let first_token = if settings.is_dev {
        None
    } else {
        let configured = config.get(&BOOTSTRAP_TOKEN)?;
        let token = runtime.identities.bootstrap_admin_token(configured.as_deref()).await;
        token.map_err(|error| Error::from_chain(&error))?
    };
    let worker = match mode {
        ServeMode::WithWorker => {
            let pool = PoolName::shared();
            let api = Arc::new(runtime.worker_api());
            Some(InProcessWorker::start(api, pool, WORKER_DRAIN_TIMEOUT, config, &io.env)?)
        }
        ServeMode::ServerOnly => None,
    };
    let extra_urls = ExtraUrls {
        internal: bound.internal.map(|address| format!("{scheme}://{address}")),
        metrics: bound.metrics.map(|address| format!("{scheme}://{address}")),
    };
    // The last step that can fail, for example on a full disk. No request is answered before it.
    let lock_file = ServerLockFile::new(url.clone());
    let written = location.file_path().map(|file| lock_file.write_beside(file)).transpose();
    let _lock_file = written.map_err(|error| roles::process_error(&error))?;
    // Local runs that another process served continue here. A server that requires tokens accepts
    // them only from its listeners.
    let socket = match mode {
        ServeMode::WithWorker if settings.is_dev => SocketServer::start(&runtime, location),
        ServeMode::WithWorker | ServeMode::ServerOnly => None,
    };
    let process =
        DevProcess { socket, ..DevProcess::start(runtime, bound.listeners, settings, worker) };
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
async fn warn_missing_log_privileges(store: &dyn Store, location: &StoreLocation) -> Result<()> {
    if !location.has_separate_owner() {
        return Ok(());
    }
    let missing = store.list_failed_privilege_checks().await?;
    for check in missing.iter().filter(|failed| failed.check == PrivilegeCheck::AppendOnly) {
        tracing::warn!(wall = %check, "the event log is not protected against changes by the server's role");
    }
    Ok(())
}

/// All components of the process.
struct DevProcess {
    runtime: ControlPlane,
    server: JoinHandle<Result<(), http::ServeError>>,
    stop_server: CancellationToken,
    worker: Option<InProcessWorker>,
    socket: Option<SocketServer>,
}

impl DevProcess {
    fn start(
        runtime: ControlPlane,
        listeners: HttpListeners,
        settings: HttpSettings,
        worker: Option<InProcessWorker>,
    ) -> Self {
        let stop_server = CancellationToken::new();
        let server = http::serve_http(runtime.clone(), listeners, settings, stop_server.clone());
        Self { runtime, server: tokio::spawn(server), stop_server, worker, socket: None }
    }

    /// Runs until it is stopped or a component ends, then shuts down in order: first no new work is
    /// accepted, then no new requests, then pending writes are completed.
    async fn run_until(mut self, stop: &CancellationToken) -> Result<()> {
        let result = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = &mut self.server => Err(roles::component_end_error("server", ended)),
            error = worker_end(&mut self.worker) => Err(error),
        };
        tracing::info!("stopping");
        if let Some(worker) = self.worker.filter(|worker| !worker.task.is_finished()) {
            worker.stop.cancel();
            drop(worker.task.await);
        }
        self.stop_server.cancel();
        if let Some(socket) = self.socket {
            socket.stop().await;
        }
        if !self.server.is_finished() {
            drop(self.server.await);
        }
        self.runtime.close(CLOSE_TIMEOUT).await;
        result
    }
}

/// Waits for the worker to end. Never returns without a worker.
async fn worker_end(worker: &mut Option<InProcessWorker>) -> Error {
    match worker {
        Some(worker) => roles::component_end_error("worker", (&mut worker.task).await),
        None => std::future::pending().await,
    }
}

/// Prints the first token, to standard output only, so that no log contains it.
fn print_first_token(token: &str, io: &mut Io<'_>) -> Result<()> {
    writeln!(io.out, "First token, with full access (shown only once):\n{token}")?;
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
) -> Result<()> {
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
mod tests;
