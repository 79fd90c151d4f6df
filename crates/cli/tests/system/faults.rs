//! kill -9 across waits, children, loops and approvals.
//!
//! Servers come back at the address where they were, so that whoever knew them goes on. Every run has
//! to end as if nothing had happened, and what was answered once has to hold.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_api::execute::ExecuteRequest;
use noetl_types::{EventType, ExecutionId, Json};

use crate::constructs::most_inside;
use crate::house::{Caller, House, until};
use crate::logs::{count, sound};
use crate::process::Noetl;
use crate::town::{json, quoted, register};
use crate::wire::post;

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victims {
    Server,
    Worker,
    Both,
}

/// Runs at once.
const RUNS: usize = 3;
/// Calls of a run and its child.
const CALLS: usize = 12;

/// What is killed and started again.
struct Rig {
    house: House,
    server: Option<Noetl>,
    worker: Option<Noetl>,
    url: String,
    strikes: u32,
}

impl Rig {
    fn new(house: House) -> Self {
        let server = house.server();
        let worker = house.worker(&server, "w0");
        Self {
            url: server.url.clone().expect("a server"),
            server: Some(server),
            worker: Some(worker),
            house,
            strikes: 0,
        }
    }

    fn caller(&self) -> Caller {
        Caller::of(self.server.as_ref().expect("a server"))
    }

    /// Kills, and starts again.
    fn strike(&mut self, victims: Victims) {
        self.strikes += 1;
        if victims != Victims::Worker {
            drop(self.server.take());
        }
        if victims != Victims::Server {
            drop(self.worker.take());
        }
        let server = self
            .server
            .get_or_insert_with(|| self.house.server_at(&self.url));
        let name = format!("w{}", self.strikes);
        self.worker
            .get_or_insert_with(|| self.house.worker(server, &name));
    }

