//! The whole way of a measurement, with counts that mean nothing: it runs, and the log bears it out.

use std::path::PathBuf;

use noetl_bench::{
    Choice, Metric, Progress, Scale, Shape, StoreKind, SystemResult, Workload, measure_system,
};

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
    w7_looks: 1,
};

async fn measured(store: StoreKind, shape: Shape) -> SystemResult {
    let choice = Choice {
        workloads: Workload::ALL.to_vec(),
        stores: vec![store],
        shapes: vec![shape.clone()],
        scale: TINY,
        rounds: 1,
        peers: None,
        progress: Progress::Silent,
    };
    measure_system(store, &shape, &choice).await
}

fn has(result: &SystemResult, metric: Metric) -> bool {
    let mut figures = result.measurements.iter().map(|it| &it.figures);
    figures.any(|figures| figures.get(&metric).is_some_and(|value| *value > 0.0))
}

/// Two starts, W5, W1, W3, W2, W4 with its two loops, W6 with its warm-up, and W7.
const RUNS: u64 = 2 + 2 + 4 + 3 + 9 + 3 + 2 + 3;

fn assert_complete(result: &SystemResult) {
    assert_eq!(result.error, None);
    assert_eq!(result.checked_runs, RUNS);
    for metric in [
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
    ] {
        assert!(has(result, metric), "{metric:?} is missing: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_on_sqlite() {
    let result = measured(StoreKind::Sqlite, Shape::Embedded).await;
    assert_complete(&result);
    assert_eq!(result.durability["journal_mode"], "wal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_on_postgres() {
    let result = measured(StoreKind::Postgres, Shape::Embedded).await;
    assert_complete(&result);
    assert_eq!(result.durability["fsync"], "on");
}

/// Needs the binary of the product beside this test's folder: `cargo build -p noetl-cli` first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the binary of the product, which Cargo does not build for this test"]
async fn processes_on_sqlite() {
    let here = std::env::current_exe().expect("the test has a path");
    let noetl: PathBuf = here
        .ancestors()
        .map(|folder| folder.join("noetl"))
        .find(|path| path.is_file())
        .expect("the binary of the product is built");
    let result = measured(StoreKind::Sqlite, Shape::Processes { noetl }).await;
    assert_complete(&result);
    assert!(has(&result, Metric::IdleServerMib), "{result:?}");
}
