//! How long the calls of the hot path take, on a real PostgreSQL and on SQLite.
//!
//! `cargo run --release -p noetl-store --example hot_path [-- sqlite|postgres [config]]` prints one
//! line for each call: the best tenth, the median, the 99th percentile, and what the database
//! counted. Without a config, PostgreSQL is started for the occasion.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(
    clippy::expect_used,
    reason = "a measurement that fails has nothing to say"
)]

mod counters;
mod work;

use std::sync::Arc;
use std::time::Duration;

use noetl_store::{LogPage, SnapshotKey};
use noetl_types::Text;
use tokio::task::JoinSet;
use tokio::time::Instant;

use counters::{Backend, Counts};
use work::{Run, fence, lease_of, noon};

/// Calls that are made before one is measured.
const WARM_UP: i64 = 100;
/// Calls that are measured where they are made one after the other.
const ALONE: i64 = 500;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let only = std::env::args().nth(1);
    for name in ["sqlite", "postgres"] {
        if only.as_deref().is_none_or(|only| only == name) {
            let backend = Backend::open(name, std::env::args().nth(2)).await;
            println!("{name}");
            measure(&backend).await;
        }
    }
}

async fn measure(backend: &Backend) {
    let mut runs = Numbers(0);
    alone(backend, &mut runs).await;
    for racers in [32, 256] {
        together(backend, &mut runs, racers).await;
    }
    queue(backend, &mut runs).await;
    load(backend, &mut runs).await;
}

/// Makes runs, each with another id.
struct Numbers(i64);

impl Numbers {
    fn next(&mut self) -> Run {
        self.0 += 1;
        Run::new(self.0)
    }
}

/// What some calls of one kind took.
struct Times {
    taken: Vec<Duration>,
    before: Counts,
    began: Instant,
}

impl Times {
    async fn new(backend: &Backend) -> Self {
        Self {
            taken: Vec::new(),
            before: backend.counts().await,
            began: Instant::now(),
        }
    }

    async fn of<T>(&mut self, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = call.await;
        self.taken.push(began.elapsed());
        answer
    }

    async fn print(mut self, backend: &Backend, name: &str, items: usize) {
        let elapsed = self.began.elapsed().as_secs_f64();
        let counts = backend.counts().await.since(self.before);
        self.taken.sort_unstable();
        let at = |share: usize| {
            let place = (self.taken.len() * share / 100).min(self.taken.len().saturating_sub(1));
            self.taken.get(place).map_or(0.0, Duration::as_secs_f64) * 1e3
        };
        let items = f64::from(u32::try_from(items).unwrap_or(u32::MAX));
        println!(
            "  {name:<34} {:>8.3} {:>8.3} {:>8.3} ms  {:>8.0}/s  {}",
            at(10),
            at(50),
            at(99),
            items / elapsed,
            counts.per(items)
        );
    }
}

async fn alone(backend: &Backend, runs: &mut Numbers) {
    let store = &*backend.store;
    for _ in 0..WARM_UP {
        let mut run = runs.next();
        let append = run.start(true);
        run.write(store, append).await;
        let append = run.report();
        run.write(store, append).await;
    }
    let mut times = Times::new(backend).await;
    let mut started = Vec::new();
    for _ in 0..ALONE {
        let mut run = runs.next();
        let append = run.start(true);
        times.of(run.write(store, append)).await;
        started.push(run);
    }
    let count = started.len();
    times.print(backend, "start alone (3 events)", count).await;
    let mut times = Times::new(backend).await;
    for run in &mut started {
        let append = run.report();
        times.of(run.write(store, append)).await;
    }
    times.print(backend, "report alone (6 events)", count).await;
}

/// Many drivers at once, each with runs of its own.
async fn together(backend: &Backend, runs: &mut Numbers, racers: usize) {
    let rounds = 4_096 / racers;
    for kind in ["start", "report"] {
        let mut drivers = JoinSet::new();
        let times = Times::new(backend).await;
        for _ in 0..racers {
            let store = Arc::clone(&backend.store);
            let mut mine: Vec<_> = (0..rounds).map(|_| runs.next()).collect();
            drivers.spawn(async move {
                let mut taken = Vec::new();
                let mut run = Run::new(0);
                for (round, next) in mine.iter_mut().enumerate() {
                    let append = if kind == "start" || round == 0 {
                        run = next.clone();
                        run.start(true)
                    } else {
                        run.report()
                    };
                    let began = Instant::now();
                    run.write(&*store, append).await;
                    taken.push(began.elapsed());
                }
                taken
            });
        }
        let mut times = times;
        for taken in drivers.join_all().await {
            times.taken.extend(taken);
        }
        let name = format!("{racers} at once: {kind}");
        times.print(backend, &name, racers * rounds).await;
    }
}

async fn queue(backend: &Backend, runs: &mut Numbers) {
    let store = &*backend.store;
    let mut appends = Vec::new();
    for _ in 0..3_000 {
        appends.push(runs.next().start(false));
    }
    while !appends.is_empty() {
        let rest = appends.split_off(appends.len().min(500));
        for answer in store.append(appends).await {
            answer.expect("accepted");
        }
        appends = rest;
    }
    let mut leased = Vec::new();
    for (max, calls) in [(1, 300_usize), (100, 20)] {
        let mut times = Times::new(backend).await;
        for _ in 0..calls {
            leased.extend(times.of(store.lease(lease_of(max))).await.expect("leased"));
        }
        let name = format!("lease of {max}");
        times.print(backend, &name, calls).await;
    }
    let fences: Vec<_> = leased
        .iter()
        .map(|it| fence(it.command.command_id, it.command.attempt))
        .collect();
    for size in [1, 100] {
        let mut times = Times::new(backend).await;
        let mut calls = 0;
        for fences in fences.chunks(size).take(300) {
            let call = store.extend(fences.to_vec(), noon());
            times.of(call).await.expect("extended");
            calls += 1;
        }
        let name = format!("extend {size}");
        times.print(backend, &name, calls).await;
    }
}

async fn load(backend: &Backend, runs: &mut Numbers) {
    let store = &*backend.store;
    let key = SnapshotKey {
        kind: Text::from("engine_state"),
        fold_version: 1,
    };
    let mut cold = Vec::new();
    for _ in 0..50 {
        let mut run = runs.next();
        let append = run.start(true);
        run.write(store, append).await;
        for _ in 0..3 {
            let append = run.report();
            run.write(store, append).await;
        }
        cold.push(run.id);
    }
    let mut times = Times::new(backend).await;
    for id in cold.iter().cycle().take(300) {
        let loaded = times.of(store.load(*id, &key, LogPage::MAX)).await;
        loaded.expect("loaded").expect("there");
    }
    times.print(backend, "load of 21 events", 300).await;
    let mut times = Times::new(backend).await;
    for id in cold.iter().cycle().take(300) {
        let found = times.of(store.execution(*id)).await;
        found.expect("read").expect("there");
    }
    times.print(backend, "execution", 300).await;
}
