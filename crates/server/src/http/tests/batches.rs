//! Event batches are written completely or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_store::SqliteStore;
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::{TestResponse, TestServer, is_ok, start_server, start_server_on};
use crate::http::settings::HttpSettings;

const BATCH_PATH: &str = "/api/events/batch";

/// A run whose first command is claimed by `w1`.
pub(super) struct ClaimedCommand<'h> {
    pub(super) server: &'h TestServer,
    pub(super) execution_id: String,
    pub(super) command: Value,
}

impl<'h> ClaimedCommand<'h> {
    async fn claim_first(server: &'h TestServer) -> Self {
        let execution_id = server.start_two_steps().await;
        let command = server.claim_newest(&execution_id).await;
        Self { server, execution_id, command }
    }

    pub(super) fn build_event(&self, id: i64, name: &str) -> Value {
        json!({ "step": "start", "event_type": name, "event_id": id,
            "payload": { "command_id": self.command, "result": 1 } })
    }

    pub(super) async fn post_events(&self, events: &[Value]) -> TestResponse {
        let body =
            json!({ "execution_id": self.execution_id, "worker_id": "w1", "events": events });
        self.server.post(BATCH_PATH, body).await
    }

    pub(super) async fn event_types(&self) -> Vec<String> {
        self.server.event_types(&self.execution_id).await
    }

    async fn event_ids(&self) -> Vec<String> {
        let log = self.server.read_log(&self.execution_id).await;
        log.iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect()
    }
}

/// An event that does not change the state of the run.
pub(super) fn audit_event(id: i64, number: i64) -> Value {
    json!({ "step": "start", "event_type": "order.made", "event_id": id,
        "payload": { "number": number }, "meta": { "business_object": { "type": "order" } } })
}

/// All events of a command, from start to end.
fn full_event_sequence(claimed: &ClaimedCommand<'_>) -> [Value; 4] {
    [
        claimed.build_event(101, "command.started"),
        audit_event(102, 1),
        claimed.build_event(103, "call.done"),
        claimed.build_event(104, "command.completed"),
    ]
}

/// A store that counts appends and fails some of them.
pub(super) fn counting_store(
    plan: impl Fn(usize) -> Fault + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, Arc<FaultyStore<SqliteStore>>) {
    let appends = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&appends);
    let plan = move |method| match method {
        StoreMethod::AppendEvents => plan(count.fetch_add(1, Ordering::SeqCst)),
        _ => Fault::None,
    };
    (appends, Arc::new(FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan))))
}

#[tokio::test]
async fn batch_is_one_append() {
    let (appends, store) = counting_store(|_| Fault::None);
    let server = start_server_on(store).await;
    let claimed = ClaimedCommand::claim_first(&server).await;
    let before = appends.load(Ordering::SeqCst);
    let accepted = claimed.post_events(&full_event_sequence(&claimed)).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    assert_eq!(appends.load(Ordering::SeqCst), before + 1);
    // The repeated batch is recognized, and nothing is written.
    let again = claimed.post_events(&full_event_sequence(&claimed)).await;
    assert_eq!(again.json(), accepted.json());
    assert_eq!(appends.load(Ordering::SeqCst), before + 1);
    let many: Vec<Value> = (0..1000).map(|number| audit_event(1000 + number, number)).collect();
    let accepted = claimed.post_events(&many).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    assert_eq!(appends.load(Ordering::SeqCst), before + 2);
    let oversized = claimed.post_events(&[many.as_slice(), &[audit_event(9, 9)]].concat()).await;
    oversized.assert_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn batch_equals_single_events() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let together = ClaimedCommand::claim_first(&server).await;
        let accepted = together.post_events(&full_event_sequence(&together)).await;
        assert!(is_ok(&accepted), "{}", accepted.text);
        assert_eq!(accepted.json_at("/commands_generated"), 1);
        assert_eq!(accepted.json_at("/event_ids"), json!([101, 102, 103, 104]));
        let single = ClaimedCommand::claim_first(&server).await;
        for event in full_event_sequence(&single) {
            let accepted = single.post_events(&[event]).await;
            assert!(is_ok(&accepted), "{}", accepted.text);
        }
        let types = together.event_types().await;
        assert_eq!(types, single.event_types().await);
        let command_events: Vec<&str> = types.iter().map(String::as_str).skip(3).take(5).collect();
        assert_eq!(
            command_events,
            ["command.claimed", "command.started", "order.made", "call.done", "command.completed"]
        );
        // The last command ends the run within a batch too.
        let command = server.claim_newest(&together.execution_id).await;
        let last = ClaimedCommand { command, ..together };
        let ended = last
            .post_events(&[
                last.build_event(111, "command.started"),
                last.build_event(112, "command.completed"),
            ])
            .await;
        assert!(is_ok(&ended), "{}", ended.text);
        assert_eq!(server.execution_status(&last.execution_id).await, "COMPLETED");
    })
    .await;
}

