//! Many clients follow runs while connections break and the server is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::{ClientSettings, StreamUpdate};
use noetl_api::execution::EventView;
use noetl_types::{ExecutionId, Json, StoredEvent};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::event_logs::assert_log_valid;

/// Number of followers of one run, and of followers of all runs.
const FOLLOWERS_PER_KIND: usize = 50;
const RUNS: usize = 4;
const SERVER_KILLS: usize = 2;
/// Feed position before the first event.
const FEED_START: &str = "0.0";

const FAN_OUT_PLAYBOOK: &str = "workflow:
  - {step: start, tool: {kind: noop}, loop: {in: 15, iterator: n}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 15, iterator: n, spec: {mode: parallel}}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";

#[tokio::test(flavor = "multi_thread")]
async fn followers_see_each_event_once_on_sqlite() {
    check_followers(&TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_see_each_event_once_on_postgres() {
    check_followers(&TestDeployment::on_postgres()).await;
}

async fn check_followers(deployment: &TestDeployment) {
    let mut server = deployment.start_server();
    let url = server.url.clone().expect("an address");
    let _worker = deployment.start_worker(&server, "w1");
    let client = TestClient::connect(&server);
    client.register_playbook("fan", FAN_OUT_PLAYBOOK).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = client.start("fan", Json::empty_map()).await;
        runs.push(run.expect("started"));
    }
    let first = runs[0];
    let (seen_sender, mut seen) = watch::channel(0);
    let mut run_followers = JoinSet::new();
    let mut feed_followers = JoinSet::new();
    for number in 0..FOLLOWERS_PER_KIND {
        let follower = StreamFollower::new(&url, number, seen_sender.clone());
        run_followers.spawn(follower.follow_run_to_end(first));
        let follower = StreamFollower::new(&url, number, seen_sender.clone());
        feed_followers.spawn(follower.follow_all_runs(runs.clone()));
    }
    drop(seen_sender);
    for kill in 1..=SERVER_KILLS {
        // Waits until the followers have received more events in total, or all of them.
        let progress = seen.wait_for(|seen| *seen >= kill * FOLLOWERS_PER_KIND * 10);
        drop(progress.await);
        server.kill();
        server = deployment.restart_server_at(&url);
    }
    let run_followers = run_followers.join_all().await;
    let feed_followers = feed_followers.join_all().await;
    TestClient::connect(&server).assert_completed(&runs).await;

    // The SQLite file has one writer.
    server.kill();
    let mut expected = BTreeSet::new();
    for run in &runs {
        let log = assert_log_valid(deployment, *run).await;
        let is_end = |event: &StoredEvent| {
            event.record.event.event_type.known_type().is_some_and(is_end_event)
        };
        let end = log.iter().position(is_end).expect("an end");
        // Audit events after the end arrive late or not at all.
        expected.extend((1..).take(end + 1).map(|seq: i64| (*run, seq)));
    }
    let expected_of_first: Vec<i64> =
        expected.iter().filter(|(run, _)| *run == first).map(|event| event.1).collect();
    for mut seqs in run_followers {
        seqs.truncate(expected_of_first.len());
        assert_eq!(seqs, expected_of_first, "a follower missed an event or received it twice");
    }
    for events in feed_followers {
        let received: BTreeSet<_> = events.iter().copied().collect();
        assert_eq!(received.len(), events.len(), "a follower received an event twice");
        let missed: Vec<_> = expected.difference(&received).collect();
        assert!(missed.is_empty(), "a follower missed {missed:?}");
    }
}

/// Client that reconnects after each disconnect, and disconnects from time to time.
struct StreamFollower {
    client: Client,
    number: usize,
    seen_sender: watch::Sender<usize>,
}

impl StreamFollower {
    fn new(url: &str, number: usize, seen_sender: watch::Sender<usize>) -> Self {
        Self {
            client: Client::new(url, ClientSettings::default()).expect("a client"),
            number,
            seen_sender,
        }
    }

    /// True if it disconnects on purpose after `count` events.
    fn disconnects_after(&self, count: usize) -> bool {
        count % 17 == self.number % 17
    }

    fn add_seen(&self, count: usize) {
        self.seen_sender.send_modify(|seen| *seen += count);
    }

    /// Follows a run to its end and returns the received `seq` values.
    async fn follow_run_to_end(self, run: ExecutionId) -> Vec<i64> {
        let mut seqs = Vec::new();
        let mut after = None;
        loop {
            let Ok(mut stream) = self.client.follow_execution(run, after).await else {
                wait_before_reconnect().await;
                continue;
            };
            loop {
                match stream.next().await {
                    Ok(StreamUpdate::End) => return seqs,
                    Ok(StreamUpdate::Events(events)) => {
                        self.add_seen(events.len());
                        seqs.extend(events.iter().map(|event| event.seq.get()));
                        after = events.last().map(|event| event.seq).or(after);
                        if !events.is_empty() && self.disconnects_after(seqs.len()) {
                            break;
                        }
                    }
                    Err(_) => break,
                }
            }
            wait_before_reconnect().await;
        }
    }

    /// Follows all runs until each of `runs` has ended, and returns the received events.
    async fn follow_all_runs(self, mut runs: Vec<ExecutionId>) -> Vec<(ExecutionId, i64)> {
        let mut received = Vec::new();
        let mut after = Some(FEED_START.to_owned());
        while !runs.is_empty() {
            let Ok(mut stream) = self.client.follow_all_executions(after.clone()).await else {
                wait_before_reconnect().await;
                continue;
            };
            while let Ok(StreamUpdate::Events(events)) = stream.next().await {
                self.add_seen(events.len());
                after = stream.last_id().map(str::to_owned);
                let has_ended = |run: &ExecutionId| {
                    let is_of_run = |event: &&EventView| event.execution_id == *run;
                    let mut events = events.iter().filter(is_of_run);
                    events.any(|event| event.event_type.known_type().is_some_and(is_end_event))
                };
                runs.retain(|run| !has_ended(run));
                let key = |event: &EventView| (event.execution_id, event.seq.get());
                received.extend(events.iter().map(key));
                let disconnects = !events.is_empty() && self.disconnects_after(received.len());
                if runs.is_empty() || disconnects {
                    break;
                }
            }
            wait_before_reconnect().await;
        }
        received
    }
}

fn is_end_event(event: noetl_types::EventType) -> bool {
    event.terminal_status().is_some()
}

async fn wait_before_reconnect() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
