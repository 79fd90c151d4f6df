//! The broker is unavailable or has lost its data: runs are not affected, the reported lag is
//! correct, and no event is lost.

use std::time::Duration;

use noetl_api::client::ClientSettings;
use noetl_api::health::HealthStatus;
use noetl_api::stream::StreamStatus;
use noetl_api::{ApiError, Client};
use noetl_testkit::nats::NatsServer;
use noetl_types::{ExecutionId, Json};
use tokio::time::{Instant, MissedTickBehavior};

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::event_logs::open_store;
use crate::system::process::NoetlProcess;
use crate::system::raw_http;
use crate::system::storm::{
    COUNT_EVENTS, COUNT_UNENDED_RUNS, TWO_STEP_PLAYBOOK, connect_database, fetch_stream_status,
    query_count, wait_until_async,
};
use crate::system::stream_reader::{StreamReader, count_messages, expected_messages};

const COUNT_ENDED_RUNS: &str = "SELECT count(*) FROM noetl.execution WHERE ended";

/// Streaming server with a worker and a broker.
struct StreamingDeployment {
    nats: NatsServer,
    deployment: TestDeployment,
    server: NoetlProcess,
    _worker: NoetlProcess,
    database: tokio_postgres::Client,
}

impl StreamingDeployment {
    async fn new() -> Self {
        let nats = NatsServer::start().expect("a NATS server");
        // No other test writes to that cluster: an open transaction would hold back the end of the
        // log.
        let deployment =
            TestDeployment::on_dedicated_postgres().with_lease_secs(120).with_event_stream(&nats);
        let server = deployment.start_server();
        let worker = deployment.start_worker_with_args(&server, "w", &["--concurrency", "32"]);
        TestClient::connect(&server).register_playbook("two", TWO_STEP_PLAYBOOK).await;
        let database = connect_database(&deployment).await;
        Self { nats, deployment, server, _worker: worker, database }
    }

    fn server_url(&self) -> &str {
        self.server.url.as_deref().expect("a server")
    }

    /// Starts `runs` runs at a limited rate and waits for their ends. Returns the elapsed time.
    async fn complete_runs(&self, runs: usize, runs_per_second: u32) -> Result<Duration, ApiError> {
        let client = TestClient::connect(&self.server);
        let start = Instant::now();
        let mut pace = tokio::time::interval(Duration::from_secs(1) / runs_per_second);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut started: Vec<ExecutionId> = Vec::new();
        for _ in 0..runs {
            pace.tick().await;
            started.push(client.start("two", Json::empty_map()).await?);
        }
        wait_until_async("all runs end", || async {
            query_count(&self.database, COUNT_UNENDED_RUNS).await == 0
        })
        .await;
        client.assert_completed(&started[runs - 1..]).await;
        Ok(start.elapsed())
    }

    /// Waits until the broker has the whole log.
    async fn wait_until_caught_up(&self) {
        wait_until_async("nothing is left to publish", || async {
            fetch_stream_status(self.server_url())
                .await
                .is_some_and(|status| status.lag_events == 0)
        })
        .await;
    }

    /// Runs `noetl stream` against a server.
    fn stream_command(&self, subcommand: &str, url: &str) -> StreamStatus {
        let output =
            self.deployment.run_command(&["stream", subcommand, "--server", url, "-o", "json"]);
        serde_json::from_str(&output).expect("a stream status")
    }
}

/// Completes `runs` runs with the broker and then as many without it.
async fn check_outage(runs: usize, runs_per_second: u32) {
    let mut streaming = StreamingDeployment::new().await;
    let with_broker =
        streaming.complete_runs(runs, runs_per_second).await.expect("all runs complete");
    streaming.wait_until_caught_up().await;
    let before = query_count(&streaming.database, COUNT_EVENTS).await;
    assert_eq!(count_messages(&streaming.nats).await, before);

    streaming.nats.kill_server().expect("killed");
    let without_broker = streaming.complete_runs(runs, runs_per_second).await;
    let without_broker = without_broker.expect("runs are not affected");
    let after = query_count(&streaming.database, COUNT_EVENTS).await;
    let ended = query_count(&streaming.database, COUNT_ENDED_RUNS).await;
    assert_eq!(ended, 2 * u64::try_from(runs).expect("a count"));
    wait_until_async("the server reports the broker as unavailable", || async {
        fetch_stream_status(streaming.server_url())
            .await
            .is_some_and(|status| status.state == "failing")
    })
    .await;
    let status = streaming.stream_command("status", streaming.server_url());
    assert_eq!(status.lag_events, after - before, "{status:?}");
    assert!(status.lag_ms > 0 && !status.nats_connected, "{status:?}");
    let metrics = raw_http::get_text(streaming.server_url(), "/metrics").await;
    let lag = format!("noetl_event_stream_lag_events {}\n", after - before);
    assert!(metrics.contains(&lag), "{metrics}");
    assert!(metrics.contains("noetl_nats_up{} 0\n"), "{metrics}");
    let client = Client::new(streaming.server_url(), ClientSettings::default()).expect("a client");
    let ready = client.check_readiness().await.expect("it serves requests");
    assert_ne!(ready.status, HealthStatus::Failed, "{ready:?}");
    assert_ne!(ready.checks.get("stream"), Some(&HealthStatus::Ok), "{ready:?}");

    streaming.nats.restart_server().expect("started again");
    let start = Instant::now();
    streaming.wait_until_caught_up().await;
    println!(
        "{before} events in {with_broker:?} with the broker, {} in {without_broker:?} without, caught up in {:?}",
        after - before,
        start.elapsed()
    );
    assert_eq!(count_messages(&streaming.nats).await, after, "each event once");
    let status = streaming.stream_command("status", streaming.server_url());
    assert_eq!((status.lag_events, status.lag_ms), (0, 0), "{status:?}");
    wait_until_async("the server is ready", || async {
        let ready = client.check_readiness().await.expect("it serves requests");
        ready.checks.get("stream") == Some(&HealthStatus::Ok)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_outage_stops_no_run_and_lag_is_reported() {
    check_outage(200, 40).await;
}

/// An outage of one minute at 500 events per second.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn heavy_broker_outage_of_a_minute_stops_no_run() {
    check_outage(3000, 50).await;
}

/// The broker loses all data while runs are active.
#[tokio::test(flavor = "multi_thread")]
async fn stream_wiped_mid_run_is_rebuilt() {
    let mut streaming = StreamingDeployment::new().await;
    let reader = StreamReader::start(&streaming.nats).await;
    streaming.complete_runs(40, 1000).await.expect("all runs complete");
    streaming.wait_until_caught_up().await;
    let client = TestClient::connect(&streaming.server);
    for _ in 0..40 {
        let started = client.start("two", Json::empty_map()).await;
        started.expect("started");
    }
    streaming.nats.kill_server().expect("killed");
    streaming.nats.wipe_data().expect("wiped");
    streaming.nats.restart_server().expect("started again");
    streaming.complete_runs(40, 1000).await.expect("all runs complete");
    streaming.wait_until_caught_up().await;
    let events = query_count(&streaming.database, COUNT_EVENTS).await;
    wait_until_async("the broker has the whole log again", || async {
        count_messages(&streaming.nats).await >= events
    })
    .await;
    let status = streaming.stream_command("status", streaming.server_url());
    assert!(status.rebuilds >= 1, "{status:?}");
    let expected = expected_messages(&*open_store(&streaming.deployment).await).await;
    wait_until_async("the reader has received all", || {
        std::future::ready(reader.inbox().bodies.len() >= expected.len())
    })
    .await;
    reader.assert_received(&expected);
}
