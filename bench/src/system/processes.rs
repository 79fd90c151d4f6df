//! A server and a worker as separate processes, called over HTTP on the loopback address.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::catalog::RegisterRequest;
use noetl_api::client::BearerToken;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::OutboxClaimRequest;
use noetl_api::replay::{ReplayQuery, ReplayResponse};
use noetl_api::{Client, ClientSettings};
use noetl_store::Store;
use noetl_types::{ExecutionId, ExecutionStatus};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::child::ProductProcess;
use super::{ClaimedRow, SystemUnderTest, unwrap_last_handle};
use crate::broker::BenchBroker;
use crate::error::BenchError;
use crate::playbooks::{BenchPlaybook, one_step_playbook};
use crate::store_site::StoreSite;

/// Maximum time for a server to respond after its start.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Poll interval for a server that is not ready yet.
const START_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Poll interval for a run that takes longer than one call.
const RUN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Token of the internal API, which only this process can reach.
const INTERNAL_API_TOKEN: &str = "a-token-for-the-time-of-a-measurement";

/// The product as two processes.
pub(super) struct ProcessSystem {
    client: Client,
    /// Client with the token of the internal API.
    publisher: Client,
    server: ProductProcess,
    worker: ProductProcess,
}

impl ProcessSystem {
    pub(super) async fn start(
        noetl: &Path,
        site: &StoreSite,
        broker: Option<&BenchBroker>,
    ) -> Result<Self, BenchError> {
        let port = free_port()?;
        let url = format!("http://127.0.0.1:{port}");
        let client = new_client(&url, None)?;
        let publisher = new_client(&url, Some(BearerToken::new(INTERNAL_API_TOKEN)))?;
        let (store, variables) = site.server_store_config();
        let mut server = role_command(noetl, "server");
        server
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--store"])
            .arg(store)
            .env("NOETL_DEV", "true")
            .envs(variables)
            .envs(publishing_environment(broker));
        let mut server = ProductProcess::spawn_process("server", server, site.folder())?;
        let mut worker = role_command(noetl, "worker");
        worker.args(["--server", &url]);
        let worker = ProductProcess::spawn_process("worker", worker, site.folder())?;
        wait_until_ready(&client, &mut server).await?;
        Ok(Self { client, publisher, server, worker })
    }
}

fn new_client(url: &str, token: Option<BearerToken>) -> Result<Client, BenchError> {
    let settings = ClientSettings { token, ..ClientSettings::default() };
    Client::new(url, settings).map_err(|error| BenchError::Harness(error.to_string()))
}

/// Returns the environment that enables publishing. The stream starts at the beginning of the log.
fn publishing_environment(broker: Option<&BenchBroker>) -> Vec<(&'static str, String)> {
    broker.map_or_else(Vec::new, |broker| {
        vec![
            ("NOETL_NATS_URL", broker.url().to_owned()),
            ("NOETL_EVENT_STREAM_ENABLED", "true".to_owned()),
            ("NOETL_EVENT_STREAM_BACKFILL", "true".to_owned()),
            ("NOETL_INTERNAL_API_TOKEN", INTERNAL_API_TOKEN.to_owned()),
        ]
    })
}

/// Returns the command of a role. Only programs on this machine can call it, without a token.
fn role_command(noetl: &Path, role: &str) -> Command {
    let mut command = Command::new(noetl);
    command.arg(role).env("NOETL_DEV", "true").env("NOETL_LOG", "warn");
    command
}

/// Returns a port that is free at this moment.
fn free_port() -> Result<u16, BenchError> {
    let listener =
        TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io_error("no port is free"))?;
    let address = listener.local_addr();
    Ok(address.map_err(BenchError::io_error("no port is free"))?.port())
}

/// Waits until the server accepts a definition, which means that it can accept a run too.
async fn wait_until_ready(client: &Client, server: &mut ProductProcess) -> Result<(), BenchError> {
    let started = Instant::now();
    let request = register_request(&one_step_playbook()?);
    loop {
        server.check_running()?;
        match client.catalog_register(&request).await {
            Ok(_) => return Ok(()),
            Err(error) if started.elapsed() > START_TIMEOUT => {
                return Err(server.process_error(format!("does not respond: {error}")));
            }
            Err(_) => sleep(START_POLL_INTERVAL).await,
        }
    }
}

fn register_request(playbook: &BenchPlaybook) -> RegisterRequest {
    RegisterRequest { content: playbook.text.clone(), resource_type: None, dry_run: false }
}

#[async_trait]
impl SystemUnderTest for ProcessSystem {
    async fn register_playbook(&self, playbook: &BenchPlaybook) -> Result<(), BenchError> {
        self.client.catalog_register(&register_request(playbook)).await?;
        Ok(())
    }

    async fn execute_playbook(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError> {
        let response = self.client.execute_playbook(&request).await?;
        Ok((response.execution_id, response.outcome.map(|outcome| outcome.status)))
    }

    async fn wait_for_run(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionStatus>, BenchError> {
        let view = self.client.get_execution_status(execution_id).await?;
        if view.status.is_terminal() {
            return Ok(Some(view.status));
        }
        sleep(RUN_POLL_INTERVAL).await;
        Ok(None)
    }

    async fn replay_run(&self, query: &ReplayQuery) -> Result<ReplayResponse, BenchError> {
        Ok(self.client.replay_state(query).await?)
    }

    async fn claim_rows(&self, limit: u32) -> Result<Vec<ClaimedRow>, BenchError> {
        let request = OutboxClaimRequest { limit: Some(limit.into()) };
        let response = self.publisher.claim_outbox(&request).await?;
        Ok(ClaimedRow::from_response(&response))
    }

    async fn mark_rows(&self, rows: &[ClaimedRow]) -> Result<u64, BenchError> {
        let request = ClaimedRow::to_mark_request(rows);
        Ok(self.publisher.mark_published(&request).await?.marked)
    }

    async fn pending_row_count(&self) -> Result<u64, BenchError> {
        Ok(self.publisher.count_pending_outbox().await?.pending)
    }

    async fn stream_lag(&self) -> Result<u64, BenchError> {
        Ok(self.client.stream_status().await?.lag_events)
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        None
    }

    fn system_processes(&self) -> Vec<(&'static str, u32)> {
        vec![("server", self.server.pid()), ("worker", self.worker.pid())]
    }

    fn commit_count(&self) -> Option<u64> {
        None
    }

    async fn stop(self: Arc<Self>) -> Result<(), BenchError> {
        let system = unwrap_last_handle(self)?;
        // The worker deregisters from its server, so it is stopped first.
        let worker = system.worker.stop().await;
        let server = system.server.stop().await;
        worker.and(server)
    }
}