    async fn start(&self) -> Vec<ExecutionId> {
        let caller = self.caller();
        register(&caller, "faults/child").await;
        let path = register(&caller, "faults/everything").await;
        let witness = quoted(self.house.witness().display());
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let request = ExecuteRequest {
                path: Some(path.clone()),
                payload: Some(json(&format!(r#"{{"witness":{witness}}}"#))),
                ..ExecuteRequest::default()
            };
            let started = caller.0.execute(&request).await;
            runs.push(started.expect("started").execution_id);
        }
        runs
    }

    /// Decides and signals as soon as the run asks for it; both are answered.
    async fn answer(&self, run: ExecutionId) {
        let path = |verb: &str| format!("/api/executions/{run}/{verb}");
        let decision = json(r#"{"step":"ask","decision":"approve"}"#);
        let asking = async {
            loop {
                let decided = post(&self.url, &path("approve"), &decision).await;
                match decided.status {
                    200 => return,
                    // The step is not entered yet.
                    409 => tokio::time::sleep(Duration::from_millis(20)).await,
                    _ => panic!("{decided:?}"),
                }
            }
        };
        let asked = tokio::time::timeout(Duration::from_mins(1), asking).await;
        assert!(asked.is_ok(), "nobody is asked");
        let news = json(r#"{"name":"news","payload":"good"}"#);
        let sent = post(&self.url, &path("signal"), &news).await.ok();
        assert_eq!(sent.get("delivered"), Some(&Json::from(true)));
    }

    fn keys(&self) -> BTreeSet<String> {
        self.house.witnessed().into_iter().collect()
    }
}

async fn struck(house: House, victims: Victims) {
    let mut rig = Rig::new(house);
    let runs = rig.start().await;
    until("work is under way", || rig.keys().len() >= RUNS * 2).await;
    rig.strike(victims);
    // What is answered for holds, even if it is killed right after.
    rig.answer(runs[0]).await;
    rig.strike(victims);
    // All that is left to do waits for people and news.
    until("only waits are left", || {
        rig.keys().len() >= RUNS * (CALLS - 1)
    })
    .await;
    rig.strike(victims);
    rig.answer(runs[1]).await;
    rig.answer(runs[2]).await;
    rig.strike(victims);
    rig.caller().completed(&runs).await;
    all_is_well(rig, &runs).await;
}

async fn all_is_well(mut rig: Rig, runs: &[ExecutionId]) {
    let expected = json(r#"{"many":6,"child":"done","by":true,"news":"good"}"#);
    let caller = rig.caller();
    let mut logs = Vec::new();
    for run in runs {
        let result = caller.status(*run).await.result.expect("a result");
        assert_eq!(result.get("told"), Some(&expected));
        logs.push(*run);
        let query = noetl_api::query::ExecutionsQuery {
            parent: Some(*run),
            ..noetl_api::query::ExecutionsQuery::default()
        };
        let children = caller.0.executions(&query).await.expect("a list");
        assert_eq!(children.executions.len(), 1, "one child");
        logs.push(children.executions[0].execution_id);
    }
    drop((rig.server.take(), rig.worker.take()));
    for run in logs {
        let log = sound(&rig.house, run).await;
        assert_eq!(count(&log, EventType::PlaybookCompleted), 1);
    }
    assert_eq!(rig.keys().len(), RUNS * CALLS, "one key for each call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_again_and_again_on_sqlite() {
    struck(House::on_sqlite(), Victims::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_again_and_again_on_postgres() {
    struck(House::on_postgres(), Victims::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_die_again_and_again_on_sqlite() {
    struck(House::on_sqlite(), Victims::Worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_die_again_and_again_on_postgres() {
    struck(House::on_postgres(), Victims::Worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_die_again_and_again_on_sqlite() {
    struck(House::on_sqlite(), Victims::Both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_die_again_and_again_on_postgres() {
    struck(House::on_postgres(), Victims::Both).await;
}

/// Runs wait for each other in a narrow place while their server dies.
async fn narrow(house: House) {
    const WAITING: usize = 12;
    let mut rig = Rig::new(house);
    let path = register(&rig.caller(), "constructs/concurrency").await;
    let witness = quoted(rig.house.witness().display());
    let mut runs = Vec::new();
    for _ in 0..WAITING {
        let request = ExecuteRequest {
            path: Some(path.clone()),
            payload: Some(json(&format!(r#"{{"witness":{witness}}}"#))),
            ..ExecuteRequest::default()
        };
        let started = rig.caller().0.execute(&request).await;
        runs.push(started.expect("started").execution_id);
    }
    for lines in [3, 11] {
        until("some have been inside", || {
            rig.house.witnessed().len() >= lines
        })
        .await;
        rig.strike(Victims::Server);
    }
    rig.caller().completed(&runs).await;
    drop((rig.server.take(), rig.worker.take()));
    let lines = rig.house.witnessed();
    assert_eq!(lines.len(), 2 * WAITING, "each was inside once");
    let most = most_inside(&lines);
    assert!((1..=2).contains(&most), "{most} at once");
    for run in runs {
        sound(&rig.house, run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_outlive_their_server_on_sqlite() {
    narrow(House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_outlive_their_server_on_postgres() {
    narrow(House::on_postgres()).await;
}

/// One of two servers dies for good, and the other one takes over what it owed.
#[tokio::test(flavor = "multi_thread")]
async fn the_other_server_takes_over() {
    let house = House::on_postgres();
    let dies = house.server();
    let mut rig = Rig::new(house);
    // All runs begin at the server that dies.
    let survivor = (rig.server.take(), rig.url.clone());
    rig.url = dies.url.clone().expect("a server");
    rig.server = Some(dies);
    let runs = rig.start().await;
    until("work is under way", || rig.keys().len() >= RUNS * 2).await;
    (rig.server, rig.url) = survivor;
    for run in &runs {
        rig.answer(*run).await;
    }
    rig.caller().completed(&runs).await;
    all_is_well(rig, &runs).await;
}
