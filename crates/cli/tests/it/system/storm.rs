//! An external consumer sees every event exactly once by message id, while servers (including the
//! publishing one) and the broker are killed, and some writers commit late.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_api::stream::StreamStatus;
use noetl_testkit::nats::NatsServer;
use noetl_testkit::sim::SplitMix;
use noetl_types::{ExecutionId, Json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::system::deployment::{StoreBackend, TestClient, TestDeployment};
use crate::system::event_logs::{assert_log_valid, open_store};
use crate::system::process::NoetlProcess;
use crate::system::stream_reader::{StreamReader, expected_messages};

pub(crate) const TWO_STEP_PLAYBOOK: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";

/// Upper bound of any wait on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(8);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of clients that start runs concurrently.
const CLIENT_COUNT: usize = 4;

/// Fault that is injected into the deployment.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A server and its worker are killed and replaced.
    KillServer,
    KillBroker,
    /// The broker restarts without its data.
    WipeBroker,
    /// A writer has an early position in the log and commits seconds later.
    LateWriter,
    /// The publishing server is suspended until another one publishes, and is not informed of it.
    FreezePublisher,
}

const BASIC_FAULTS: &[Fault] =
    &[Fault::KillServer, Fault::KillBroker, Fault::LateWriter, Fault::WipeBroker];

/// Server with its worker.
struct ServerWithWorker {
    server: NoetlProcess,
    _worker: NoetlProcess,
}

impl ServerWithWorker {
    fn new(deployment: &TestDeployment, number: usize) -> Self {
        let server = deployment.start_server();
        let name = format!("w{number}");
        let worker = deployment.start_worker_with_args(&server, &name, &["--concurrency", "16"]);
        Self { server, _worker: worker }
    }

    fn server_url(&self) -> String {
        self.server.url.clone().expect("a server")
    }
}

/// Waits until an asynchronous condition is met.
pub(crate) async fn wait_until_async<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let result = tokio::time::timeout(WAIT_TIMEOUT, polling).await;
    assert!(result.is_ok(), "{what}: timed out");
}

