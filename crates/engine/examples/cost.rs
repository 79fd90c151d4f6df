//! What a report costs in the middle of a loop, to be counted in instructions.
//!
//! ```text
//! cargo build --release -p noetl-engine --example cost
//! valgrind --tool=callgrind --toggle-collect='*drive_on*' target/release/examples/cost 100000 32
//! ```
//!
//! The arguments are the iterations of the loop and how many of them are open at once; without
//! iterations, two plain steps lead to each other for ever. The total that callgrind reports is for
//! 1000 reports, and stays level from thousands to 100 000 iterations.

#![expect(clippy::print_stdout, reason = "an example tells what it has done")]

use std::hint::black_box;

use noetl_testkit::sim::Drive;

const REPORTS: usize = 1000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut number = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (iterations, width) = (number(100_000), number(32));
    let body = if iterations == 0 {
        cycle()
    } else {
        fan_out(iterations, width)
    };
    let (mut drive, _) = Drive::of(&body);
    drive.steps(1 + iterations / 2);
    let events = drive_on(&mut drive);
    println!(
        "{events} events of {REPORTS} reports in a loop of {iterations}, {width} open at once"
    );
}

/// Two steps that lead to each other, for ever.
fn cycle() -> String {
    "workflow:\n".to_owned()
        + "  - { step: a, tool: { kind: noop, result: \"{{ ctx.n }}\" }, set: { ctx.n: \"{{ output.text }}\" }, next: { arcs: [{ step: b, when: \"{{ output.text != '' }}\" }] } }\n"
        + "  - { step: b, tool: { kind: noop, result: \"{{ a.text }}\" }, next: { arcs: [{ step: a }] } }\n"
}

fn fan_out(iterations: usize, width: usize) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

#[inline(never)]
fn drive_on(drive: &mut Drive) -> usize {
    black_box(drive.steps(REPORTS)).len()
}
