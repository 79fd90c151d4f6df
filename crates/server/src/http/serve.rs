//! Accepts connections until shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use noetl_types::Millis;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::listener_kind::ListenerKind;
use super::middleware::RequestPipeline;
use super::middleware::authenticator::Authenticator;
use super::middleware::authenticator::ClientPeer;
use super::mtls::CertificateIdentities;
use super::routes::build_router;
use super::settings::HttpSettings;
use super::tls::ListenerTls;
use super::write_timeout::WriteTimeoutStream;
use crate::services::ControlPlane;

/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Size of the read buffer of a connection.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// Delay after a failed accept, for example when the process has no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Fixed response to connections beyond the maximum.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 271\r\n\r\n\
    {\"type\":\"urn:noetl:error:pool_saturated\",\"title\":\"Server is at capacity\",\"status\":503,\
    \"detail\":\"the server has reached its maximum number of connections; retry later\",\
    \"code\":\"pool_saturated\",\
    \"error\":\"the server has reached its maximum number of connections; retry later\"}";

/// Fixed response to a request without TLS, if the listener requires TLS.
const TLS_REQUIRED: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    connection: close\r\n\
    content-length: 47\r\n\r\n\
    this port requires TLS; use an https:// address";

/// Reason why the server cannot start listening.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines could connect without a token.
    #[error(
        "{0} can be reached from other machines, and NOETL_DEV accepts requests without a token: \
         listen on a loopback address such as 127.0.0.1, or turn NOETL_DEV off"
    )]
    DevModeExposed(SocketAddr),
    /// Tokens would be sent unencrypted.
    #[error(
        "{0} can be reached from other machines, and tokens would be sent unencrypted: \
         set NOETL_TLS_CERT and NOETL_TLS_KEY, or listen on a loopback address such as 127.0.0.1"
    )]
    Plaintext(SocketAddr),
    /// The address of the listener cannot be read.
    #[error("cannot read the address of the listener")]
    LocalAddress(#[source] io::Error),
}

/// The listening sockets of the server.
#[derive(Debug)]
pub struct HttpListeners {
    /// The public API.
    pub public: TcpListener,
    /// The internal API. If absent, the public listener serves it too.
    pub internal: Option<TcpListener>,
    /// Metrics, without authentication.
    pub metrics: Option<TcpListener>,
}

impl From<TcpListener> for HttpListeners {
    fn from(public: TcpListener) -> Self {
        Self { public, internal: None, metrics: None }
    }
}

/// Serves requests until `shutdown`, then drains the active ones.
///
/// Rejects a listener that other machines can reach if callers need no token, or if tokens and
/// responses would be sent unencrypted.
pub async fn serve_http(
    services: ControlPlane,
    listeners: impl Into<HttpListeners>,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let listeners = listeners.into();
    let public_kind = match listeners.internal {
        None => ListenerKind::All,
        Some(_) => ListenerKind::Public,
    };
    let listeners = [
        (public_kind, Some(listeners.public)),
        (ListenerKind::Internal, listeners.internal),
        (ListenerKind::Metrics, listeners.metrics),
    ];
    let present = |(kind, listener): (ListenerKind, Option<TcpListener>)| Some((kind, listener?));
    let listeners: Vec<(ListenerKind, TcpListener)> =
        listeners.into_iter().filter_map(present).collect();
    for (_, listener) in &listeners {
        let address = listener.local_addr().map_err(ServeError::LocalAddress)?;
        check_listen_address(address, &settings)?;
    }
    let servers = listeners.into_iter().map(|(kind, listener)| {
        HttpServer::new(&services, &settings, kind, &shutdown).accept_loop(listener)
    });
    join_all(servers).await;
    Ok(())
}

/// Serves the user who runs this process over a Unix socket until `shutdown`, then drains the active
/// requests. Other users are disconnected. No token is needed, and every scope is granted.
pub async fn serve_owner(
    services: ControlPlane,
    listener: UnixListener,
    settings: HttpSettings,
    shutdown: CancellationToken,
) {
    let server = HttpServer::new(&services, &settings, ListenerKind::All, &shutdown);
    server.accept_owner_loop(listener).await;
}

/// Rejects addresses that would expose the server.
fn check_listen_address(address: SocketAddr, settings: &HttpSettings) -> Result<(), ServeError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if settings.is_dev {
        return Err(ServeError::DevModeExposed(address));
    }
    if settings.tls.is_none() && !settings.unsafe_plaintext {
        return Err(ServeError::Plaintext(address));
    }
    Ok(())
}

struct HttpServer {
    pipeline: Arc<RequestPipeline>,
    connection_permits: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Closes connections after their current request.
    shutdown: CancellationToken,
    /// Closes connections immediately.
    force_close: CancellationToken,
    settings: HttpSettings,
}

impl HttpServer {
    fn new(
        services: &ControlPlane,
        settings: &HttpSettings,
        kind: ListenerKind,
        shutdown: &CancellationToken,
    ) -> Self {
        let authenticator = Authenticator::new(services.clone(), settings);
        let router = build_router(services.clone(), settings, kind, shutdown.clone());
        Self {
            pipeline: Arc::new(RequestPipeline::new(router, authenticator)),
            connection_permits: Arc::new(Semaphore::new(settings.max_connections)),
            tasks: TaskTracker::new(),
            shutdown: shutdown.clone(),
            force_close: CancellationToken::new(),
            settings: settings.clone(),
        }
    }

