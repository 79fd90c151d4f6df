//! Takes connections until it is told to stop.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::certified::CertifiedNames;
use super::door::Doorman;
use super::front::Front;
use super::part::Part;
use super::peer::Peer;
use super::routes::router;
use super::settings::HttpSettings;
use super::stall::Unstalled;
use super::tls::Tls;
use crate::runtime::Runtime;

/// Bytes of the head of a request.
const MAX_HEAD: usize = 16 << 10;
/// Bytes of a connection's buffer: what a body is read by.
const BUFFER: usize = 64 << 10;
/// How long to wait when no connection can be taken, such as when no file can be opened.
const BREATH: Duration = Duration::from_millis(50);

/// What a connection beyond the bound is told, without any work.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 225\r\n\r\n\
    {\"type\":\"urn:noetl:error:pool_saturated\",\"title\":\"Server is at capacity\",\"status\":503,\
    \"detail\":\"the server has as many connections as it takes\",\"code\":\"pool_saturated\",\
    \"error\":\"the server has as many connections as it takes\"}";

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines would be let in without a token.
    #[error(
        "{0} can be reached from other machines, and NOETL_DEV lets callers in without a token: \
         listen on a loopback address such as 127.0.0.1, or turn NOETL_DEV off"
    )]
    OpenToAll(SocketAddr),
    /// Tokens would travel for everybody to read.
    #[error(
        "{0} can be reached from other machines, and tokens would travel unencrypted: \
         set NOETL_TLS_CERT and NOETL_TLS_KEY, or listen on a loopback address such as 127.0.0.1"
    )]
    Plaintext(SocketAddr),
    /// The listener does not know its own address.
    #[error("the listener is not usable")]
    Listener(#[source] io::Error),
}

/// Where requests come in.
#[derive(Debug)]
pub struct Listeners {
    /// For everybody.
    pub public: TcpListener,
    /// For the internal API; without one it is among everything else.
    pub internal: Option<TcpListener>,
    /// For metrics, which need no token there.
    pub metrics: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(public: TcpListener) -> Self {
        Self {
            public,
            internal: None,
            metrics: None,
        }
    }
}

/// Answers requests until `shutdown`, then lets those under way end.
///
/// Refuses a listener that other machines can reach where callers need no token, or where tokens and
/// answers would travel unencrypted.
pub async fn serve(
    runtime: Runtime,
    listeners: impl Into<Listeners>,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let listeners = listeners.into();
    let rest = match listeners.internal {
        None => Part::All,
        Some(_) => Part::Public,
    };
    let parts = [
        (rest, Some(listeners.public)),
        (Part::Internal, listeners.internal),
        (Part::Metrics, listeners.metrics),
    ];
    let listening = |(part, listener): (Part, Option<TcpListener>)| Some((part, listener?));
    let parts: Vec<(Part, TcpListener)> = parts.into_iter().filter_map(listening).collect();
    for (_, listener) in &parts {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        check(address, &settings)?;
    }
    let servers = parts
        .into_iter()
        .map(|(part, listener)| Server::new(&runtime, &settings, part, &shutdown).run(listener));
    join_all(servers).await;
    Ok(())
}

/// Refuses what would leave a server open.
fn check(address: SocketAddr, settings: &HttpSettings) -> Result<(), ServeError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if settings.is_dev {
        return Err(ServeError::OpenToAll(address));
    }
    if settings.tls.is_none() && !settings.unsafe_plaintext {
        return Err(ServeError::Plaintext(address));
    }
    Ok(())
}

struct Server {
    front: Arc<Front>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Ends connections once their request is answered.
    shutdown: CancellationToken,
    /// Ends connections at once.
    cut: CancellationToken,
    settings: HttpSettings,
}

