//! A way to the broker on which its answers can be held back: what it is told is counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_api::internal::ProjectRequest;
use noetl_server::{LinkSettings, NatsSettings, Runtime, Settings, StreamSettings};
use noetl_store::CopyScope;
use noetl_testkit::nats::Nats;
use noetl_types::Json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Stands between a server and its broker.
pub(crate) struct Hold {
    url: String,
    gate: Arc<Gate>,
}

struct Gate {
    is_held: watch::Sender<bool>,
    /// Bytes that the broker was told.
    told: AtomicUsize,
    /// How many of them are enough to hold its answers back.
    enough: AtomicUsize,
}

impl Hold {
    pub(crate) async fn before(nats: &Nats) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let broker = nats.url().trim_start_matches("nats://").to_owned();
        let gate = Arc::new(Gate {
            is_held: watch::Sender::new(false),
            told: AtomicUsize::new(0),
            enough: AtomicUsize::new(usize::MAX),
        });
        let of_task = Arc::clone(&gate);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(broker) = TcpStream::connect(&broker).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_broker, to_broker) = broker.into_split();
                tokio::spawn(pass(from_client, to_broker, Arc::clone(&of_task)));
                tokio::spawn(hold(from_broker, to_client, of_task.is_held.subscribe()));
            }
        });
        Self { url, gate }
    }

    /// Once the broker was told so many bytes from now on, it answers nobody; whatever it is told, it
    /// gets.
    pub(crate) fn begin_after(&self, bytes: usize) {
        self.gate.told.store(0, Ordering::Relaxed);
        self.gate.enough.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the broker was told since.
    pub(crate) fn told(&self) -> usize {
        self.gate.told.load(Ordering::Relaxed)
    }

    /// Everything that was held back arrives.
    pub(crate) fn end(&self) {
        self.gate.enough.store(usize::MAX, Ordering::Relaxed);
        self.gate.is_held.send_replace(false);
    }

    /// Settings of a server that streams this way.
    pub(crate) fn streaming_by(&self, stream: StreamSettings) -> Settings {
        let link = LinkSettings {
            url: self.url.clone(),
            name: "test".into(),
            ..LinkSettings::default()
        };
        Settings {
            nats: Some(NatsSettings {
                link,
                stream: Some(stream),
                ..NatsSettings::default()
            }),
            ..Settings::default()
        }
    }
}

/// Has events of so many bytes copied into the log, all of them at once.
pub(crate) async fn copy_large(runtime: &Runtime, count: i64, bytes: usize) {
    let event = |number: i64| {
        Json::object([
            ("execution_id", Json::from(3_000_000)),
            ("event_id", Json::from(3_000_000 + number)),
            ("event_type", Json::from("copied")),
            ("context", Json::from("x".repeat(bytes))),
        ])
    };
    let events = (1..=count).map(event).collect();
    let copied = runtime.project(ProjectRequest { events }, CopyScope::OfExecution);
    assert_eq!(Ok(copied.await.unwrap().projected), u64::try_from(count));
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, gate: Arc<Gate>) -> io::Result<()> {
    let mut some = vec![0; 1 << 16];
    loop {
        let bytes = from.read(&mut some).await?;
        if bytes == 0 {
            return to.shutdown().await;
        }
        let told = gate.told.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if told >= gate.enough.load(Ordering::Relaxed) {
            gate.is_held.send_replace(true);
        }
        to.write_all(&some[..bytes]).await?;
    }
}

async fn hold(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut some = vec![0; 1 << 16];
    loop {
        let bytes = from.read(&mut some).await?;
        if is_held.wait_for(|is_held| !is_held).await.is_err() || bytes == 0 {
            return to.shutdown().await;
        }
        to.write_all(&some[..bytes]).await?;
    }
}
