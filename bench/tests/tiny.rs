//! End-to-end measurement with minimal counts: it runs, and the log matches.
#![cfg(test)]

use std::path::PathBuf;

use noetl_bench::{
    MeasurementPlan, Metric, ProgressOutput, PublishingMode, StoreKind, SystemResult, SystemShape,
    Workload, WorkloadScale, measure_system,
};

use noetl_testkit::nats::{NatsMissing, NatsServer};

/// Minimal counts for which each figure exists.
const TINY_SCALE: WorkloadScale = WorkloadScale {
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

async fn measure_tiny(
    store: StoreKind,
    shape: SystemShape,
    publishing: PublishingMode,
) -> SystemResult {
    let plan = MeasurementPlan {
        workloads: Workload::ALL.to_vec(),
        stores: vec![store],
        shapes: vec![shape.clone()],
        publishing_modes: vec![publishing],
        scale: TINY_SCALE,
        rounds: 1,
        peers: None,
        peers_home: None,
        progress: ProgressOutput::Silent,
    };
    measure_system(store, &shape, publishing, &plan).await
}

/// Returns the reason if no NATS server is installed.
fn missing_broker() -> Option<String> {
    match NatsServer::start() {
        Err(missing @ NatsMissing::NotInstalled) => Some(missing.to_string()),
        Ok(_) | Err(_) => None,
    }
}

fn has_figure(result: &SystemResult, metric: Metric) -> bool {
    let mut figures = result.measurements.iter().map(|measurement| &measurement.figures);
    figures.any(|figures| figures.get(&metric).is_some_and(|value| *value > 0.0))
}

/// Two starts, W5, W1, W3, W2, W4 with its two loops, W6 with its warm-up, and W7.
const EXPECTED_RUNS: u64 = 2 + 2 + 4 + 3 + 9 + 3 + 2 + 3;

/// Logs that W7 writes itself if the store is in its process.
const WRITTEN_LOGS: u64 = 3;

/// Two starts, W1, W3, W2, W8, W9, W10, and W4 with its two loops.
const EXPECTED_PUBLISHING_RUNS: u64 = 2 + 4 + 3 + 9 + 3 + 1 + 1 + 3;

/// Runs whose events W10 counts if it can write published rows.
const COUNTED_RUNS: u64 = 1;

fn assert_has(result: &SystemResult, metrics: &[Metric]) {
    for metric in metrics {
        assert!(has_figure(result, *metric), "{metric:?} is missing: {result:?}");
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
    assert_complete(result, EXPECTED_RUNS + WRITTEN_LOGS);
    let metrics = [
        Metric::FoldEventsPerS,
        Metric::SteadyEventsPerS,
        Metric::SteadyEndLongMs,
        Metric::SteadyMiddleLongMs,
        Metric::SteadyFirstLongMs,
    ];
    assert_has(result, &metrics);
}

fn assert_publishing(result: &SystemResult, runs: u64) {
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
async fn measures_embedded_on_sqlite() {
    let result = measure_tiny(StoreKind::Sqlite, SystemShape::Embedded, PublishingMode::Off).await;
    assert_embedded(&result);
    assert_eq!(result.durability["journal_mode"], "wal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measures_embedded_on_postgres() {
    let result =
        measure_tiny(StoreKind::Postgres, SystemShape::Embedded, PublishingMode::Off).await;
    assert_embedded(&result);
    assert_eq!(result.durability["fsync"], "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measures_publishing_on_sqlite() {
    if let Some(missing) = missing_broker() {
        return println!("skipped: {missing}");
    }
    let result = measure_tiny(StoreKind::Sqlite, SystemShape::Embedded, PublishingMode::On).await;
    assert_publishing(&result, EXPECTED_PUBLISHING_RUNS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measures_publishing_on_postgres() {
    if let Some(missing) = missing_broker() {
        return println!("skipped: {missing}");
    }
    let result = measure_tiny(StoreKind::Postgres, SystemShape::Embedded, PublishingMode::On).await;
    assert_publishing(&result, EXPECTED_PUBLISHING_RUNS + COUNTED_RUNS);
    assert_has(&result, &[Metric::PendingP50Ms, Metric::PendingP99Ms]);
}

/// Needs the binary of the product in a parent folder of this test: run `cargo build -p noetl-cli`
/// first.
fn processes_shape() -> SystemShape {
    let test_binary = std::env::current_exe().unwrap();
    let noetl: PathBuf = test_binary
        .ancestors()
        .map(|folder| folder.join("noetl"))
        .find(|path| path.is_file())
        .unwrap();
    SystemShape::Processes { noetl }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the binary of the product, which Cargo does not build for this test"]
async fn measures_processes_on_sqlite() {
    let result = measure_tiny(StoreKind::Sqlite, processes_shape(), PublishingMode::Off).await;
    assert_complete(&result, EXPECTED_RUNS);
    assert_has(&result, &[Metric::IdleServerMib]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the binary of the product, which Cargo does not build for this test"]
async fn measures_publishing_processes_on_sqlite() {
    if let Some(missing) = missing_broker() {
        return println!("skipped: {missing}");
    }
    let result = measure_tiny(StoreKind::Sqlite, processes_shape(), PublishingMode::On).await;
    assert_publishing(&result, EXPECTED_PUBLISHING_RUNS);
}
