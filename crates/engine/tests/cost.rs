//! What a report costs, counted in allocations: the same in the first loop of ten and in the middle of
//! a hundred thousand iterations, however many of them are open.

use noetl_engine::State;
use noetl_testkit::sim::Drive;

fn fan_out(iterations: usize, width: usize) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

/// Allocations and bytes of a hundred reports, in the middle of a loop.
fn per_hundred(iterations: usize, width: usize) -> (u64, u64) {
    let (mut drive, _) = Drive::of(&fan_out(iterations, width));
    drive.steps(iterations / 2);
    let reports = (iterations / 5).clamp(2, 200);
    let used = allocation_counter::measure(|| {
        for _ in 0..reports {
            assert!(drive.step().is_some());
        }
    });
    let reports = reports as u64;
    (
        used.count_total * 100 / reports,
        used.bytes_total * 100 / reports,
    )
}

#[test]
fn a_report_costs_the_same_in_a_short_and_in_a_long_loop() {
    let sizes = [(10, 5), (1000, 32), (100_000, 32), (100_000, 1000)];
    let costs = sizes.map(|(iterations, width)| per_hundred(iterations, width));
    let (least_count, least_bytes) = costs[0];
    for ((iterations, width), (count, bytes)) in sizes.iter().zip(&costs) {
        let place = format!("{iterations} iterations, {width} open: {costs:?}");
        assert!(2 * count < 3 * least_count, "{place}");
        assert!(2 * bytes < 3 * least_bytes, "{place}");
    }
}

/// A copy of the state is what a decision begins with.
#[test]
fn a_copy_of_the_state_costs_next_to_nothing() {
    let (mut drive, _) = Drive::of(&fan_out(20_000, 1000));
    drive.steps(10_000);
    let used = allocation_counter::measure(|| drop(drive.state().clone()));
    assert_eq!(used.count_total, 0);
}

/// Folding a long log costs each event the same.
#[test]
fn an_event_costs_the_same_early_and_late_in_a_log() {
    let (mut drive, mut events) = Drive::of(&fan_out(20_000, 32));
    events.extend(drive.steps(20_000));
    let mut state = State::new(drive.plan());
    let (early, late) = (4000..8000, events.len() - 8000..events.len() - 4000);
    let mut fold = |from: usize, to: usize| {
        let used = allocation_counter::measure(|| {
            for event in &events[from..to] {
                state.apply(drive.plan(), event).unwrap();
            }
        });
        used.count_total
    };
    fold(0, early.start);
    let first = fold(early.start, early.end);
    fold(early.end, late.start);
    let last = fold(late.start, late.end);
    assert!(
        last <= first + first / 4,
        "{first} allocations early, {last} late"
    );
}
