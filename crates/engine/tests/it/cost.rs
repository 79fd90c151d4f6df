//! Cost of a report in allocations. It does not grow with the number of iterations, neither in
//! total nor in flight.

use noetl_engine::ExecutionState;
use noetl_testkit::sim::EngineDriver;

fn fan_out_playbook(iterations: usize, width: usize) -> String {
    format!(
        "workflow:\n  - step: each\n    loop: {{ in: {iterations}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}\n    tool: {{ kind: noop, result: \"{{{{ i }}}}\" }}\n"
    )
}

/// Allocations and bytes per hundred reports, measured in the middle of a loop.
fn cost_per_hundred_reports(iterations: usize, width: usize) -> (u64, u64) {
    let (mut drive, _) = EngineDriver::start_body(&fan_out_playbook(iterations, width));
    drive.report_many(iterations / 2);
    let reports = (iterations / 5).clamp(2, 200);
    let used = allocation_counter::measure(|| {
        for _ in 0..reports {
            assert!(drive.report_next().is_some());
        }
    });
    let reports = reports as u64;
    (used.count_total * 100 / reports, used.bytes_total * 100 / reports)
}

#[test]
fn report_cost_is_independent_of_loop_length() {
    let sizes = [(10, 5), (1000, 32), (100_000, 32), (100_000, 1000)];
    let costs = sizes.map(|(iterations, width)| cost_per_hundred_reports(iterations, width));
    let (least_count, least_bytes) = costs[0];
    for ((iterations, width), (count, bytes)) in sizes.iter().zip(&costs) {
        let label = format!("{iterations} iterations, {width} open: {costs:?}");
        assert!(2 * count < 3 * least_count, "{label}");
        assert!(2 * bytes < 3 * least_bytes, "{label}");
    }
}

/// Every decision begins with a copy of the state.
#[test]
fn state_copy_does_not_allocate() {
    let (mut drive, _) = EngineDriver::start_body(&fan_out_playbook(20_000, 1000));
    drive.report_many(10_000);
    let used = allocation_counter::measure(|| drop(drive.state().clone()));
    assert_eq!(used.count_total, 0);
}

#[test]
fn apply_cost_is_independent_of_log_length() {
    let (mut drive, mut events) = EngineDriver::start_body(&fan_out_playbook(20_000, 32));
    events.extend(drive.report_many(20_000));
    let mut state = ExecutionState::new(drive.plan());
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
    assert!(last <= first + first / 4, "{first} allocations early, {last} late");
}
