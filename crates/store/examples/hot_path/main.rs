//! Measures the calls of the hot path on a real PostgreSQL and on SQLite.
//!
//! `cargo run --release -p noetl-store --example hot_path [-- sqlite|postgres [config]]` prints one
//! line for each call: the 10th percentile, the median, the 99th percentile, and the counters of
//! the database. Without a config, a temporary PostgreSQL is started.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::expect_used, reason = "a failed measurement has no result")]

mod counters;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use noetl_store::{LogPageLimit, SnapshotKey};
use noetl_types::Text;
use tokio::task::JoinSet;
use tokio::time::Instant;

use counters::{DatabaseCounters, MeasuredBackend};
use workload::{TestExecution, lease_fence, lease_request, noon};

/// Calls before the first measured one.
const WARM_UP_CALLS: i64 = 100;
/// Measured calls of the sequential scenario.
const SEQUENTIAL_CALLS: i64 = 500;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let only = std::env::args().nth(1);
    for name in ["sqlite", "postgres"] {
        if only.as_deref().is_none_or(|only| only == name) {
            let backend = MeasuredBackend::open(name, std::env::args().nth(2)).await;
            println!("{name}");
            measure_backend(&backend).await;
        }
    }
}

async fn measure_backend(backend: &MeasuredBackend) {
    let mut executions = ExecutionSequence(0);
    measure_sequential(backend, &mut executions).await;
    for driver_count in [32, 256] {
        measure_concurrent(backend, &mut executions, driver_count).await;
    }
    measure_queue(backend, &mut executions).await;
    measure_load(backend, &mut executions).await;
}

/// Creates executions with increasing ids.
struct ExecutionSequence(i64);

impl ExecutionSequence {
    fn next(&mut self) -> TestExecution {
        self.0 += 1;
        TestExecution::new(self.0)
    }
}

/// Durations of the calls of one kind.
struct CallTimings {
    durations: Vec<Duration>,
    before: DatabaseCounters,
    started_at: Instant,
}

impl CallTimings {
    async fn new(backend: &MeasuredBackend) -> Self {
        Self {
            durations: Vec::new(),
            before: backend.read_counters().await,
            started_at: Instant::now(),
        }
    }

    async fn time_call<T>(&mut self, call: impl Future<Output = T>) -> T {
        let started_at = Instant::now();
        let result = call.await;
        self.durations.push(started_at.elapsed());
        result
    }

    async fn print_summary(mut self, backend: &MeasuredBackend, name: &str, items: usize) {
        let elapsed = self.started_at.elapsed().as_secs_f64();
        let counts = backend.read_counters().await.since(self.before);
        self.durations.sort_unstable();
        let percentile_ms = |share: usize| {
            let index =
                (self.durations.len() * share / 100).min(self.durations.len().saturating_sub(1));
            self.durations.get(index).map_or(0.0, Duration::as_secs_f64) * 1e3
        };
        let items = f64::from(u32::try_from(items).unwrap_or(u32::MAX));
        println!(
            "  {name:<34} {:>8.3} {:>8.3} {:>8.3} ms  {:>8.0}/s  {}",
            percentile_ms(10),
            percentile_ms(50),
            percentile_ms(99),
            items / elapsed,
            counts.format_per_item(items)
        );
    }
}

async fn measure_sequential(backend: &MeasuredBackend, executions: &mut ExecutionSequence) {
    let store = &*backend.store;
    for _ in 0..WARM_UP_CALLS {
        let mut run = executions.next();
        let append = run.start_request(true);
        run.append_to(store, append).await;
        let append = run.report_request();
        run.append_to(store, append).await;
    }
    let mut times = CallTimings::new(backend).await;
    let mut started = Vec::new();
    for _ in 0..SEQUENTIAL_CALLS {
        let mut run = executions.next();
        let append = run.start_request(true);
        times.time_call(run.append_to(store, append)).await;
        started.push(run);
    }
    let count = started.len();
    times.print_summary(backend, "start alone (3 events)", count).await;
    let mut times = CallTimings::new(backend).await;
    for run in &mut started {
        let append = run.report_request();
        times.time_call(run.append_to(store, append)).await;
    }
    times.print_summary(backend, "report alone (6 events)", count).await;
}

