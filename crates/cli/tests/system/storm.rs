//! Somebody outside sees every event exactly once by the id of its message, while servers, the one
//! that publishes among them, and the broker are killed, and writers take their time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_api::stream::StreamStatus;
use noetl_testkit::nats::Nats;
use noetl_testkit::sim::SplitMix;
use noetl_types::{ExecutionId, Json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::house::{Caller, Ground, House};
use crate::logs::{sound, store};
use crate::outside::{Outside, expected};
use crate::process::Noetl;

/// Two steps, one after the other.
pub(crate) const TWO: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";

/// How long anything that ends at all may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(8);
const MOMENT: Duration = Duration::from_millis(50);

/// Who start runs at the same time.
const CALLERS: usize = 4;

/// What happens to the house.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A server and its worker are killed, and others take their place.
    KillServer,
    KillBroker,
    /// The broker comes back without anything that it had.
    WipeBroker,
    /// A writer has its place in the log, and commits seconds later.
    LateWriter,
    /// The one that publishes sleeps until another one publishes, and knows nothing of it.
    FreezePublisher,
}

const ACTS: &[Act] = &[
    Act::KillServer,
    Act::KillBroker,
    Act::LateWriter,
    Act::WipeBroker,
];

/// A server and who works for it.
struct Pair {
    server: Noetl,
    _worker: Noetl,
}

impl Pair {
    fn new(house: &House, number: usize) -> Self {
        let server = house.server();
        let name = format!("w{number}");
        let worker = house.worker_of_pool(&server, &name, &["--concurrency", "16"]);
        Self {
            server,
            _worker: worker,
        }
    }

    fn url(&self) -> String {
        self.server.url.clone().expect("a server")
    }
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(MOMENT).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    assert!(found.is_ok(), "{what}: it never came to be");
}

