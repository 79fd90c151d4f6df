//! Access of several processes to one database file.
//!
//! One process at a time has the file open. It serves the other processes of the same user over a
//! Unix socket beside the file. When it ends, one of the others opens the file and serves the rest
//! at the same address.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_api::{Client, ClientSettings};
use noetl_server::ControlPlane;
use noetl_server::http::{HttpSettings, serve_owner};
use noetl_types::Millis;
use tokio::net::UnixListener;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::orphans::cancel_orphans;
use super::runtime::{KeyFile, open_runtime};
use super::store::{OpenResult, StoreLocation};
use crate::config::Config;
use crate::error::{Error, Result};

/// Interval between attempts to open a file that another process has open.
pub(crate) const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time that requests of other processes get to finish when the server stops.
const DRAIN_TIMEOUT: Millis = Millis::from_ms(500);
/// Maximum time for pending writes at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Base URL of requests over a socket. Only its path is used.
const SOCKET_URL: &str = "http://localhost";

/// Server of the database that this process has open, for other processes.
pub(crate) struct SocketServer {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl SocketServer {
    /// Starts serving. Returns `None` for a store without a file, and if no socket can be created,
    /// for example because its path is too long: then other processes wait for this one.
    pub(crate) fn start(runtime: &ControlPlane, location: &StoreLocation) -> Option<Self> {
        let path = socket_path(location.file_path()?);
        let listener = bind_socket(&path)
            .inspect_err(|error| {
                tracing::warn!(%error, "other processes have to wait for this one");
            })
            .ok()?;
        let settings =
            HttpSettings { is_dev: false, drain_timeout: DRAIN_TIMEOUT, ..HttpSettings::default() };
        let stop = CancellationToken::new();
        let server = serve_owner(runtime.clone(), listener, settings, stop.clone());
        Some(Self { task: tokio::spawn(server), stop })
    }

    /// Stops accepting requests, and finishes the active ones.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // A panic of the server was already logged.
        drop(self.task.await);
    }
}

/// Binds the socket. Replaces that of an earlier process, which no longer has the file open.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Socket of the process that has a database file open.
pub(super) fn socket_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".sock");
    PathBuf::from(path)
}

/// Client of the process that serves a database file. Waits for a process while there is none.
fn socket_client(database: &Path) -> Result<Client> {
    let unix_socket = Some(socket_path(database));
    Ok(Client::new(SOCKET_URL, ClientSettings { unix_socket, ..ClientSettings::default() })?)
}

/// Access to a database file: serves it if no other process does, and from then on when the other
/// process ends.
pub(crate) struct FileHost {
    client: Client,
    task: JoinHandle<Result<()>>,
    stop: CancellationToken,
}

impl FileHost {
    /// Starts the host. Returns `None` for a location without a file.
    pub(crate) fn start(
        location: &StoreLocation,
        config: &Config,
        key_file: KeyFile,
    ) -> Result<Option<Self>> {
        let Some(database) = location.file_path() else {
            return Ok(None);
        };
        let client = socket_client(database)?;
        let stop = CancellationToken::new();
        let host = host_file(location.clone(), config.clone(), key_file, stop.clone());
        Ok(Some(Self { client, task: tokio::spawn(host), stop }))
    }

    /// Client of the process that has the file open.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until a process serves the file. Returns false if none does, because the process that
    /// has it open does not share it.
    pub(crate) async fn is_reachable(&mut self) -> Result<bool> {
        tokio::select! {
            ended = &mut self.task => Err(host_error(ended)),
            ready = self.client.check_readiness() => Ok(ready.is_ok()),
        }
    }

    /// Ends the access, and closes the file if this process has it open.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.task.await.unwrap_or_else(|error| Err(Error::from_chain(&error)))
    }
}

fn host_error(ended: Result<Result<()>, JoinError>) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => Error::failed("the database was closed unexpectedly"),
        Err(error) => Error::from_chain(&error),
    }
}

/// Opens the file as soon as no other process has it open, and serves it until `stop`.
async fn host_file(
    location: StoreLocation,
    config: Config,
    key_file: KeyFile,
    stop: CancellationToken,
) -> Result<()> {
    let store = loop {
        if let OpenResult::Store(store) = location.open_store().await? {
            break store;
        }
        let pause = tokio::time::sleep(OPEN_RETRY_INTERVAL);
        if stop.run_until_cancelled(pause).await.is_none() {
            return Ok(());
        }
    };
    let runtime = open_runtime(store.clone(), &location, &config, None, key_file).await?;
    cancel_orphans(&*store, &runtime, &location, &config).await?;
    let server = SocketServer::start(&runtime, &location);
    stop.cancelled().await;
    if let Some(server) = server {
        server.stop().await;
    }
    runtime.close(CLOSE_TIMEOUT).await;
    Ok(())
}
