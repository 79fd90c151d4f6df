//! One connection to a server: opened to a checked address, and ended with a cancel request if its
//! statement is abandoned.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_tls::{HostTlsConnector, MakeTlsConnector};
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Client, Config as PostgresConfig, NoTls};
use tokio_util::either::Either;

use super::error;
use super::target::{PostgresTarget, ServerEndpoint};
use crate::egress::{EgressError, EgressPolicy};
use crate::file_access;
use crate::settings::Settings;
use crate::tls::tls_error;

/// Timeout of a cancel request.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a certificate file.
const MAX_CERTIFICATE_FILE_SIZE: ByteSize = ByteSize::from_mib(1);

type Stream = Either<TcpStream, UnixStream>;

/// A connection to a server.
pub(super) struct ServerConnection {
    pub(super) client: Client,
    /// Task that moves bytes between the client and the socket.
    driver: JoinHandle<()>,
    cancel_route: CancelRoute,
    /// True if a statement may be running.
    pub(super) busy: bool,
    /// Start of the current idle period.
    pub(super) idle_since: Instant,
}

/// Address and TLS settings of the connection, which a cancel request reuses.
#[derive(Clone)]
struct CancelRoute {
    peer: PeerAddress,
    tls: Option<HostTlsConnector>,
}

#[derive(Debug, Clone)]
enum PeerAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl ServerConnection {
    /// Connects to the first endpoint of a target that responds.
    pub(super) async fn open(
        target: &PostgresTarget,
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let connect_timeout = target.connect_timeout;
        let connect_timeout = connect_timeout.unwrap_or(settings.postgres.connect_timeout);
        let roots = match &target.root_certificates {
            Some(root) => Some(read_certificates(root, settings).await?),
            None => None,
        };
        let mut failure = None;
        for endpoint in &target.endpoints {
            let attempt = connect_to(endpoint, target, roots.as_deref(), &settings.egress);
            match timeout(connect_timeout, attempt).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    let message = format!("{} does not respond", describe_endpoint(endpoint));
                    failure = Some(TaskError::new(TaskErrorKind::DbConnection, message));
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            TaskError::new(TaskErrorKind::DbConnection, "the task names no server to connect to")
        }))
    }
}

/// A connection that is dropped during a statement cancels that statement: closing the socket alone
/// would leave the server working on it.
impl Drop for ServerConnection {
    fn drop(&mut self) {
        if !self.busy {
            return;
        }
        // Without a runtime the process is about to end, which closes the socket.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let token = self.client.cancel_token();
        let route = self.cancel_route.clone();
        let driver = self.driver.abort_handle();
        runtime.spawn(async move {
            if timeout(CANCEL_TIMEOUT, send_cancel(&token, &route)).await.is_err() {
                tracing::debug!("a cancel request timed out");
            }
            driver.abort();
        });
    }
}

async fn connect_to(
    endpoint: &ServerEndpoint,
    target: &PostgresTarget,
    roots: Option<&[u8]>,
    egress: &EgressPolicy,
) -> Result<ServerConnection, TaskError> {
    let (stream, route) = match endpoint {
        ServerEndpoint::Tcp { name, address, port } => {
            let tls = MakeTlsConnector::new(target.verification, roots)
                .and_then(|connector| {
                    connector.map(|connector| connector.for_host(name)).transpose()
                })
                .map_err(|error| tls_error(&error))?;
            let (stream, peer) = connect_tcp(address, *port, egress).await?;
            let route = CancelRoute { peer: PeerAddress::Tcp(peer), tls };
            (Stream::Left(stream), route)
        }
        ServerEndpoint::Unix { folder, port } => {
            let path = Path::new(folder).join(format!(".s.PGSQL.{port}"));
            let stream = connect_unix(&path, folder, *port, egress).await?;
            let peer = PeerAddress::Unix(path);
            (Stream::Right(stream), CancelRoute { peer, tls: None })
        }
    };
    let (client, driver) = log_in(stream, route.tls.clone(), &target.login)
        .await
        .map_err(|error| error::login_error(&describe_endpoint(endpoint), &error))?;
    Ok(ServerConnection {
        client,
        driver,
        cancel_route: route,
        busy: true,
        idle_since: Instant::now(),
    })
}