pub(crate) async fn database(house: &House) -> tokio_postgres::Client {
    let Ground::Postgres(database) = &house.ground else {
        panic!("a house on PostgreSQL")
    };
    let connected = tokio_postgres::connect(&database.config(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("a connection");
    tokio::spawn(connection);
    client
}

pub(crate) async fn count(client: &tokio_postgres::Client, sql: &str) -> u64 {
    let row = client.query_one(sql, &[]).await.expect("a number");
    u64::try_from(row.get::<_, i64>(0)).expect("a count")
}

pub(crate) const EVENTS: &str = "SELECT count(*) FROM noetl.event";
pub(crate) const UNENDED: &str = "SELECT count(*) FROM noetl.execution WHERE NOT ended";

/// One more event, of a run of its own that lies before all others.
const STRAGGLER: &str = "INSERT INTO noetl.event
    (execution_id, event_id, seq, event_type, status, tenant_id, organization_id, event_time,
     created_at, ingest_time, schema_version, chain)
    SELECT execution_id - 1, event_id - 1, 1, event_type, status, tenant_id, organization_id,
     event_time, created_at, ingest_time, schema_version, chain
    FROM noetl.event ORDER BY execution_id, seq LIMIT 1";

/// Where the stream stands, as one server sees it; nothing where that server is gone.
pub(crate) async fn status(url: &str) -> Option<StreamStatus> {
    let client = Client::new(url, ClientSettings::default()).expect("a client");
    client.stream_status().await.ok()
}

/// Starts so many runs one after the other, each at the next server.
async fn start_some(
    runs: usize,
    urls: &Mutex<Vec<String>>,
    started: &AtomicUsize,
) -> Vec<ExecutionId> {
    let mut promised = Vec::new();
    let mut known: BTreeMap<String, Caller> = BTreeMap::new();
    while promised.len() < runs {
        let url = {
            let urls = urls.lock().unwrap_or_else(PoisonError::into_inner);
            urls[promised.len() % urls.len()].clone()
        };
        let caller = known.entry(url).or_insert_with_key(|url| {
            Caller(Client::new(url, ClientSettings::default()).expect("a client"))
        });
        match caller.start("two", Json::empty_map()).await {
            Ok(run) => {
                promised.push(run);
                started.fetch_add(1, Ordering::Relaxed);
            }
            // It may be there or not; whoever comes next finds another server.
            Err(_) => tokio::time::sleep(MOMENT).await,
        }
    }
    promised
}

/// A house in a storm.
struct Storm {
    house: House,
    nats: Nats,
    pairs: Vec<Pair>,
    /// Where servers are now.
    urls: Arc<Mutex<Vec<String>>>,
    started: Arc<AtomicUsize>,
    chance: SplitMix,
    late: JoinSet<()>,
    count: usize,
}

impl Storm {
    async fn new(seed: u64) -> Self {
        let nats = Nats::start().expect("a NATS server");
        let house = House::on_its_own_postgres().streaming_to(&nats);
        let pairs: Vec<Pair> = (0..2).map(|number| Pair::new(&house, number)).collect();
        Caller::of(&pairs[0].server).register("two", TWO).await;
        let urls = pairs.iter().map(Pair::url).collect();
        Self {
            house,
            nats,
            count: pairs.len(),
            pairs,
            urls: Arc::new(Mutex::new(urls)),
            started: Arc::default(),
            chance: SplitMix::new(seed),
            late: JoinSet::new(),
        }
    }

    /// Starts so many runs, at whichever server is there, some at a time; gives those that a server
    /// has promised.
    fn start_runs(&self, runs: usize) -> tokio::task::JoinHandle<Vec<ExecutionId>> {
        let mut callers = JoinSet::new();
        for at in 0..CALLERS {
            let share = runs / CALLERS + usize::from(at < runs % CALLERS);
            let (urls, started) = (Arc::clone(&self.urls), Arc::clone(&self.started));
            callers.spawn(async move { start_some(share, &urls, &started).await });
        }
        tokio::spawn(async move { callers.join_all().await.concat() })
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::KillServer => {
                let at = self.chance.below(self.pairs.len());
                self.count += 1;
                let fresh = Pair::new(&self.house, self.count);
                let url = fresh.url();
                drop(std::mem::replace(&mut self.pairs[at], fresh));
                self.urls.lock().unwrap_or_else(PoisonError::into_inner)[at] = url;
            }
            Act::KillBroker => {
                self.nats.kill().expect("killed");
                let pause = self.chance.below(1500) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.nats.restart().expect("started again");
            }
            Act::WipeBroker => {
                self.nats.kill().expect("killed");
                self.nats.wipe().expect("wiped");
                self.nats.restart().expect("started again");
            }
            Act::LateWriter => {
                self.wait_for_late_writers().await;
                let writer = database(&self.house).await;
                let pause = Duration::from_millis(2000 + self.chance.below(2000) as u64);
                writer.batch_execute("BEGIN").await.expect("begun");
                writer.batch_execute(STRAGGLER).await.expect("written");
                self.late.spawn(async move {
                    tokio::time::sleep(pause).await;
                    writer.batch_execute("COMMIT").await.expect("committed");
                });
            }
            Act::FreezePublisher => self.freeze_publisher().await,
        }
    }

    async fn wait_for_late_writers(&mut self) {
        while let Some(late) = self.late.join_next().await {
            late.expect("committed");
        }
    }

    async fn freeze_publisher(&self) {
        let urls: Vec<String> = self.pairs.iter().map(Pair::url).collect();
        let publishes = |at: usize| {
            let url = urls[at].clone();
            async move {
                status(&url)
                    .await
                    .is_some_and(|it| it.state == "publishing")
            }
        };
        until("somebody publishes", || async {
            publishes(0).await || publishes(1).await
        })
        .await;
        let at = usize::from(!publishes(0).await);
        self.pairs[at].server.signal("STOP");
        until("another one publishes", || publishes(1 - at)).await;
        self.pairs[at].server.signal("CONT");
    }

    /// Waits until all runs have ended, and somebody outside has seen them to their end.
    async fn calms_down(&mut self, outside: &Outside) {
        self.wait_for_late_writers().await;
        let client = database(&self.house).await;
        until("all runs end", || async {
            count(&client, UNENDED).await == 0
        })
        .await;
        until("somebody outside has seen all", || async {
            let events = count(&client, EVENTS).await;
            u64::try_from(outside.inbox().bodies.len()).expect("a count") >= events
        })
        .await;
        let url = self.pairs[0].url();
        until("nothing is left to publish", || async {
            status(&url).await.is_some_and(|it| it.lag_events == 0)
        })
        .await;
    }
}

/// So many runs, and so many acts among them.
async fn storm(runs: usize, acts: usize, all_of_them: &[Act]) {
    let seed = std::env::var_os("STORM_SEED");
    let seed: u64 = seed.map_or(u64::from(std::process::id()), |it| {
        it.to_string_lossy().parse().expect("a number")
    });
    println!("STORM_SEED={seed}");
    let mut storm = Storm::new(seed).await;
    let outside = Outside::reading(&storm.nats).await;
    let begun = Instant::now();
    let starting = storm.start_runs(runs);
    for number in 1..=acts {
        let started = Arc::clone(&storm.started);
        until("runs are started", || {
            let is_so = started.load(Ordering::Relaxed) >= number * runs / (acts + 1);
            std::future::ready(is_so)
        })
        .await;
        // Each of them once at least, in the order of chance.
        let round = (number - 1) / all_of_them.len();
        let mut order: Vec<Act> = all_of_them.to_vec();
        let mut dice = SplitMix::new(seed.wrapping_add(round as u64));
        for at in (1..order.len()).rev() {
            order.swap(at, dice.below(at + 1));
        }
        let act = order[(number - 1) % order.len()];
        println!("after {} runs: {act:?}", number * runs / (acts + 1));
        storm.act(act).await;
    }
    let promised = starting.await.expect("all are started");
    storm.calms_down(&outside).await;
    let wanted = expected(&*store(&storm.house).await).await;
    let again = outside.inbox().again;
    println!(
        "{} events of {runs} runs in {:?}; {again} messages came again",
        wanted.len(),
        begun.elapsed()
    );
    outside.has_seen_all(&wanted);
    for run in &promised {
        assert!(wanted.contains_key(&format!("1:{run}:1")), "{run} is lost");
    }
    for run in promised.iter().step_by(promised.len().div_ceil(50)) {
        sound(&storm.house, *run).await;
    }
}

/// Promises 1, 6, 7 and 10.
#[tokio::test(flavor = "multi_thread")]
async fn t1_t6_t10_t13_somebody_outside_sees_every_event_once_in_a_storm() {
    storm(300, ACTS.len(), ACTS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten thousand runs take minutes"]
async fn heavy_t10_somebody_outside_sees_ten_thousand_runs_in_a_storm() {
    let mut acts = ACTS.to_vec();
    acts.push(Act::FreezePublisher);
    storm(10_000, 20, &acts).await;
}
