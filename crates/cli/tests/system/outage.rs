//! The broker is away, or has lost everything: whoever writes does not notice, what is told of the lag
//! is true, and nothing is lost.

use std::time::Duration;

use noetl_api::client::ClientSettings;
use noetl_api::health::Health;
use noetl_api::stream::StreamStatus;
use noetl_api::{ApiError, Client};
use noetl_testkit::nats::Nats;
use noetl_types::{ExecutionId, Json};
use tokio::time::{Instant, MissedTickBehavior};

use crate::house::{Caller, House};
use crate::logs::store;
use crate::outside::{Outside, expected, messages};
use crate::process::Noetl;
use crate::storm::{EVENTS, TWO, UNENDED, count, database, status, until};
use crate::wire;

const ENDED: &str = "SELECT count(*) FROM noetl.execution WHERE ended";

/// A server that streams, who works for it, and the broker.
struct Street {
    nats: Nats,
    house: House,
    server: Noetl,
    _worker: Noetl,
    database: tokio_postgres::Client,
}

impl Street {
    async fn new() -> Self {
        let nats = Nats::start().expect("a NATS server");
        // Nobody else writes in that cluster, so that nobody holds back the end of the log.
        let house = House::on_its_own_postgres()
            .with_leases_of(120)
            .streaming_to(&nats);
        let server = house.server();
        let worker = house.worker_of_pool(&server, "w", &["--concurrency", "32"]);
        Caller::of(&server).register("two", TWO).await;
        let database = database(&house).await;
        Self {
            nats,
            house,
            server,
            _worker: worker,
            database,
        }
    }

    fn url(&self) -> &str {
        self.server.url.as_deref().expect("a server")
    }

    /// Starts so many runs, no more than so many in a second, and waits for their ends. Gives how long
    /// that took; whatever fails is an error.
    async fn complete(&self, runs: usize, in_a_second: u32) -> Result<Duration, ApiError> {
        let caller = Caller::of(&self.server);
        let begun = Instant::now();
        let mut pace = tokio::time::interval(Duration::from_secs(1) / in_a_second);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut all: Vec<ExecutionId> = Vec::new();
        for _ in 0..runs {
            pace.tick().await;
            all.push(caller.start("two", Json::empty_map()).await?);
        }
        until("all runs end", || async {
            count(&self.database, UNENDED).await == 0
        })
        .await;
        caller.completed(&all[runs - 1..]).await;
        Ok(begun.elapsed())
    }

    /// Waits until the broker has all of the log.
    async fn catches_up(&self) {
        until("nothing is left to publish", || async {
            status(self.url())
                .await
                .is_some_and(|it| it.lag_events == 0)
        })
        .await;
    }

    /// What `noetl stream` says of a server.
    fn stream(&self, verb: &str, url: &str) -> StreamStatus {
        let said = self
            .house
            .says(&["stream", verb, "--server", url, "-o", "json"]);
        serde_json::from_str(&said).expect("where the stream stands")
    }
}

/// The broker is away while so many runs go, as many as went while it was there.
async fn outage(runs: usize, in_a_second: u32) {
    let mut street = Street::new().await;
    let with = street
        .complete(runs, in_a_second)
        .await
        .expect("all of them");
    street.catches_up().await;
    let before = count(&street.database, EVENTS).await;
    assert_eq!(messages(&street.nats).await, before);

    street.nats.kill().expect("killed");
    let without = street.complete(runs, in_a_second).await;
    let without = without.expect("nobody who writes notices");
    let after = count(&street.database, EVENTS).await;
    let ended = count(&street.database, ENDED).await;
    assert_eq!(ended, 2 * u64::try_from(runs).expect("a count"));
    until("the server knows that the broker is away", || async {
        status(street.url())
            .await
            .is_some_and(|it| it.state == "troubled")
    })
    .await;
    let told = street.stream("status", street.url());
    assert_eq!(told.lag_events, after - before, "{told:?}");
    assert!(told.lag_ms > 0 && !told.nats_connected, "{told:?}");
    let metrics = wire::text(street.url(), "/metrics").await;
    let lag = format!("noetl_event_stream_lag_events {}\n", after - before);
    assert!(metrics.contains(&lag), "{metrics}");
    assert!(metrics.contains("noetl_nats_up{} 0\n"), "{metrics}");
    let client = Client::new(street.url(), ClientSettings::default()).expect("a client");
    let ready = client.readyz().await.expect("it serves requests");
    assert_ne!(ready.status, Health::Failed, "{ready:?}");
    assert_ne!(ready.checks.get("stream"), Some(&Health::Ok), "{ready:?}");

    street.nats.restart().expect("started again");
    let begun = Instant::now();
    street.catches_up().await;
    println!(
        "{before} events in {with:?} with the broker, {} in {without:?} without, caught up in {:?}",
        after - before,
        begun.elapsed()
    );
    assert_eq!(messages(&street.nats).await, after, "each of them once");
    let told = street.stream("status", street.url());
    assert_eq!((told.lag_events, told.lag_ms), (0, 0), "{told:?}");
    until("the server says that all is well", || async {
        let ready = client.readyz().await.expect("it serves requests");
        ready.checks.get("stream") == Some(&Health::Ok)
    })
    .await;
}

/// Promises 6 and 23.
#[tokio::test(flavor = "multi_thread")]
async fn t12_a_broker_that_is_away_stops_nobody_and_the_lag_is_told() {
    outage(200, 40).await;
}

/// A minute of five hundred events a second.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn heavy_t12_a_broker_that_is_away_for_a_minute_stops_nobody() {
    outage(3000, 50).await;
}

/// The broker loses everything while runs go.
#[tokio::test(flavor = "multi_thread")]
async fn t11_a_stream_that_is_wiped_in_mid_run_is_rebuilt() {
    let mut street = Street::new().await;
    let outside = Outside::reading(&street.nats).await;
    street.complete(40, 1000).await.expect("all of them");
    street.catches_up().await;
    let caller = Caller::of(&street.server);
    for _ in 0..40 {
        let started = caller.start("two", Json::empty_map()).await;
        started.expect("started");
    }
    street.nats.kill().expect("killed");
    street.nats.wipe().expect("wiped");
    street.nats.restart().expect("started again");
    street.complete(40, 1000).await.expect("all of them");
    street.catches_up().await;
    let events = count(&street.database, EVENTS).await;
    until("the broker has all of the log once more", || async {
        messages(&street.nats).await >= events
    })
    .await;
    let told = street.stream("status", street.url());
    assert!(told.rebuilds >= 1, "{told:?}");
    let wanted = expected(&*store(&street.house).await).await;
    until("somebody outside has seen all", || {
        std::future::ready(outside.inbox().bodies.len() >= wanted.len())
    })
    .await;
    outside.has_seen_all(&wanted);
}
