//! The whole way of a measurement, with counts that mean nothing: it runs, and the log bears it out.
#![cfg(test)]

use std::path::PathBuf;

use noetl_bench::{
    Choice, Metric, Outlets, Progress, Scale, Shape, StoreKind, SystemResult, Workload,
    measure_system,
};

use noetl_testkit::nats::{Nats, NatsMissing};

/// Just enough that each figure exists.
const TINY: Scale = Scale {
    warm_up: 1,
    w1_runs: 3,
    w2_runs: 8,
    w2_clients: 4,
    w3_warm_up: 1,
    w3_runs: 2,
    w4_tasks: 20,
    w4_repeats: 1,
    loops: [30, 60],
    settle_s: 0,
    w5_runs: 2,
    w6_steps: 4,
    w6_starts: 1,
    w7_iterations: [5, 10, 20],
    w7_events: [10, 20, 1_200],
    w7_looks: 1,
    w8_runs: 2,
    w9_iterations: 20,
    w9_plain: 50,
    w10_rows: 100,
    w10_published: 50,
    w10_counts: 2,
};

async fn measured(store: StoreKind, shape: Shape, outlets: Outlets) -> SystemResult {
    let choice = Choice {
        workloads: Workload::ALL.to_vec(),
        stores: vec![store],
        shapes: vec![shape.clone()],
        outlets: vec![outlets],
        scale: TINY,
        rounds: 1,
        peers: None,
        peers_home: None,
        progress: Progress::Silent,
    };
    measure_system(store, &shape, outlets, &choice).await
}

/// Says why there can be no outlets, where there is no NATS server to try them with.
fn no_broker() -> Option<String> {
    match Nats::start() {
        Err(missing @ NatsMissing::NotInstalled) => Some(missing.to_string()),
        Ok(_) | Err(_) => None,
    }
}

fn has(result: &SystemResult, metric: Metric) -> bool {
    let mut figures = result.measurements.iter().map(|it| &it.figures);
    figures.any(|figures| figures.get(&metric).is_some_and(|value| *value > 0.0))
}

/// Two starts, W5, W1, W3, W2, W4 with its two loops, W6 with its warm-up, and W7.
const RUNS: u64 = 2 + 2 + 4 + 3 + 9 + 3 + 2 + 3;

/// Logs that W7 writes by itself, which it can where the store is in its process.
const WRITTEN: u64 = 3;

/// Two starts, W1, W3, W2, W8, W9, W10, and W4 with its two loops.
const RUNS_WITH_OUTLETS: u64 = 2 + 4 + 3 + 9 + 3 + 1 + 1 + 3;

/// Runs whose events W10 counts, which it does where it can write published rows.
const COUNTED: u64 = 1;

fn assert_has(result: &SystemResult, metrics: &[Metric]) {
    for metric in metrics {
        assert!(has(result, *metric), "{metric:?} is missing: {result:?}");
    }
}

fn assert_complete(result: &SystemResult, runs: u64) {
    assert_eq!(result.error, None);
    assert_eq!(result.checked_runs, runs);
    let metrics = [
        Metric::RunP50Ms,
        Metric::RunP99Ms,
        Metric::RunsPerS,
        Metric::SequenceP50Ms,
        Metric::FanOutS,
        Metric::ShortLoopUs,
        Metric::LongLoopUs,
        Metric::FirstStartS,
        Metric::SecondStartS,
        Metric::PythonStepsPerS,
        Metric::StepsPerInterpreter,
        Metric::ReplayEventsPerS,
        Metric::AsOfShortMs,
        Metric::AsOfMediumMs,
        Metric::AsOfLongMs,
        Metric::EndLongMs,
    ];
    assert_has(result, &metrics);
}

fn assert_embedded(result: &SystemResult) {
    assert_complete(result, RUNS + WRITTEN);
    let metrics = [
        Metric::FoldEventsPerS,
        Metric::SteadyEventsPerS,
        Metric::SteadyEndLongMs,
        Metric::SteadyMiddleLongMs,
        Metric::SteadyFirstLongMs,
    ];
    assert_has(result, &metrics);
}

fn assert_outlets(result: &SystemResult, runs: u64) {
    assert_eq!(result.error, None);
    assert_eq!(result.checked_runs, runs);
    let metrics = [
        Metric::RunP50Ms,
        Metric::LongLoopUs,
        Metric::ConsumerP50Ms,
        Metric::ConsumerP99Ms,
        Metric::PublishPerS,
        Metric::PlainPublishPerS,
        Metric::PublishShare,
        Metric::OutboxFewPerS,
        Metric::OutboxManyPerS,
    ];
    assert_has(result, &metrics);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_on_sqlite() {
    let result = measured(StoreKind::Sqlite, Shape::Embedded, Outlets::Off).await;
    assert_embedded(&result);
    assert_eq!(result.durability["journal_mode"], "wal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_on_postgres() {
    let result = measured(StoreKind::Postgres, Shape::Embedded, Outlets::Off).await;
    assert_embedded(&result);
    assert_eq!(result.durability["fsync"], "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outlets_on_sqlite() {
    if let Some(missing) = no_broker() {
        return println!("skipped: {missing}");
    }
    let result = measured(StoreKind::Sqlite, Shape::Embedded, Outlets::On).await;
    assert_outlets(&result, RUNS_WITH_OUTLETS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outlets_on_postgres() {
    if let Some(missing) = no_broker() {
        return println!("skipped: {missing}");
    }
    let result = measured(StoreKind::Postgres, Shape::Embedded, Outlets::On).await;
    assert_outlets(&result, RUNS_WITH_OUTLETS + COUNTED);
    assert_has(&result, &[Metric::PendingP50Ms, Metric::PendingP99Ms]);
}

/// Needs the binary of the product beside this test's folder: `cargo build -p noetl-cli` first.
fn processes() -> Shape {
    let here = std::env::current_exe().unwrap();
    let noetl: PathBuf = here
        .ancestors()
        .map(|folder| folder.join("noetl"))
        .find(|path| path.is_file())
        .unwrap();
    Shape::Processes { noetl }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the binary of the product, which Cargo does not build for this test"]
async fn processes_on_sqlite() {
    let result = measured(StoreKind::Sqlite, processes(), Outlets::Off).await;
    assert_complete(&result, RUNS);
    assert_has(&result, &[Metric::IdleServerMib]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the binary of the product, which Cargo does not build for this test"]
async fn outlets_of_processes_on_sqlite() {
    if let Some(missing) = no_broker() {
        return println!("skipped: {missing}");
    }
    let result = measured(StoreKind::Sqlite, processes(), Outlets::On).await;
    assert_outlets(&result, RUNS_WITH_OUTLETS);
}
