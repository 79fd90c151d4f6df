//! Rate of the verification of a database file, in events per second.
//!
//! `cargo run --release -p noetl-server --example verify_rate -- [runs] [events per run]`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::sync::Arc;

use noetl_server::verification::{OutsideAnchor, VerifyScope};
use noetl_server::{CallContext, ControlPlane, Settings, SystemClock};
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{ProjectionScope, SqliteStore, Store};
use noetl_types::Json;
use tokio::time::Instant;

/// Events that are written at a time.
const BATCH_EVENTS: i64 = 500;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<i64>().unwrap());
    let runs = args.next().unwrap_or(100);
    let events = args.next().unwrap_or(10_000);
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&SqliteOptions::new(folder.path().join("noetl.db"))).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let clock = Arc::new(SystemClock);
    let services = ControlPlane::open(store, clock, Settings::default()).await.unwrap();
    for run in 1..=runs {
        write_run(&services, 400_000_000_000_000_000 + run * 1_000_000, events).await;
    }
    services.anchors.write_anchors().await.unwrap();
    let started = Instant::now();
    let mut problems = Vec::new();
    let outside = OutsideAnchor::None;
    let report = services.verification.verify_store(VerifyScope::All, &outside, &mut problems);
    let counts = report.await.unwrap().counts;
    assert_eq!(problems, []);
    let elapsed = started.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = counts.events as f64 / elapsed.as_secs_f64();
    println!(
        "{} events of {} runs in {elapsed:.2?}: {rate:.0} events/s",
        counts.events, counts.executions
    );
}

async fn write_run(services: &ControlPlane, id: i64, events: i64) {
    let event = |number: i64| {
        let context = Json::object([
            ("rows", Json::list((0..20_i64).map(Json::from))),
            ("text", Json::from("a value of some length that a step produced")),
        ]);
        Json::object([
            ("execution_id", Json::from(id)),
            ("event_id", Json::from(id + number)),
            ("event_type", Json::from("step.enter")),
            ("node_name", Json::from("load")),
            ("context", context),
        ])
    };
    for first in (1..=events).step_by(usize::try_from(BATCH_EVENTS).unwrap()) {
        let last = (first + BATCH_EVENTS - 1).min(events);
        let request =
            noetl_api::internal::ProjectRequest::new((first..=last).map(event).collect::<Vec<_>>());
        let scope = ProjectionScope::ExecutionOwner;
        let projected =
            services.projection.project_events(CallContext::server(), request, scope).await;
        assert_eq!(i64::try_from(projected.unwrap().projected), Ok(last - first + 1));
    }
}