    async fn accept_loop(self, listener: TcpListener) {
        while let Some((stream, peer)) = self.accept_connection(&listener).await {
            match Arc::clone(&self.connection_permits).try_acquire_owned() {
                Ok(permit) => self.spawn_connection(stream, peer, permit),
                Err(_) => reject_connection(&stream),
            }
        }
        drop(listener);
        self.drain_connections().await;
    }

    /// Serves the connections of processes of the same user.
    async fn accept_owner_loop(self, listener: UnixListener) {
        let own_user = UnixStream::pair().and_then(|(stream, _)| stream.peer_cred());
        let own_user = own_user.map(|peer| peer.uid()).ok();
        while let Some(accepted) = self.shutdown.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, _)) => {
                    let user = stream.peer_cred().map(|peer| peer.uid()).ok();
                    if user.is_some() && user == own_user {
                        let connection = self.connection(ClientPeer::owner());
                        self.tasks.spawn(connection.serve_requests(stream));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        drop(listener);
        self.drain_connections().await;
    }

    /// Waits for active requests, at most as long as the drain timeout.
    async fn drain_connections(self) {
        self.tasks.close();
        let drain_timeout = to_duration(self.settings.drain_timeout);
        if tokio::time::timeout(drain_timeout, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "drain timeout: closing connections");
            self.force_close.cancel();
            self.tasks.wait().await;
        }
    }

    /// Waits for the next connection. Returns `None` on shutdown.
    async fn accept_connection(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(accepted) => return Some(accepted),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    fn connection(&self, peer: ClientPeer) -> ClientConnection {
        ClientConnection {
            pipeline: Arc::clone(&self.pipeline),
            peer,
            write_timeout: to_duration(self.settings.write_timeout),
            head_timeout: to_duration(self.settings.head_timeout),
            shutdown: self.shutdown.clone(),
            force_close: self.force_close.clone(),
        }
    }

    fn spawn_connection(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        // Responses are small and must not wait for more data to fill a packet.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY on a connection");
        }
        let connection = self.connection(peer.into());
        let acceptor = self.settings.tls.as_ref().map(ListenerTls::acceptor);
        let identities = self.settings.certificate_identities.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            match acceptor {
                None => connection.serve_requests(stream).await,
                Some(acceptor) => connection.serve_tls(&acceptor, &identities, stream).await,
            }
        });
    }
}

/// The connection of one client.
struct ClientConnection {
    pipeline: Arc<RequestPipeline>,
    peer: ClientPeer,
    write_timeout: Duration,
    head_timeout: Duration,
    shutdown: CancellationToken,
    force_close: CancellationToken,
}

impl ClientConnection {
    /// Performs the TLS handshake, then serves requests. A client that is slow in the handshake is
    /// disconnected after the timeout for request heads.
    async fn serve_tls(
        mut self,
        acceptor: &TlsAcceptor,
        identities: &CertificateIdentities,
        stream: TcpStream,
    ) {
        if self.is_plain_http(&stream).await {
            let written = stream.try_write(TLS_REQUIRED);
            tracing::debug!(answered = written.is_ok(), peer = %self.peer.address, "a client sent HTTP without TLS");
            return;
        }
        let handshake = tokio::time::timeout(self.head_timeout, acceptor.accept(stream));
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            () = self.shutdown.cancelled() => return,
        };
        match accepted {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                let leaf = chain.and_then(|chain| chain.first());
                self.peer.connection_identity = leaf.and_then(|leaf| identities.identity_of(leaf));
                self.serve_requests(stream).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, peer = %self.peer.address, "TLS handshake failed");
            }
            Err(_) => tracing::debug!(peer = %self.peer.address, "TLS handshake timed out"),
        }
    }

    /// True if the client sends a request without TLS. A TLS record never begins with a letter.
    async fn is_plain_http(&self, stream: &TcpStream) -> bool {
        let mut first = [0];
        let peeked = tokio::time::timeout(self.head_timeout, stream.peek(&mut first));
        let peeked = self.shutdown.run_until_cancelled(peeked).await;
        matches!(peeked, Some(Ok(Ok(1)))) && first[0].is_ascii_alphabetic()
    }

    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) {
        let Self { pipeline, peer, force_close, .. } = self;
        let address = peer.address;
        let service = service_fn(move |request: Request<Incoming>| {
            let (pipeline, peer) = (Arc::clone(&pipeline), peer.clone());
            async move {
                let response = pipeline.handle_request(&peer, request.map(Body::new)).await;
                Ok::<_, Infallible>(response)
            }
        });
        let stream = WriteTimeoutStream::new(stream, self.write_timeout);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(READ_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    result = connection.as_mut() => result,
                    () = force_close.cancelled() => return,
                }
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, peer = %address, "connection failed");
        }
    }
}

/// Writes the fixed response for too many connections, if the socket accepts it without waiting.
fn reject_connection(stream: &TcpStream) {
    let written = stream.try_write(TOO_MANY_CONNECTIONS);
    tracing::debug!(answered = written.is_ok(), "rejected a connection: too many connections");
}

fn to_duration(millis: Millis) -> Duration {
    Duration::from_millis(millis.as_ms())
}

#[cfg(test)]
mod tests;
