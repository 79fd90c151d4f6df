//! One connection to a server: dialled to a checked address, and ended with a cancel request when
//! its statement is not wanted any more.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_tls::{Connector, Tls};
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Client, Config as Login, NoTls};
use tokio_util::either::Either;

use super::fault;
use super::target::{Place, Target};
use crate::egress::{EgressError, EgressPolicy};
use crate::roots;
use crate::settings::Settings;
use crate::tls::tls_fault;

/// How long a cancel request may take.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// The largest file of certificates that is read.
const LARGEST_ROOTS: ByteSize = ByteSize::from_mib(1);

type Stream = Either<TcpStream, UnixStream>;

/// A connection.
pub(super) struct Link {
    pub(super) client: Client,
    /// Moves bytes between the client and the socket.
    driver: JoinHandle<()>,
    way: Way,
    /// Whether a statement may be under way.
    pub(super) busy: bool,
    /// Since when nobody uses it.
    pub(super) since: Instant,
}

/// How the server was reached, so that a cancel request goes the same way.
#[derive(Clone)]
struct Way {
    peer: Peer,
    tls: Option<Tls>,
}

#[derive(Debug, Clone)]
enum Peer {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Link {
    /// Connects to the first place of a target that answers.
    pub(super) async fn open(target: &Target, settings: &Settings) -> Result<Self, TaskError> {
        let time = target.connect_timeout;
        let time = time.unwrap_or(settings.postgres.connect_timeout);
        let roots = match &target.root {
            Some(root) => Some(certificates(root, settings).await?),
            None => None,
        };
        let mut failure = None;
        for place in &target.places {
            let attempt = open_at(place, target, roots.as_deref(), &settings.egress);
            match timeout(time, attempt).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    let message = format!("{} does not answer", shown(place));
                    failure = Some(TaskError::new(TaskErrorKind::DbConnection, message));
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            TaskError::new(
                TaskErrorKind::DbConnection,
                "there is no server to connect to",
            )
        }))
    }
}

/// A connection that is dropped in the middle of a statement takes that statement with it: closing
/// the socket alone would leave the server at work.
impl Drop for Link {
    fn drop(&mut self) {
        if !self.busy {
            return;
        }
        // Without a runtime the process is about to end, and with it the socket.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let token = self.client.cancel_token();
        let way = self.way.clone();
        let driver = self.driver.abort_handle();
        runtime.spawn(async move {
            if timeout(CANCEL_TIME, cancel(&token, &way)).await.is_err() {
                tracing::debug!("a cancel request was not answered");
            }
            driver.abort();
        });
    }
}

async fn open_at(
    place: &Place,
    target: &Target,
    roots: Option<&[u8]>,
    egress: &EgressPolicy,
) -> Result<Link, TaskError> {
    let (stream, way) = match place {
        Place::Tcp {
            name,
            address,
            port,
        } => {
            let tls = Connector::new(target.trust, roots)
                .and_then(|connector| connector.map(|it| it.for_host(name)).transpose())
                .map_err(|error| tls_fault(&error))?;
            let (stream, peer) = dial(address, *port, egress).await?;
            let way = Way {
                peer: Peer::Tcp(peer),
                tls,
            };
            (Stream::Left(stream), way)
        }
        Place::Unix { folder, port } => {
            let path = Path::new(folder).join(format!(".s.PGSQL.{port}"));
            let stream = socket(&path, folder, *port, egress).await?;
            let peer = Peer::Unix(path);
            (Stream::Right(stream), Way { peer, tls: None })
        }
    };
    let (client, driver) = log_in(stream, way.tls.clone(), &target.login)
        .await
        .map_err(|error| fault::of_login(&shown(place), &error))?;
    Ok(Link {
        client,
        driver,
        way,
        busy: true,
        since: Instant::now(),
    })
}

async fn log_in(
    stream: Stream,
    tls: Option<Tls>,
    login: &Login,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
    async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    }
    if let Some(tls) = tls {
        let (client, connection) = login.connect_raw(stream, tls).await?;
        return Ok((client, tokio::spawn(drive(connection))));
    }
    // A socket of this machine needs no encryption, whatever the task asks for.
    let mut plain = login.clone();
    plain.ssl_mode(SslMode::Disable);
    let (client, connection) = plain.connect_raw(stream, NoTls).await?;
    Ok((client, tokio::spawn(drive(connection))))
}

async fn cancel(token: &CancelToken, way: &Way) {
    let stream = match &way.peer {
        Peer::Tcp(address) => TcpStream::connect(address).await.map(Stream::Left),
        Peer::Unix(path) => UnixStream::connect(path).await.map(Stream::Right),
    };
    let Ok(stream) = stream else { return };
    let sent = match &way.tls {
        Some(tls) => token.cancel_query_raw(stream, tls.clone()).await,
        None => token.cancel_query_raw(stream, NoTls).await,
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "a cancel request failed");
    }
}

/// Connects to an address that was checked.
async fn dial(
    host: &str,
    port: u16,
    egress: &EgressPolicy,
) -> Result<(TcpStream, SocketAddr), TaskError> {
    let addresses = egress.resolve(host, port).await.map_err(|error| {
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
                // Statements and their answers are small; waiting to fill a packet helps nobody.
                stream.set_nodelay(true).ok();
                return Ok((stream, address));
            }
            Err(error) => failure = error,
        }
    }
    Err(unreachable(&format!("{host}:{port}"), &failure))
}

/// Connects to a socket of this machine, which is no public address.
async fn socket(
    path: &Path,
    folder: &str,
    port: u16,
    egress: &EgressPolicy,
) -> Result<UnixStream, TaskError> {
    if !egress.names(folder, port) {
        let message = format!(
            "'{folder}' is a socket of the worker's machine, and the operator's rule for outbound \
             connections (NOETL_EGRESS_ALLOW) does not allow it"
        );
        return Err(TaskError::new(TaskErrorKind::Auth, message));
    }
    UnixStream::connect(path)
        .await
        .map_err(|error| unreachable(folder, &error))
}

fn unreachable(server: &str, error: &io::Error) -> TaskError {
    let message = format!("the server at {server} cannot be reached: {error}");
    TaskError::new(TaskErrorKind::DbConnection, message)
}

fn shown(place: &Place) -> String {
    match place {
        Place::Tcp { name, port, .. } => format!("the server at {name}:{port}"),
        Place::Unix { folder, .. } => format!("the server at {folder}"),
    }
}

/// Certificates in PEM, given as text or as a file.
async fn certificates(root: &str, settings: &Settings) -> Result<Vec<u8>, TaskError> {
    if root.trim_start().starts_with("-----BEGIN") {
        return Ok(root.as_bytes().to_vec());
    }
    roots::read(
        "file of certificates",
        Path::new(root),
        LARGEST_ROOTS,
        settings,
    )
    .await
}
