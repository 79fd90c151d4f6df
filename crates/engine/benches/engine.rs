//! Speed of folds and decisions.
//!
//! Run with `cargo bench -p noetl-engine`. Targets on one core: a million events folded per second, and
//! a decision in less than 5 microseconds for a simple step, for a loop of 10 iterations and for a loop
//! of 100 000 iterations.

#![expect(clippy::expect_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use noetl_engine::replay::ReplayState;
use noetl_engine::{Event, ExecutionHeader, ExecutionState, decode_record, encode_event};
use noetl_testkit::sim::EngineDriver;
use noetl_types::record::EventRecord;
use noetl_types::{ExecutionId, OrganizationId, PlaybookPath, TenantId};

/// Ten steps in a row, each with a variable and a condition.
fn linear_playbook() -> String {
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

/// Two steps that lead to each other forever.
fn cycle_playbook() -> String {
    "executor: { spec: { policy: { limits: { max_step_runs: 10000000 } } } }\nworkflow:\n"
        .to_owned()
        + "  - { step: a, tool: { kind: noop, result: \"{{ ctx.n }}\" }, set: { ctx.n: \"{{ output.text }}\" }, next: { arcs: [{ step: b, when: \"{{ output.text != '' }}\" }] } }\n"
        + "  - { step: b, tool: { kind: noop, result: \"{{ a.text }}\" }, next: { arcs: [{ step: a }] } }\n"
}

fn fan_out_playbook(iterations: u32, width: u32) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

/// Runs a playbook. Returns the driver before the reports, and the whole log.
fn run_playbook(body: &str) -> (EngineDriver, Vec<Event>) {
    let (mut drive, mut events) = EngineDriver::start_body(body);
    let at_start = drive.clone();
    events.extend(drive.report_many(usize::MAX));
    (at_start, events)
}

fn execution_header() -> ExecutionHeader {
    ExecutionHeader {
        execution_id: ExecutionId::new(1).expect("an id"),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        path: PlaybookPath::new("measured").expect("a path"),
    }
}

fn fold_logs(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    for (name, body) in [("line", linear_playbook()), ("loop of 1000", fan_out_playbook(1000, 32))]
    {
        let (drive, events) = run_playbook(&body);
        let header = execution_header();
        let records: Vec<EventRecord> = events
            .iter()
            .map(|event| EventRecord {
                event: encode_event(event, &header),
                seq: event.seq,
                ingest_time: event.time,
                envelope_checksum: None,
            })
            .collect();
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function(format!("typed events of a {name}"), |b| {
            b.iter(|| {
                let mut state = ExecutionState::new(drive.plan());
                for event in &events {
                    state.apply(drive.plan(), event).expect("a log folds");
                }
                black_box(state)
            });
        });
        group.bench_function(format!("records of a {name}"), |b| {
            b.iter(|| {
                let mut state = ExecutionState::new(drive.plan());
                for record in &records {
                    let event = decode_record(record).expect("a record reads back");
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
                    black_box(encode_event(event, &header));
                }
            });
        });
    }
    group.finish();
}

fn decide_line(c: &mut Criterion) {
    let (mut drive, _) = EngineDriver::start_body(&linear_playbook());
    drive.report_many(3);
    c.bench_function("decide/simple step", |b| {
        let report = drive.next_report().expect("a report");
        let mut drive = drive.clone();
        b.iter(|| black_box(drive.decide(report.clone())));
    });
}

fn decide_loops(c: &mut Criterion) {
    for (iterations, width) in [(10, 5), (1000, 32), (100_000, 32), (100_000, 1000)] {
        let (mut drive, _) = EngineDriver::start_body(&fan_out_playbook(iterations, width));
        drive.report_many(iterations as usize / 2);
        c.bench_function(&format!("decide/loop of {iterations}, {width} open"), |b| {
            let report = drive.next_report().expect("a report");
            let mut drive = drive.clone();
            b.iter(|| black_box(drive.decide(report.clone())));
        });
    }
}

/// Submits reports one after the other, as in a live execution.
fn submit_reports(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide and commit");
    let bodies = [
        ("simple step", cycle_playbook()),
        ("loop of 1000, 32 open", fan_out_playbook(1000, 32)),
        ("loop of 1000000, 32 open", fan_out_playbook(1_000_000, 32)),
        ("loop of 1000000, 1000 open", fan_out_playbook(1_000_000, 1000)),
    ];
    for (name, body) in bodies {
        group.bench_function(name, |b| {
            let (mut drive, _) = EngineDriver::start_body(&body);
            b.iter(|| {
                if drive.report_next().is_none() {
                    drive = EngineDriver::start_body(&body).0;
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = fold_logs, decide_line, decide_loops, submit_reports
}
criterion_main!(benches);