impl Server {
    fn new(
        runtime: &Runtime,
        settings: &HttpSettings,
        part: Part,
        shutdown: &CancellationToken,
    ) -> Self {
        let door = Doorman::new(runtime.clone(), settings);
        let router = router(runtime.clone(), settings, part, shutdown.clone());
        Self {
            front: Arc::new(Front::new(router, door)),
            room: Arc::new(Semaphore::new(settings.max_connections)),
            tasks: TaskTracker::new(),
            shutdown: shutdown.clone(),
            cut: CancellationToken::new(),
            settings: settings.clone(),
        }
    }

    async fn run(self, listener: TcpListener) {
        while let Some((stream, peer)) = self.next(&listener).await {
            match Arc::clone(&self.room).try_acquire_owned() {
                Ok(permit) => self.take(stream, peer, permit),
                Err(_) => turn_away(&stream),
            }
        }
        drop(listener);
        self.tasks.close();
        let drain = duration(self.settings.drain);
        if tokio::time::timeout(drain, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(open = self.tasks.len(), "connections are cut off");
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }

    /// The next connection; none once the server is to stop.
    async fn next(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(accepted) => return Some(accepted),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    fn take(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        // Answers are small and wanted at once; without it they only wait longer.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the delay of a connection cannot be turned off");
        }
        let talk = Talk {
            front: Arc::clone(&self.front),
            peer: peer.into(),
            write_timeout: duration(self.settings.write_timeout),
            head_timeout: duration(self.settings.head_timeout),
            shutdown: self.shutdown.clone(),
            cut: self.cut.clone(),
        };
        let acceptor = self.settings.tls.as_ref().map(Tls::acceptor);
        let names = self.settings.certified.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            match acceptor {
                None => talk.go_on(stream).await,
                Some(acceptor) => talk.go_on_encrypted(&acceptor, &names, stream).await,
            }
        });
    }
}

/// What goes on with one client.
struct Talk {
    front: Arc<Front>,
    peer: Peer,
    write_timeout: Duration,
    head_timeout: Duration,
    shutdown: CancellationToken,
    cut: CancellationToken,
}

impl Talk {
    /// Greets first. A client that is slow about it is given up like one that is slow with a head.
    async fn go_on_encrypted(
        mut self,
        acceptor: &TlsAcceptor,
        names: &CertifiedNames,
        stream: TcpStream,
    ) {
        let greeting = tokio::time::timeout(self.head_timeout, acceptor.accept(stream));
        let greeted = tokio::select! {
            greeted = greeting => greeted,
            () = self.shutdown.cancelled() => return,
        };
        match greeted {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates();
                let own = shown.and_then(|chain| chain.first());
                self.peer.certified = own.and_then(|own| names.identity(own));
                self.go_on(stream).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, peer = %self.peer.address, "no TLS came about");
            }
            Err(_) => tracing::debug!(peer = %self.peer.address, "no TLS came about in time"),
        }
    }

    async fn go_on<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) {
        let Self {
            front, peer, cut, ..
        } = self;
        let address = peer.address;
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, peer) = (Arc::clone(&front), peer.clone());
            async move {
                let answer = front.answer(&peer, request.map(Body::new)).await;
                Ok::<_, Infallible>(answer)
            }
        });
        let stream = Unstalled::new(stream, self.write_timeout);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_timeout)
            .max_header_size(MAX_HEAD)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = cut.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, peer = %address, "a connection broke");
        }
    }
}

/// Tells a connection that there is no room, if it takes the words at once.
fn turn_away(stream: &TcpStream) {
    let told = stream.try_write(FULL);
    tracing::debug!(is_told = told.is_ok(), "a connection was turned away");
}

fn duration(time: Millis) -> Duration {
    Duration::from_millis(time.as_ms())
}

#[cfg(test)]
mod tests {
    use noetl_api::Problem;

    use super::FULL;

    #[test]
    fn what_is_told_when_full_is_a_problem() {
        let text = str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.contains(&length), "{length}");
        let problem: Problem = serde_json::from_str(body).unwrap();
        let code = problem.known_code().unwrap();
        assert_eq!((code.status(), code.title()), (503, &*problem.title));
    }
}