#[tokio::test]
async fn failed_batch_writes_nothing() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        assert!(is_ok(&claimed.post_events(&[audit_event(90, 1)]).await));
        let before = claimed.event_ids().await;
        // One id is already stored with a different event.
        let conflicting = claimed
            .post_events(&[
                claimed.build_event(91, "command.started"),
                audit_event(90, 2),
                audit_event(92, 1),
            ])
            .await;
        conflicting.assert_problem(ErrorCode::IdConflict);
        // One event names an unknown command.
        let mut misplaced = claimed.build_event(94, "call.done");
        misplaced["step"] = json!("elsewhere");
        misplaced["payload"].as_object_mut().unwrap().remove("command_id");
        let unknown =
            claimed.post_events(&[audit_event(93, 1), misplaced, audit_event(95, 1)]).await;
        unknown.assert_problem(ErrorCode::NotFound);
        assert_eq!(claimed.event_ids().await, before);
    })
    .await;
}

/// Audit events do not cause results to be rejected.
#[tokio::test]
async fn trailing_audit_event_is_written_before_run_end() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        let first = claimed.post_events(&[claimed.build_event(96, "call.done")]).await;
        assert!(is_ok(&first), "{}", first.text);
        let command = server.claim_newest(&claimed.execution_id).await;
        let last = ClaimedCommand { command, ..claimed };
        let before = last.event_ids().await.len();
        let events = [audit_event(97, 1), last.build_event(98, "call.done"), audit_event(99, 1)];
        let ended = last.post_events(&events).await;
        assert_eq!(ended.json_at("/event_ids"), json!([97, 98, 99]), "{}", ended.text);
        assert_eq!(server.execution_status(&last.execution_id).await, "COMPLETED");
        let ids = last.event_ids().await;
        assert_eq!(ids[before..before + 3], ["97", "99", "98"]);
        // The repeated batch is recognized. Other events are too late, and nothing is written.
        assert_eq!(last.post_events(&events).await.json(), ended.json());
        let late = last.post_events(&[events[0].clone(), audit_event(100, 1)]).await;
        late.assert_problem(ErrorCode::AlreadyTerminal);
        assert_eq!(last.event_ids().await, ids);
    })
    .await;
}

/// The number of store failures is unknown, so the test uses paused time.
#[tokio::test(start_paused = true)]
async fn store_failure_writes_nothing_of_batch() {
    let failing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&failing);
    let (_, store) = counting_store(move |_| {
        let remaining = plan
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1));
        remaining.map_or(Fault::None, |_| Fault::FailBefore)
    });
    let server = start_server_on(store).await;
    let claimed = ClaimedCommand::claim_first(&server).await;
    let before = claimed.event_ids().await;
    failing.store(1_000_000, Ordering::SeqCst);
    let failed = claimed.post_events(&full_event_sequence(&claimed)).await;
    failed.assert_problem(ErrorCode::StoreUnavailable);
    assert_eq!(claimed.event_ids().await, before);
    failing.store(0, Ordering::SeqCst);
    let accepted = claimed.post_events(&full_event_sequence(&claimed)).await;
    assert_eq!(accepted.json_at("/event_ids"), json!([101, 102, 103, 104]));
    assert_eq!(accepted.json_at("/commands_generated"), 1);
}

/// The batch was written but the answer was lost. The log shows that it was written.
#[tokio::test(start_paused = true)]
async fn batch_with_lost_answer_is_written_once() {
    let losing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&losing);
    let (_, store) = counting_store(move |_| {
        let remaining = plan
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1));
        remaining.map_or(Fault::None, |_| Fault::FailAfter)
    });
    let server = start_server_on(store).await;
    let claimed = ClaimedCommand::claim_first(&server).await;
    losing.store(1, Ordering::SeqCst);
    let accepted = claimed.post_events(&full_event_sequence(&claimed)).await;
    assert_eq!(accepted.json_at("/event_ids"), json!([101, 102, 103, 104]), "{}", accepted.text);
    assert_eq!(accepted.json_at("/commands_generated"), 1);
    let types = claimed.event_types().await;
    let count = |event_type: &str| types.iter().filter(|found| *found == event_type).count();
    assert_eq!((count("order.made"), count("call.done")), (1, 1), "{types:?}");
}

/// Removes the sender's event ids.
fn without_event_ids<const N: usize>(mut events: [Value; N]) -> [Value; N] {
    for event in &mut events {
        event.as_object_mut().unwrap().remove("event_id");
    }
    events
}

