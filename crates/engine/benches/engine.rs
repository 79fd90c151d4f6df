//! How fast the engine folds and decides.
//!
//! Run with `cargo bench -p noetl-engine`. Aims on one core: a million events folded per second, a
//! decision for a simple step in less than 5 microseconds, and the same for a loop of 10 and of
//! 100 000 iterations.

#![expect(clippy::expect_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use noetl_engine::replay::ReplayState;
use noetl_engine::{Event, ExecutionHeader, State, decode, encode};
use noetl_testkit::sim::Drive;
use noetl_types::record::EventRecord;
use noetl_types::{ExecutionId, OrganizationId, PlaybookPath, TenantId};

/// Ten steps in a row, each with a variable and a condition.
fn line() -> String {
    let mut body = "workload: { base: 1 }\nworkflow:\n".to_owned();
    for at in 0..10 {
        body.push_str(&format!(
            "  - step: s{at}\n    tool: {{ kind: noop, result: \"{{{{ ctx.n }}}} {{{{ base }}}}\" }}\n    set: {{ ctx.n: \"{{{{ output.index }}}}\" }}\n"
        ));
        if at < 9 {
            body.push_str(&format!(
                "    next: {{ arcs: [{{ step: s{}, when: \"{{{{ output.text != '' }}}}\" }}] }}\n",
                at + 1
            ));
        }
    }
    body
}

/// Two steps that lead to each other, for ever.
fn cycle() -> String {
    "executor: { spec: { policy: { limits: { max_step_runs: 10000000 } } } }\nworkflow:\n"
        .to_owned()
        + "  - { step: a, tool: { kind: noop, result: \"{{ ctx.n }}\" }, set: { ctx.n: \"{{ output.text }}\" }, next: { arcs: [{ step: b, when: \"{{ output.text != '' }}\" }] } }\n"
        + "  - { step: b, tool: { kind: noop, result: \"{{ a.text }}\" }, next: { arcs: [{ step: a }] } }\n"
}

fn fan_out(iterations: u32, width: u32) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

/// The whole log of a run.
fn log(body: &str) -> (Drive, Vec<Event>) {
    let (mut drive, mut events) = Drive::of(body);
    let plain = drive.clone();
    events.extend(drive.steps(usize::MAX));
    (plain, events)
}

fn header() -> ExecutionHeader {
    ExecutionHeader {
        execution_id: ExecutionId::new(1).expect("an id"),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        path: PlaybookPath::new("measured").expect("a path"),
    }
}

fn fold(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    for (name, body) in [("line", line()), ("loop of 1000", fan_out(1000, 32))] {
        let (drive, events) = log(&body);
        let header = header();
        let records: Vec<EventRecord> = events
            .iter()
            .map(|event| EventRecord {
                event: encode(event, &header),
                seq: event.seq,
                ingest_time: event.time,
                envelope_checksum: None,
            })
            .collect();
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function(format!("typed events of a {name}"), |b| {
            b.iter(|| {
                let mut state = State::new(drive.plan());
                for event in &events {
                    state.apply(drive.plan(), event).expect("a log folds");
                }
                black_box(state)
            });
        });
        group.bench_function(format!("records of a {name}"), |b| {
            b.iter(|| {
                let mut state = State::new(drive.plan());
                for record in &records {
                    let event = decode(record).expect("a record reads back");
                    state.apply(drive.plan(), &event).expect("a log folds");
                }
                black_box(state)
            });
        });
        group.bench_function(format!("replay of a {name}"), |b| {
            b.iter(|| {
                let mut state = ReplayState::new(
                    header.tenant_id.clone(),
                    header.organization_id.clone(),
                    header.execution_id,
                );
                for record in &records {
                    state.apply(record).expect("a log folds");
                }
                black_box(state)
            });
        });
        group.bench_function(format!("encoding a {name}"), |b| {
            b.iter(|| {
                for event in &events {
                    black_box(encode(event, &header));
                }
            });
        });
    }
    group.finish();
}

fn decide_line(c: &mut Criterion) {
    let (mut drive, _) = Drive::of(&line());
    drive.steps(3);
    c.bench_function("decide/simple step", |b| {
        let report = drive.next_report().expect("a report");
        let mut drive = drive.clone();
        b.iter(|| black_box(drive.decide(report.clone())));
    });
}

fn decide_loops(c: &mut Criterion) {
    for (iterations, width) in [(10, 5), (1000, 32), (100_000, 32), (100_000, 1000)] {
        let (mut drive, _) = Drive::of(&fan_out(iterations, width));
        drive.steps(iterations as usize / 2);
        c.bench_function(&format!("decide/loop of {iterations}, {width} open"), |b| {
            let report = drive.next_report().expect("a report");
            let mut drive = drive.clone();
            b.iter(|| black_box(drive.decide(report.clone())));
        });
    }
}

/// Reports one after the other, as a live run takes them.
fn take_reports(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide and commit");
    let bodies = [
        ("simple step", cycle()),
        ("loop of 1000, 32 open", fan_out(1000, 32)),
        ("loop of 1000000, 32 open", fan_out(1_000_000, 32)),
        ("loop of 1000000, 1000 open", fan_out(1_000_000, 1000)),
    ];
    for (name, body) in bodies {
        group.bench_function(name, |b| {
            let (mut drive, _) = Drive::of(&body);
            b.iter(|| {
                if drive.step().is_none() {
                    drive = Drive::of(&body).0;
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = fold, decide_line, decide_loops, take_reports
}
criterion_main!(benches);