pub(crate) async fn connect_database(deployment: &TestDeployment) -> tokio_postgres::Client {
    let StoreBackend::Postgres(database) = &deployment.backend else {
        panic!("a deployment on PostgreSQL")
    };
    let connected =
        tokio_postgres::connect(&database.connection_config(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("a connection");
    tokio::spawn(connection);
    client
}

pub(crate) async fn query_count(client: &tokio_postgres::Client, sql: &str) -> u64 {
    let row = client.query_one(sql, &[]).await.expect("a number");
    u64::try_from(row.get::<_, i64>(0)).expect("a count")
}

pub(crate) const COUNT_EVENTS: &str = "SELECT count(*) FROM noetl.event";
pub(crate) const COUNT_UNENDED_RUNS: &str = "SELECT count(*) FROM noetl.execution WHERE NOT ended";

/// Inserts an event of a new run that sorts before all other runs.
const INSERT_LATE_EVENT: &str = "INSERT INTO noetl.event
    (execution_id, event_id, seq, event_type, status, tenant_id, organization_id, event_time,
     created_at, ingest_time, schema_version, chain)
    SELECT execution_id - 1, event_id - 1, 1, event_type, status, tenant_id, organization_id,
     event_time, created_at, ingest_time, schema_version, chain
    FROM noetl.event ORDER BY execution_id, seq LIMIT 1";

/// Returns the stream status of one server, or `None` if that server is not reachable.
pub(crate) async fn fetch_stream_status(url: &str) -> Option<StreamStatus> {
    let client = Client::new(url, ClientSettings::default()).expect("a client");
    client.stream_status().await.ok()
}

/// Starts `runs` runs sequentially, each at the next server.
async fn start_share(
    runs: usize,
    urls: &Mutex<Vec<String>>,
    started: &AtomicUsize,
) -> Vec<ExecutionId> {
    let mut acknowledged = Vec::new();
    let mut clients: BTreeMap<String, TestClient> = BTreeMap::new();
    while acknowledged.len() < runs {
        let url = {
            let urls = urls.lock().unwrap_or_else(PoisonError::into_inner);
            urls[acknowledged.len() % urls.len()].clone()
        };
        let client = clients.entry(url).or_insert_with_key(|url| {
            TestClient(Client::new(url, ClientSettings::default()).expect("a client"))
        });
        match client.start("two", Json::empty_map()).await {
            Ok(run) => {
                acknowledged.push(run);
                started.fetch_add(1, Ordering::Relaxed);
            }
            // The run may or may not exist. The next attempt uses another server.
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
    acknowledged
}

/// Deployment into which faults are injected.
struct StormTest {
    deployment: TestDeployment,
    nats: NatsServer,
    pairs: Vec<ServerWithWorker>,
    /// Current addresses of the servers.
    urls: Arc<Mutex<Vec<String>>>,
    started: Arc<AtomicUsize>,
    rng: SplitMix,
    late_writers: JoinSet<()>,
    started_pairs: usize,
}

impl StormTest {
    async fn new(seed: u64) -> Self {
        let nats = NatsServer::start().expect("a NATS server");
        let deployment = TestDeployment::on_dedicated_postgres().with_event_stream(&nats);
        let pairs: Vec<ServerWithWorker> =
            (0..2).map(|number| ServerWithWorker::new(&deployment, number)).collect();
        TestClient::connect(&pairs[0].server).register_playbook("two", TWO_STEP_PLAYBOOK).await;
        let urls = pairs.iter().map(ServerWithWorker::server_url).collect();
        Self {
            deployment,
            nats,
            started_pairs: pairs.len(),
            pairs,
            urls: Arc::new(Mutex::new(urls)),
            started: Arc::default(),
            rng: SplitMix::new(seed),
            late_writers: JoinSet::new(),
        }
    }

    /// Starts `runs` runs concurrently at the available servers. Returns the acknowledged ones.
    fn start_runs(&self, runs: usize) -> tokio::task::JoinHandle<Vec<ExecutionId>> {
        let mut starters = JoinSet::new();
        for index in 0..CLIENT_COUNT {
            let share = runs / CLIENT_COUNT + usize::from(index < runs % CLIENT_COUNT);
            let (urls, started) = (Arc::clone(&self.urls), Arc::clone(&self.started));
            starters.spawn(async move { start_share(share, &urls, &started).await });
        }
        tokio::spawn(async move { starters.join_all().await.concat() })
    }

    async fn inject_fault(&mut self, fault: Fault) {
        match fault {
            Fault::KillServer => {
                let index = self.rng.number_below(self.pairs.len());
                self.started_pairs += 1;
                let replacement = ServerWithWorker::new(&self.deployment, self.started_pairs);
                let url = replacement.server_url();
                drop(std::mem::replace(&mut self.pairs[index], replacement));
                self.urls.lock().unwrap_or_else(PoisonError::into_inner)[index] = url;
            }
            Fault::KillBroker => {
                self.nats.kill_server().expect("killed");
                let pause = self.rng.number_below(1500) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.nats.restart_server().expect("started again");
            }
            Fault::WipeBroker => {
                self.nats.kill_server().expect("killed");
                self.nats.wipe_data().expect("wiped");
                self.nats.restart_server().expect("started again");
            }
            Fault::LateWriter => {
                self.wait_for_late_writers().await;
                let writer = connect_database(&self.deployment).await;
                let pause = Duration::from_millis(2000 + self.rng.number_below(2000) as u64);
                writer.batch_execute("BEGIN").await.expect("begun");
                writer.batch_execute(INSERT_LATE_EVENT).await.expect("written");
                self.late_writers.spawn(async move {
                    tokio::time::sleep(pause).await;
                    writer.batch_execute("COMMIT").await.expect("committed");
                });
            }
            Fault::FreezePublisher => self.freeze_publisher().await,
        }
    }

    async fn wait_for_late_writers(&mut self) {
        while let Some(result) = self.late_writers.join_next().await {
            result.expect("committed");
        }
    }

    async fn freeze_publisher(&self) {
        let urls: Vec<String> = self.pairs.iter().map(ServerWithWorker::server_url).collect();
        let publishes = |index: usize| {
            let url = urls[index].clone();
            async move {
                fetch_stream_status(&url).await.is_some_and(|status| status.state == "publishing")
            }
        };
        wait_until_async("a server publishes", || async {
            publishes(0).await || publishes(1).await
        })
        .await;
        let index = usize::from(!publishes(0).await);
        self.pairs[index].server.send_signal("STOP");
        wait_until_async("the other server publishes", || publishes(1 - index)).await;
        self.pairs[index].server.send_signal("CONT");
    }

    /// Waits until all runs have ended and the reader has received all their events.
    async fn wait_until_settled(&mut self, reader: &StreamReader) {
        self.wait_for_late_writers().await;
        let client = connect_database(&self.deployment).await;
        wait_until_async("all runs end", || async {
            query_count(&client, COUNT_UNENDED_RUNS).await == 0
        })
        .await;
        wait_until_async("the reader has received all", || async {
            let events = query_count(&client, COUNT_EVENTS).await;
            u64::try_from(reader.inbox().bodies.len()).expect("a count") >= events
        })
        .await;
        let url = self.pairs[0].server_url();
        wait_until_async("nothing is left to publish", || async {
            fetch_stream_status(&url).await.is_some_and(|status| status.lag_events == 0)
        })
        .await;
    }
}

/// Starts `runs` runs and injects `fault_count` faults between them.
async fn run_storm(runs: usize, fault_count: usize, faults: &[Fault]) {
    let seed = std::env::var_os("STORM_SEED");
    let seed: u64 = seed.map_or(u64::from(std::process::id()), |seed| {
        seed.to_string_lossy().parse().expect("a number")
    });
    println!("STORM_SEED={seed}");
    let mut storm = StormTest::new(seed).await;
    let reader = StreamReader::start(&storm.nats).await;
    let start = Instant::now();
    let starting = storm.start_runs(runs);
    for number in 1..=fault_count {
        let started = Arc::clone(&storm.started);
        wait_until_async("runs are started", || {
            let condition = started.load(Ordering::Relaxed) >= number * runs / (fault_count + 1);
            std::future::ready(condition)
        })
        .await;
        // Each kind of fault at least once per round, in random order.
        let round = (number - 1) / faults.len();
        let mut order: Vec<Fault> = faults.to_vec();
        let mut rng = SplitMix::new(seed.wrapping_add(round as u64));
        for index in (1..order.len()).rev() {
            order.swap(index, rng.number_below(index + 1));
        }
        let fault = order[(number - 1) % order.len()];
        println!("after {} runs: {fault:?}", number * runs / (fault_count + 1));
        storm.inject_fault(fault).await;
    }
    let acknowledged = starting.await.expect("all are started");
    storm.wait_until_settled(&reader).await;
    let expected = expected_messages(&*open_store(&storm.deployment).await).await;
    let duplicates = reader.inbox().duplicates;
    println!(
        "{} events of {runs} runs in {:?}; {duplicates} duplicate messages",
        expected.len(),
        start.elapsed()
    );
    reader.assert_received(&expected);
    for run in &acknowledged {
        assert!(expected.contains_key(&format!("1:{run}:1")), "{run} is lost");
    }
    for run in acknowledged.iter().step_by(acknowledged.len().div_ceil(50)) {
        assert_log_valid(&storm.deployment, *run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consumer_sees_every_event_once_in_storm() {
    run_storm(300, BASIC_FAULTS.len(), BASIC_FAULTS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten thousand runs take minutes"]
async fn heavy_consumer_sees_ten_thousand_runs_in_storm() {
    let mut faults = BASIC_FAULTS.to_vec();
    faults.push(Fault::FreezePublisher);
    run_storm(10_000, 20, &faults).await;
}