/// The log contains the ids that the server assigned, so the server recognizes its own events.
#[tokio::test(start_paused = true)]
async fn batch_without_ids_and_lost_answer_is_written_once() {
    let losing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&losing);
    let (_, store) = counting_store(move |_| match plan.swap(0, Ordering::SeqCst) {
        0 => Fault::None,
        _ => Fault::FailAfter,
    });
    let server = start_server_on(store).await;
    let mut claimed = ClaimedCommand::claim_first(&server).await;
    let mut before = claimed.event_ids().await.len();
    for last in ["COMPLETED", "RUNNING"].into_iter().rev() {
        losing.store(1, Ordering::SeqCst);
        let events = without_event_ids([audit_event(0, 1), claimed.build_event(0, "call.done")]);
        let accepted = claimed.post_events(&events).await;
        assert!(is_ok(&accepted), "{}", accepted.text);
        let ids = claimed.event_ids().await;
        for id in accepted.json_at("/event_ids").as_array().unwrap() {
            let id = id.to_string();
            let found = ids[before..].iter().filter(|found| **found == id);
            assert_eq!(found.count(), 1, "{id} in {ids:?}");
        }
        assert_eq!(server.execution_status(&claimed.execution_id).await, last);
        if last == "RUNNING" {
            claimed.command = server.claim_newest(&claimed.execution_id).await;
        }
        before = claimed.event_ids().await.len();
    }
    let types = claimed.event_types().await;
    let orders = types.iter().filter(|event_type| *event_type == "order.made");
    assert_eq!(orders.count(), 2, "{types:?}");
}

/// While the batch may have been written, it must not be reported as rejected.
#[tokio::test(start_paused = true)]
async fn saturated_pool_after_lost_answer_is_no_rejection() {
    for unavailable in [StoreMethod::LoadExecution, StoreMethod::FindEvent] {
        let is_lost = Arc::new(AtomicUsize::new(0));
        let (losing, count) = (Arc::clone(&is_lost), Arc::new(AtomicUsize::new(0)));
        let plan = move |method| {
            let is_first = || count.fetch_add(1, Ordering::SeqCst) == 0;
            match losing.load(Ordering::SeqCst) {
                1 if method == StoreMethod::AppendEvents && is_first() => Fault::FailAfter,
                1 if method == unavailable => Fault::Saturated,
                _ => Fault::None,
            }
        };
        let server = start_server_on(Arc::new(FaultyStore::new(
            SqliteStore::in_memory().unwrap(),
            Box::new(plan),
        )))
        .await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        is_lost.store(1, Ordering::SeqCst);
        let reply = claimed.post_events(&without_event_ids([audit_event(0, 1)])).await;
        reply.assert_problem(ErrorCode::StoreUnavailable);
        is_lost.store(0, Ordering::SeqCst);
        let types = claimed.event_types().await;
        assert_eq!(types.last().map(String::as_str), Some("order.made"));
    }
}

/// Results after a cancel are recorded, regardless of other events in the batch.
#[tokio::test]
async fn late_result_is_recorded_with_audit_event() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        let path = format!("/api/executions/{}/cancel", claimed.execution_id);
        assert!(is_ok(&server.post(&path, json!({})).await));
        let before = claimed.event_types().await.len();
        let events = full_event_sequence(&claimed);
        let accepted = claimed.post_events(&events).await;
        assert_eq!(
            accepted.json_at("/event_ids"),
            json!([101, 102, 103, 104]),
            "{}",
            accepted.text
        );
        assert_eq!(accepted.json_at("/commands_generated"), 0);
        let types = claimed.event_types().await;
        let expected = ["command.result_ignored", "command.result_ignored"];
        assert_eq!(types[before..], expected);
        // The repeated batch is recognized. Batches without a result are rejected, and nothing is
        // written.
        assert_eq!(claimed.post_events(&events).await.json(), accepted.json());
        let late = claimed
            .post_events(&[claimed.build_event(105, "command.started"), audit_event(106, 1)])
            .await;
        late.assert_problem(ErrorCode::AlreadyTerminal);
        assert_eq!(claimed.event_types().await, types);
        assert_eq!(server.execution_status(&claimed.execution_id).await, "CANCELLED");
    })
    .await;
}

