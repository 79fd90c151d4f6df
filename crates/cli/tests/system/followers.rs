//! Many who follow runs, while connections break and the server is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::{ClientSettings, News};
use noetl_api::execution::EventView;
use noetl_types::{ExecutionId, Json, StoredEvent};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::house::{Caller, House};
use crate::logs::sound;

/// Followers of one run, and as many of all runs.
const FOLLOWERS: usize = 50;
/// Runs that all are about.
const RUNS: usize = 4;
/// How often the server is killed.
const KILLS: usize = 2;
/// Where all events begin.
const BEGINNING: &str = "0.0";

const FAN: &str = "workflow:
  - {step: start, tool: {kind: noop}, loop: {in: 15, iterator: n}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 15, iterator: n, spec: {mode: parallel}}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";

#[tokio::test(flavor = "multi_thread")]
async fn followers_miss_nothing_and_see_nothing_twice_on_sqlite() {
    followers_on(&House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_miss_nothing_and_see_nothing_twice_on_postgres() {
    followers_on(&House::on_postgres()).await;
}

async fn followers_on(house: &House) {
    let mut server = house.server();
    let url = server.url.clone().expect("an address");
    let _worker = house.worker(&server, "w1");
    let caller = Caller::of(&server);
    caller.register("fan", FAN).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = caller.start("fan", Json::empty_map()).await;
        runs.push(run.expect("started"));
    }
    let first = runs[0];
    let (tell, mut seen) = watch::channel(0);
    let mut of_one = JoinSet::new();
    let mut of_all = JoinSet::new();
    for number in 0..FOLLOWERS {
        let follower = Follower::new(&url, number, tell.clone());
        of_one.spawn(follower.followed_to_the_end(first));
        let follower = Follower::new(&url, number, tell.clone());
        of_all.spawn(follower.of_all(runs.clone()));
    }
    drop(tell);
    for kill in 1..=KILLS {
        // Everybody together has seen some more, or all of it.
        let enough = seen.wait_for(|seen| *seen >= kill * FOLLOWERS * 10);
        drop(enough.await);
        server.kill();
        server = house.server_at(&url);
    }
    let of_one = of_one.join_all().await;
    let of_all = of_all.join_all().await;
    Caller::of(&server).completed(&runs).await;

    // The file has one writer.
    server.kill();
    let mut all = BTreeSet::new();
    for run in &runs {
        let log = sound(house, *run).await;
        let is_end = |event: &StoredEvent| event.record.event.event_type.known().is_some_and(ends);
        let end = log.iter().position(is_end).expect("an end");
        // What is noted behind the end comes late or not at all.
        all.extend((1..).take(end + 1).map(|seq: i64| (*run, seq)));
    }
    let of_first: Vec<i64> = all
        .iter()
        .filter(|(run, _)| *run == first)
        .map(|it| it.1)
        .collect();
    for mut seqs in of_one {
        seqs.truncate(of_first.len());
        assert_eq!(seqs, of_first, "somebody missed something, or saw it twice");
    }
    for events in of_all {
        let told: BTreeSet<_> = events.iter().copied().collect();
        assert_eq!(told.len(), events.len(), "somebody saw something twice");
        let missed: Vec<_> = all.difference(&told).collect();
        assert!(missed.is_empty(), "somebody missed {missed:?}");
    }
}

/// Somebody who comes back whenever the connection breaks, and breaks it now and then.
struct Follower {
    client: Client,
    number: usize,
    tell: watch::Sender<usize>,
}

impl Follower {
    fn new(url: &str, number: usize, tell: watch::Sender<usize>) -> Self {
        Self {
            client: Client::new(url, ClientSettings::default()).expect("a client"),
            number,
            tell,
        }
    }

    /// Whether it goes away on purpose, having seen so much.
    fn leaves_after(&self, count: usize) -> bool {
        count % 17 == self.number % 17
    }

    fn saw(&self, count: usize) {
        self.tell.send_modify(|seen| *seen += count);
    }

    /// The places of the events of a run, as they were told.
    async fn followed_to_the_end(self, run: ExecutionId) -> Vec<i64> {
        let mut seqs = Vec::new();
        let mut after = None;
        loop {
            let Ok(mut live) = self.client.follow(run, after).await else {
                pause().await;
                continue;
            };
            loop {
                match live.next().await {
                    Ok(News::End) => return seqs,
                    Ok(News::Events(events)) => {
                        self.saw(events.len());
                        seqs.extend(events.iter().map(|event| event.seq.get()));
                        after = events.last().map(|event| event.seq).or(after);
                        if !events.is_empty() && self.leaves_after(seqs.len()) {
                            break;
                        }
                    }
                    Err(_) => break,
                }
            }
            pause().await;
        }
    }

    /// The events of all runs, as they were told, until each of some has ended.
    async fn of_all(self, mut runs: Vec<ExecutionId>) -> Vec<(ExecutionId, i64)> {
        let mut told = Vec::new();
        let mut after = Some(BEGINNING.to_owned());
        while !runs.is_empty() {
            let Ok(mut live) = self.client.follow_all(after.clone()).await else {
                pause().await;
                continue;
            };
            while let Ok(News::Events(events)) = live.next().await {
                self.saw(events.len());
                after = live.last_id().map(str::to_owned);
                let ended = |run: &ExecutionId| {
                    let of_it = |event: &&EventView| event.execution_id == *run;
                    let mut events = events.iter().filter(of_it);
                    events.any(|event| event.event_type.known().is_some_and(ends))
                };
                runs.retain(|run| !ended(run));
                let of = |event: &EventView| (event.execution_id, event.seq.get());
                told.extend(events.iter().map(of));
                let leaves = !events.is_empty() && self.leaves_after(told.len());
                if runs.is_empty() || leaves {
                    break;
                }
            }
            pause().await;
        }
        told
    }
}

fn ends(event: noetl_types::EventType) -> bool {
    event.ends_as().is_some()
}

/// A moment before it comes back.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