async fn log_in(
    stream: Stream,
    tls: Option<HostTlsConnector>,
    login: &PostgresConfig,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
    async fn drive_connection(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    }
    if let Some(tls) = tls {
        let (client, connection) = login.connect_raw(stream, tls).await?;
        return Ok((client, tokio::spawn(drive_connection(connection))));
    }
    // A local socket needs no encryption, regardless of the task's settings.
    let mut plain = login.clone();
    plain.ssl_mode(SslMode::Disable);
    let (client, connection) = plain.connect_raw(stream, NoTls).await?;
    Ok((client, tokio::spawn(drive_connection(connection))))
}

async fn send_cancel(token: &CancelToken, route: &CancelRoute) {
    let stream = match &route.peer {
        PeerAddress::Tcp(address) => TcpStream::connect(address).await.map(Stream::Left),
        PeerAddress::Unix(path) => UnixStream::connect(path).await.map(Stream::Right),
    };
    let Ok(stream) = stream else { return };
    let result = match &route.tls {
        Some(tls) => token.cancel_query_raw(stream, tls.clone()).await,
        None => token.cancel_query_raw(stream, NoTls).await,
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a cancel request failed");
    }
}

/// Connects to an address that was checked.
async fn connect_tcp(
    host: &str,
    port: u16,
    egress: &EgressPolicy,
) -> Result<(TcpStream, SocketAddr), TaskError> {
    let addresses = egress.resolve_host(host, port).await.map_err(|error| {
        let kind = match error {
            EgressError::Denied(_) => TaskErrorKind::Auth,
            EgressError::Unresolved { .. } => TaskErrorKind::DbConnection,
        };
        TaskError::new(kind, error.to_string())
    })?;
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Statements and their responses are small, so waiting to fill a packet only adds
                // latency.
                stream.set_nodelay(true).ok();
                return Ok((stream, address));
            }
            Err(error) => failure = error,
        }
    }
    Err(unreachable_error(&format!("{host}:{port}"), &failure))
}

/// Connects to a socket of this machine, which is not a public address.
async fn connect_unix(
    path: &Path,
    folder: &str,
    port: u16,
    egress: &EgressPolicy,
) -> Result<UnixStream, TaskError> {
    if !egress.names_host(folder, port) {
        let message = format!(
            "'{folder}' is a local socket of the worker; the operator can allow it with \
             NOETL_EGRESS_ALLOW"
        );
        return Err(TaskError::new(TaskErrorKind::Auth, message));
    }
    UnixStream::connect(path).await.map_err(|error| unreachable_error(folder, &error))
}

fn unreachable_error(server: &str, error: &io::Error) -> TaskError {
    let message = format!("the server at {server} cannot be reached: {error}");
    TaskError::new(TaskErrorKind::DbConnection, message)
}

fn describe_endpoint(endpoint: &ServerEndpoint) -> String {
    match endpoint {
        ServerEndpoint::Tcp { name, port, .. } => format!("the server at {name}:{port}"),
        ServerEndpoint::Unix { folder, .. } => format!("the server at {folder}"),
    }
}

/// Reads PEM certificates, given as text or as a file.
async fn read_certificates(root: &str, settings: &Settings) -> Result<Vec<u8>, TaskError> {
    if root.trim_start().starts_with("-----BEGIN") {
        return Ok(root.as_bytes().to_vec());
    }
    file_access::read_allowed_file(
        "certificate file",
        Path::new(root),
        MAX_CERTIFICATE_FILE_SIZE,
        settings,
    )
    .await
}