#[tokio::test]
async fn batch_writes_only_new_events() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        let all = full_event_sequence(&claimed);
        assert!(is_ok(&claimed.post_events(&all[..3]).await));
        let before = claimed.event_ids().await.len();
        let more = [&all[..], &[audit_event(105, 2), audit_event(105, 2)]].concat();
        let accepted = claimed.post_events(&more).await;
        assert_eq!(accepted.json_at("/event_ids"), json!([101, 102, 103, 104, 105, 105]));
        assert_eq!(accepted.json_at("/commands_generated"), 1);
        assert_eq!(claimed.event_ids().await.len(), before + 1);
        let again = claimed.post_events(&more).await;
        assert_eq!(again.json(), accepted.json());
        assert_eq!(claimed.event_ids().await.len(), before + 1);
    })
    .await;
}

#[tokio::test]
async fn rejects_conflicting_ids_in_batch() {
    let server = start_server().await;
    let claimed = ClaimedCommand::claim_first(&server).await;
    let before = claimed.event_ids().await;
    let twice =
        claimed.post_events(&[audit_event(1, 1), audit_event(2, 1), audit_event(1, 2)]).await;
    twice.assert_problem(ErrorCode::IdConflict);
    assert_eq!(claimed.event_ids().await, before);
    let same =
        claimed.post_events(&[audit_event(1, 1), audit_event(2, 1), audit_event(1, 1)]).await;
    assert_eq!(same.json_at("/event_ids"), json!([1, 2, 1]), "{}", same.text);
    assert_eq!(claimed.event_ids().await.len(), before.len() + 2);
}

#[tokio::test]
async fn concurrent_identical_batches_are_written_once() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let claimed = ClaimedCommand::claim_first(&server).await;
        let events = full_event_sequence(&claimed);
        let (one, other) = tokio::join!(claimed.post_events(&events), claimed.post_events(&events));
        assert_eq!(one.json_at("/event_ids"), json!([101, 102, 103, 104]), "{}", one.text);
        assert_eq!(other.json(), one.json());
        let types = claimed.event_types().await;
        let orders = types.iter().filter(|event_type| *event_type == "order.made");
        assert_eq!(orders.count(), 1, "{types:?}");
    })
    .await;
}

/// Batches that arrive during an append are decided together. A batch with a taken id fails alone.
/// The events of one worker may arrive in two batches.
#[tokio::test]
async fn taken_event_id_fails_alone() {
    let (_, store) = counting_store(|_| Fault::Yield(1_000));
    let server = start_server_on(store).await;
    let claimed = ClaimedCommand::claim_first(&server).await;
    let (opener, heartbeat, done, first, second) = tokio::join!(
        async { claimed.post_events(&[audit_event(1, 1)]).await },
        async { claimed.post_events(&[claimed.build_event(2, "command.heartbeat")]).await },
        async { claimed.post_events(&[claimed.build_event(3, "call.done")]).await },
        async { claimed.post_events(&[audit_event(4, 1), audit_event(5, 1)]).await },
        async { claimed.post_events(&[audit_event(6, 1), audit_event(5, 2)]).await },
    );
    for reply in [opener, heartbeat, done] {
        assert!(is_ok(&reply), "{}", reply.text);
    }
    let is_first = is_ok(&first);
    let refused = if is_first { second } else { first };
    refused.assert_problem(ErrorCode::IdConflict);
    let ids = claimed.event_ids().await;
    for (id, is_present) in [("4", is_first), ("5", true), ("6", !is_first)] {
        assert_eq!(ids.iter().any(|found| found == id), is_present, "{id}");
    }
}

/// After a retry by policy, the command has no holder within the same call.
#[tokio::test]
async fn events_after_retry_in_batch_are_too_late() {
    const RETRY_PLAYBOOK: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: again, path: demo/retry }
workflow:
  - step: start
    tool:
      kind: http
      url: "http://example.org/"
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' }}"
              then: { do: retry, attempts: 3 }
"#;
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| {}).await;
        let execution_id = server.start_playbook(RETRY_PLAYBOOK, "demo/retry").await;
        let command = server.claim_newest(&execution_id).await;
        let claimed = ClaimedCommand { server: &server, execution_id, command };
        let events =
            [claimed.build_event(1, "call.error"), claimed.build_event(2, "command.failed")];
        let accepted = claimed.post_events(&events).await;
        assert_eq!(accepted.json_at("/event_ids"), json!([1, 2]), "{}", accepted.text);
        let types = claimed.event_types().await;
        let last: Vec<&str> = types.iter().rev().take(3).rev().map(String::as_str).collect();
        assert_eq!(last, ["call.error", "command.expired", "command.result_ignored"]);
        assert_eq!(server.execution_status(&claimed.execution_id).await, "RUNNING");
        // Audit events have ids too, and are not recorded twice.
        let again = claimed.post_events(&events).await;
        assert_eq!(again.json(), accepted.json());
        assert_eq!(claimed.event_types().await.len(), types.len());
    })
    .await;
}
