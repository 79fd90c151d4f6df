//! A server and a worker as processes of their own, called over HTTP on the loopback address.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::catalog::RegisterRequest;
use noetl_api::client::BearerToken;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::OutboxClaimRequest;
use noetl_api::replay::{ReplayAnswer, ReplayQuery};
use noetl_api::{Client, ClientSettings};
use noetl_store::Store;
use noetl_types::{ExecutionId, ExecutionStatus};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::child::Child;
use super::{Claimed, System, last_handle};
use crate::broker::Broker;
use crate::error::BenchError;
use crate::playbooks::{Playbook, one_step};
use crate::site::Site;

/// How long a server may take until it answers.
const START: Duration = Duration::from_mins(1);
/// The pause between two looks at a server that is not there yet.
const PAUSE: Duration = Duration::from_millis(2);
/// The pause between two looks at a run that outlasts a call.
const LOOK: Duration = Duration::from_millis(20);

/// The token of the internal API, which nobody but this process can reach.
const TOKEN: &str = "a-token-for-the-time-of-a-measurement";

/// The product as two processes.
pub(super) struct Processes {
    client: Client,
    /// Shows the token of the internal API.
    publisher: Client,
    server: Child,
    worker: Child,
}

impl Processes {
    pub(super) async fn start(
        noetl: &Path,
        site: &Site,
        broker: Option<&Broker>,
    ) -> Result<Self, BenchError> {
        let port = free_port()?;
        let url = format!("http://127.0.0.1:{port}");
        let caller = client(&url, None)?;
        let publisher = client(&url, Some(BearerToken::new(TOKEN)))?;
        let (store, variables) = site.server_store();
        let mut server = command(noetl, "server");
        server
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--store",
            ])
            .arg(store)
            .env("NOETL_DEV", "true")
            .envs(variables)
            .envs(outlets(broker));
        let mut server = Child::spawn("server", server, site.folder())?;
        let mut worker = command(noetl, "worker");
        worker.args(["--server", &url]);
        let worker = Child::spawn("worker", worker, site.folder())?;
        answers(&caller, &mut server).await?;
        Ok(Self {
            client: caller,
            publisher,
            server,
            worker,
        })
    }
}

fn client(url: &str, token: Option<BearerToken>) -> Result<Client, BenchError> {
    let settings = ClientSettings {
        token,
        ..ClientSettings::default()
    };
    Client::new(url, settings).map_err(|error| BenchError::Harness(error.to_string()))
}

/// The environment that turns the outlets on. The stream begins with the log.
fn outlets(broker: Option<&Broker>) -> Vec<(&'static str, String)> {
    broker.map_or_else(Vec::new, |broker| {
        vec![
            ("NOETL_NATS_URL", broker.url().to_owned()),
            ("NOETL_EVENT_STREAM_ENABLED", "true".to_owned()),
            ("NOETL_EVENT_STREAM_BACKFILL", "true".to_owned()),
            ("NOETL_INTERNAL_API_TOKEN", TOKEN.to_owned()),
        ]
    })
}

/// The command of a role. Only programs of this machine may call, and they need no token.
fn command(noetl: &Path, role: &str) -> Command {
    let mut command = Command::new(noetl);
    command
        .arg(role)
        .env("NOETL_DEV", "true")
        .env("NOETL_LOG", "warn");
    command
}

/// A port that nobody listens on at this moment.
fn free_port() -> Result<u16, BenchError> {
    let listener =
        TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io("no port is free"))?;
    let address = listener.local_addr();
    Ok(address.map_err(BenchError::io("no port is free"))?.port())
}

/// Waits until the server takes a definition, which is when it can take a run too.
async fn answers(client: &Client, server: &mut Child) -> Result<(), BenchError> {
    let began = Instant::now();
    let request = registration(&one_step()?);
    loop {
        server.still_runs()?;
        match client.catalog_register(&request).await {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > START => {
                return Err(server.trouble(format!("does not answer: {error}")));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn registration(playbook: &Playbook) -> RegisterRequest {
    RegisterRequest {
        content: playbook.text.clone(),
        resource_type: None,
        dry_run: false,
    }
}

#[async_trait]
impl System for Processes {
    async fn register(&self, playbook: &Playbook) -> Result<(), BenchError> {
        self.client
            .catalog_register(&registration(playbook))
            .await?;
        Ok(())
    }

    async fn execute(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError> {
        let answer = self.client.execute(&request).await?;
        Ok((answer.execution_id, answer.outcome.map(|it| it.status)))
    }

    async fn wait(&self, execution_id: ExecutionId) -> Result<Option<ExecutionStatus>, BenchError> {
        let view = self.client.status(execution_id).await?;
        if view.status.is_terminal() {
            return Ok(Some(view.status));
        }
        sleep(LOOK).await;
        Ok(None)
    }

    async fn replay(&self, query: &ReplayQuery) -> Result<ReplayAnswer, BenchError> {
        Ok(self.client.replay_state(query).await?)
    }

    async fn claim(&self, limit: u32) -> Result<Vec<Claimed>, BenchError> {
        let request = OutboxClaimRequest {
            limit: Some(limit.into()),
        };
        let answer = self.publisher.claim_outbox(&request).await?;
        Ok(Claimed::of(&answer))
    }

    async fn mark(&self, rows: &[Claimed]) -> Result<u64, BenchError> {
        let marks = Claimed::marks(rows);
        Ok(self.publisher.mark_published(&marks).await?.marked)
    }

    async fn pending(&self) -> Result<u64, BenchError> {
        Ok(self.publisher.outbox_pending().await?.pending)
    }

    async fn stream_lag(&self) -> Result<u64, BenchError> {
        Ok(self.client.stream_status().await?.lag_events)
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        None
    }

    fn processes(&self) -> Vec<(&'static str, u32)> {
        vec![("server", self.server.pid()), ("worker", self.worker.pid())]
    }

    fn commits(&self) -> Option<u64> {
        None
    }

    async fn stop(self: Arc<Self>) -> Result<(), BenchError> {
        let parts = last_handle(self)?;
        // The worker says goodbye to its server, so it goes first.
        let worker = parts.worker.stop().await;
        let server = parts.server.stop().await;
        worker.and(server)
    }
}
