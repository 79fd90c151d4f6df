//! A proxy in front of the broker that counts the forwarded bytes and can hold back the broker's
//! answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_api::internal::ProjectRequest;
use noetl_server::{
    CallContext, ControlPlane, NatsConnectionSettings, NatsSettings, Settings, StreamSettings,
};
use noetl_store::ProjectionScope;
use noetl_testkit::nats::NatsServer;
use noetl_types::Json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Proxy between a server and its broker.
pub(crate) struct BrokerProxy {
    url: String,
    state: Arc<ProxyState>,
}

struct ProxyState {
    answers_held: watch::Sender<bool>,
    /// Bytes forwarded to the broker.
    bytes_sent: AtomicUsize,
    /// Number of forwarded bytes after which answers are held back.
    hold_threshold: AtomicUsize,
}

impl BrokerProxy {
    pub(crate) async fn start_before(nats: &NatsServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let broker = nats.url().trim_start_matches("nats://").to_owned();
        let state = Arc::new(ProxyState {
            answers_held: watch::Sender::new(false),
            bytes_sent: AtomicUsize::new(0),
            hold_threshold: AtomicUsize::new(usize::MAX),
        });
        let task_state = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(broker) = TcpStream::connect(&broker).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_broker, to_broker) = broker.into_split();
                tokio::spawn(forward_to_broker(from_client, to_broker, Arc::clone(&task_state)));
                tokio::spawn(forward_unless_held(
                    from_broker,
                    to_client,
                    task_state.answers_held.subscribe(),
                ));
            }
        });
        Self { url, state }
    }

    /// Holds back all answers after this many more bytes. Requests are still forwarded.
    pub(crate) fn hold_after(&self, bytes: usize) {
        self.state.bytes_sent.store(0, Ordering::Relaxed);
        self.state.hold_threshold.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn forwarded_bytes(&self) -> usize {
        self.state.bytes_sent.load(Ordering::Relaxed)
    }

    /// Delivers everything that was held back.
    pub(crate) fn release(&self) {
        self.state.hold_threshold.store(usize::MAX, Ordering::Relaxed);
        self.state.answers_held.send_replace(false);
    }

    /// Settings of a server that streams through the proxy.
    pub(crate) fn streaming_settings(&self, stream: StreamSettings) -> Settings {
        let link = NatsConnectionSettings {
            url: self.url.clone(),
            name: "test".into(),
            ..NatsConnectionSettings::default()
        };
        Settings {
            nats: Some(NatsSettings { link, stream: Some(stream), ..NatsSettings::default() }),
            ..Settings::default()
        }
    }
}

/// Projects `count` events of `bytes` bytes into the log in one call.
pub(crate) async fn project_large_events(services: &ControlPlane, count: i64, bytes: usize) {
    let event = |number: i64| {
        Json::object([
            ("execution_id", Json::from(3_000_000)),
            ("event_id", Json::from(3_000_000 + number)),
            ("event_type", Json::from("copied")),
            ("context", Json::from("x".repeat(bytes))),
        ])
    };
    let events = (1..=count).map(event).collect();
    let projected = services.projection.project_events(
        CallContext::server(),
        ProjectRequest::new(events),
        ProjectionScope::ExecutionOwner,
    );
    assert_eq!(Ok(projected.await.unwrap().projected), u64::try_from(count));
}

async fn forward_to_broker(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: Arc<ProxyState>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = from.read(&mut buffer).await?;
        if bytes == 0 {
            return to.shutdown().await;
        }
        let bytes_sent = state.bytes_sent.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes_sent >= state.hold_threshold.load(Ordering::Relaxed) {
            state.answers_held.send_replace(true);
        }
        to.write_all(&buffer[..bytes]).await?;
    }
}

async fn forward_unless_held(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = from.read(&mut buffer).await?;
        if is_held.wait_for(|is_held| !is_held).await.is_err() || bytes == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..bytes]).await?;
    }
}
