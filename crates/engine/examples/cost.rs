//! Cost of a report in the middle of a loop, measured in instructions.
//!
//! ```text
//! cargo build --release -p noetl-engine --example cost
//! valgrind --tool=callgrind --toggle-collect='*submit_reports*' target/release/examples/cost 100000 32
//! ```
//!
//! The arguments are the number of iterations and the number of open iterations. With 0 iterations,
//! two plain steps lead to each other forever. The total that callgrind reports is for 1000 reports.
//! It is the same for a thousand and for 100 000 iterations.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::hint::black_box;

use noetl_testkit::sim::EngineDriver;

const REPORTS: usize = 1000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut number = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (iterations, width) = (number(100_000), number(32));
    let body = if iterations == 0 { cycle_playbook() } else { fan_out_playbook(iterations, width) };
    let (mut drive, _) = EngineDriver::start_body(&body);
    drive.report_many(1 + iterations / 2);
    let events = submit_reports(&mut drive);
    println!(
        "{events} events of {REPORTS} reports in a loop of {iterations}, {width} open at once"
    );
}

/// Two steps that lead to each other forever.
fn cycle_playbook() -> String {
    "workflow:\n".to_owned()
        + "  - { step: a, tool: { kind: noop, result: \"{{ ctx.n }}\" }, set: { ctx.n: \"{{ output.text }}\" }, next: { arcs: [{ step: b, when: \"{{ output.text != '' }}\" }] } }\n"
        + "  - { step: b, tool: { kind: noop, result: \"{{ a.text }}\" }, next: { arcs: [{ step: a }] } }\n"
}

fn fan_out_playbook(iterations: usize, width: usize) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

#[inline(never)]
fn submit_reports(drive: &mut EngineDriver) -> usize {
    black_box(drive.report_many(REPORTS)).len()
}
