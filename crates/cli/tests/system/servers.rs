//! Several servers on one database.

use std::time::Duration;

use noetl_types::{EventType, Json};

use crate::house::{Caller, House};
use crate::logs::{count, sound};
use crate::process::Noetl;
use crate::wire;

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

/// What a server says of how it hears others; nothing where it never did.
async fn notify(server: &Noetl, what: &str) -> Option<u64> {
    let base = server.url.as_deref().expect("a server");
    let text = wire::text(base, "/metrics").await;
    let name = format!("noetl_notify_{what}");
    let said = text.lines().find_map(|line| line.strip_prefix(&name));
    said.map(|said| {
        said.trim_start_matches("{}")
            .trim()
            .parse()
            .expect("a number")
    })
}

/// Waits until servers say something of how they hear others.
async fn until(servers: &[Noetl; 2], what: &str, is_so: impl Fn(Option<u64>) -> bool) {
    let looking = async {
        for server in servers {
            while !is_so(notify(server, what).await) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let seen = tokio::time::timeout(Duration::from_mins(2), looking).await;
    assert!(seen.is_ok(), "{what}: it never came to be");
}

/// One that is alone tells nobody anything; two hear each other by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn servers_on_one_database_hear_each_other() {
    let house = House::on_postgres();
    let alone = house.server();
    let caller = Caller::of(&alone);
    caller.register("fan", FAN).await;
    let run = caller.start("fan", Json::empty_map()).await;
    let run = run.expect("started");
    assert_eq!(notify(&alone, "up").await, None);
    assert_eq!(notify(&alone, "sent_total").await, Some(0));
    let servers = [alone, house.server()];
    until(&servers, "up", |up| up == Some(1)).await;
    let _worker = house.worker(&servers[1], "w1");
    let another = caller.start("fan", Json::empty_map()).await;
    caller.completed(&[run, another.expect("started")]).await;
    let some = |count: Option<u64>| count.is_some_and(|count| count > 0);
    until(&servers, "sent_total", some).await;
    until(&servers, "received_total", some).await;
}