/// Measures many concurrent drivers, each with separate executions.
async fn measure_concurrent(
    backend: &MeasuredBackend,
    executions: &mut ExecutionSequence,
    driver_count: usize,
) {
    let rounds = 4_096 / driver_count;
    for kind in ["start", "report"] {
        let mut drivers = JoinSet::new();
        let times = CallTimings::new(backend).await;
        for _ in 0..driver_count {
            let store = Arc::clone(&backend.store);
            let mut own_executions: Vec<_> = (0..rounds).map(|_| executions.next()).collect();
            drivers.spawn(async move {
                let mut durations = Vec::new();
                let mut run = TestExecution::new(0);
                for (round, next) in own_executions.iter_mut().enumerate() {
                    let append = if kind == "start" || round == 0 {
                        run = next.clone();
                        run.start_request(true)
                    } else {
                        run.report_request()
                    };
                    let started_at = Instant::now();
                    run.append_to(&*store, append).await;
                    durations.push(started_at.elapsed());
                }
                durations
            });
        }
        let mut times = times;
        for durations in drivers.join_all().await {
            times.durations.extend(durations);
        }
        let name = format!("{driver_count} at once: {kind}");
        times.print_summary(backend, &name, driver_count * rounds).await;
    }
}

async fn measure_queue(backend: &MeasuredBackend, executions: &mut ExecutionSequence) {
    let store = &*backend.store;
    let mut appends = Vec::new();
    for _ in 0..3_000 {
        appends.push(executions.next().start_request(false));
    }
    while !appends.is_empty() {
        let rest = appends.split_off(appends.len().min(500));
        for answer in store.append_events(appends).await {
            answer.expect("accepted");
        }
        appends = rest;
    }
    let mut leased = Vec::new();
    for (max, calls) in [(1, 300_usize), (100, 20)] {
        let mut times = CallTimings::new(backend).await;
        for _ in 0..calls {
            leased.extend(
                times.time_call(store.lease_commands(lease_request(max))).await.expect("leased"),
            );
        }
        let name = format!("lease of {max}");
        times.print_summary(backend, &name, calls).await;
    }
    let fences: Vec<_> =
        leased.iter().map(|it| lease_fence(it.command.command_id, it.command.attempt)).collect();
    for size in [1, 100] {
        let mut times = CallTimings::new(backend).await;
        let mut calls = 0;
        for fences in fences.chunks(size).take(300) {
            let call = store.extend_leases(fences.to_vec(), noon());
            times.time_call(call).await.expect("extended");
            calls += 1;
        }
        let name = format!("extend {size}");
        times.print_summary(backend, &name, calls).await;
    }
}

async fn measure_load(backend: &MeasuredBackend, executions: &mut ExecutionSequence) {
    let store = &*backend.store;
    let key = SnapshotKey { kind: Text::from("engine_state"), fold_version: 1 };
    let mut ids = Vec::new();
    for _ in 0..50 {
        let mut run = executions.next();
        let append = run.start_request(true);
        run.append_to(store, append).await;
        for _ in 0..3 {
            let append = run.report_request();
            run.append_to(store, append).await;
        }
        ids.push(run.id);
    }
    let mut times = CallTimings::new(backend).await;
    for id in ids.iter().cycle().take(300) {
        let loaded = times.time_call(store.load_execution(*id, &key, LogPageLimit::MAX)).await;
        loaded.expect("loaded").expect("there");
    }
    times.print_summary(backend, "load of 21 events", 300).await;
    let mut times = CallTimings::new(backend).await;
    for id in ids.iter().cycle().take(300) {
        let found = times.time_call(store.find_execution(*id)).await;
        found.expect("read").expect("there");
    }
    times.print_summary(backend, "execution", 300).await;
}
