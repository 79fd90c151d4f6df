//! Several servers on one database.

use noetl_types::{EventType, Json};

use crate::house::{Caller, House};
use crate::logs::{count, sound};

const FAN: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 20, iterator: n, spec: {mode: parallel, max_in_flight: 20}}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";
const RUNS: usize = 30;

/// Two servers race over the same runs, since workers of both report to both.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_issue_nothing_twice() {
    let house = House::on_postgres();
    let servers = [house.server(), house.server()];
    let callers = servers.each_ref().map(Caller::of);
    callers[0].register("fan", FAN).await;
    let _workers = [
        house.worker(&servers[0], "w1"),
        house.worker(&servers[1], "w2"),
        house.worker(&servers[1], "w3"),
    ];
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let run = callers[number % 2].start("fan", Json::empty_map()).await;
        runs.push(run.expect("started"));
    }
    callers[0].completed(&runs).await;
    for run in runs {
        let log = sound(&house, run).await;
        assert_eq!(count(&log, EventType::CommandIssued), 22);
        assert_eq!(count(&log, EventType::CommandCompleted), 22);
        assert_eq!(count(&log, EventType::StepEnter), 3);
    }
}
