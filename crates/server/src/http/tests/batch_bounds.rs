//! Event batches that exceed one append.

use std::sync::Arc;

use noetl_store::{MAX_APPEND_EVENTS, MAX_RESULT_BYTES, NewResult, ResultPut, SqliteStore, Store};
use noetl_store_testing::Fault;
use noetl_types::{ErrorCode, ResultId, Timestamp, sha256};
use serde_json::{Value, json};

use super::batches::{ClaimedCommand, audit_event, counting_store};
use super::{TestServer, is_ok, server_from_services};
use crate::clock::{Clock, SystemClock};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// More than half of the events of an append.
const OVER_HALF_OF_APPEND: usize = MAX_APPEND_EVENTS / 2 + 1;

/// A fixed clock: no lease expires during a test.
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

async fn start_server_with_fixed_clock(store: Arc<dyn Store>) -> TestServer {
    let clock = Arc::new(FixedClock(SystemClock.now()));
    let services = ControlPlane::open(store, clock, Settings::default());
    server_from_services(services.await.unwrap(), &HttpSettings::default())
}

/// Starts a run with one command per width, claimed by `w1`. The end of each command issues `width`
/// further commands.
async fn claim_branches<const N: usize>(
    server: &TestServer,
    widths: [usize; N],
) -> [ClaimedCommand<'_>; N] {
    let mut text = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan, path: demo/fan }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: ["
        .to_owned();
    for index in 0..N {
        text += &format!("{{ step: branch{index} }}, ");
    }
    text += "] }\n";
    for (index, width) in widths.iter().enumerate() {
        text += &format!(
            "  - step: branch{index}
    tool: {{ kind: noop }}
    next: {{ arcs: [{{ step: wide{index} }}] }}
  - step: wide{index}
    loop: {{ in: {width}, iterator: i, spec: {{ mode: parallel, max_in_flight: {width} }} }}
    tool: {{ kind: noop }}
"
        );
    }
    let execution_id = server.start_playbook(&text, "demo/fan").await;
    let command = server.claim_newest(&execution_id).await;
    let start = ClaimedCommand { server, execution_id, command };
    let reported = start.post_events(&[start.build_event(9_000, "call.done")]).await;
    assert!(is_ok(&reported), "{}", reported.text);
    let mut branches = Vec::new();
    for _ in 0..N {
        let execution_id = start.execution_id.clone();
        let command = server.claim_newest(&execution_id).await;
        branches.push(ClaimedCommand { server, execution_id, command });
    }
    let label = |claimed: &ClaimedCommand<'_>| claimed.command.as_str().unwrap().to_owned();
    branches.sort_by_key(|claimed| label(claimed).split(':').nth(1).unwrap().to_owned());
    branches.try_into().ok().unwrap()
}

/// The limit applies regardless of the number of messages in the call.
#[tokio::test]
async fn rejects_batch_exceeding_append_limit() {
    let server = start_server_with_fixed_clock(Arc::new(SqliteStore::in_memory().unwrap())).await;
    for audit_count in [0, 20] {
        let [one, other] = claim_branches(&server, [OVER_HALF_OF_APPEND; 2]).await;
        let before = one.event_types().await;
        let mut events: Vec<Value> = (0..audit_count).map(|id| audit_event(100 + id, 1)).collect();
        events.push(one.build_event(1, "call.done"));
        events.push(other.build_event(2, "call.done"));
        let reply = one.post_events(&events).await;
        reply.assert_problem(ErrorCode::TooLarge);
        let detail = reply.text_at("/detail");
        assert!(detail.contains("10000 events or 64MiB"), "{detail}");
        assert_eq!(one.event_types().await, before);
        // The in-memory state is unchanged too.
        for event in events.split_off(events.len() - 2) {
            let reply = one.post_events(&[event]).await;
            assert_eq!(reply.json_at("/commands_generated"), OVER_HALF_OF_APPEND, "{}", reply.text);
        }
    }
}

/// Batches that arrive during an append are decided together, up to the size of one append.
#[tokio::test]
async fn oversized_batch_fails_alone() {
    let (_, store) = counting_store(|_| Fault::Yield(1_000));
    let server = start_server_with_fixed_clock(store).await;
    let [small, one, other] =
        claim_branches(&server, [1, OVER_HALF_OF_APPEND, OVER_HALF_OF_APPEND]).await;
    let both = [one.build_event(1, "call.done"), other.build_event(2, "call.done")];
    let (opener, small, large, audit) = tokio::join!(
        async { one.post_events(&[audit_event(3, 1)]).await },
        async { small.post_events(&[small.build_event(4, "call.done")]).await },
        async { one.post_events(&both).await },
        async { one.post_events(&[audit_event(5, 1)]).await },
    );
    for reply in [opener, small, audit] {
        assert!(is_ok(&reply), "{}", reply.text);
    }
    large.assert_problem(ErrorCode::TooLarge);
}

#[tokio::test]
async fn splits_batches_across_appends() {
    let (_, store) = counting_store(|_| Fault::Yield(1_000));
    let server = start_server_with_fixed_clock(store).await;
    let widths = [MAX_APPEND_EVENTS / 4, MAX_APPEND_EVENTS * 4 / 5];
    let [one, other] = claim_branches(&server, widths).await;
    let (opener, one, other) = tokio::join!(
        async { one.post_events(&[audit_event(3, 1)]).await },
        async { one.post_events(&[one.build_event(1, "call.done")]).await },
        async { other.post_events(&[other.build_event(2, "call.done")]).await },
    );
    assert!(is_ok(&opener), "{}", opener.text);
    for (reply, width) in [one, other].iter().zip(widths) {
        assert_eq!(reply.json_at("/commands_generated"), width, "{}", reply.text);
    }
}

/// Stores a result and returns its reference.
async fn store_result(claimed: &ClaimedCommand<'_>, result_id: i64, bytes: Vec<u8>) -> Value {
    let execution_id = claimed.execution_id.parse().unwrap();
    let bytes: Arc<[u8]> = bytes.into();
    let result = NewResult {
        result_id: ResultId::new(result_id).unwrap(),
        name: "start".into(),
        // An oversized result is rejected before it is read, so its digest need not match.
        sha256: sha256(&bytes[..bytes.len().min(1_000)]),
        bytes,
        media_type: "application/json".into(),
    };
    let put = claimed.server.services.infra.store().put_result(ResultPut {
        execution_id,
        result,
        scope: None,
        source_step: None,
        expires_at: None,
        now: SystemClock.now(),
    });
    put.await.unwrap();
    json!(format!("noetl://execution/{execution_id}/result/start/{result_id}"))
}

#[tokio::test]
async fn referenced_results_count_toward_append_limit() {
    let server = start_server_with_fixed_clock(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let [one, other] = claim_branches(&server, [1, 1]).await;
    let mut small = one.build_event(1, "call.done");
    small["result_kind"] = json!("ref");
    small["result_uri"] = store_result(&one, 1, b"[1]".to_vec()).await;
    let mut large = other.build_event(2, "call.done");
    large["result_kind"] = json!("ref");
    large["result_uri"] = store_result(&one, 2, vec![b' '; MAX_RESULT_BYTES]).await;
    let before = one.event_types().await;
    let together = one.post_events(&[small.clone(), large]).await;
    together.assert_problem(ErrorCode::TooLarge);
    let detail = together.text_at("/detail");
    assert!(detail.contains("larger than 64MiB in total"), "{detail}");
    assert_eq!(one.event_types().await, before);
    let alone = one.post_events(&[small]).await;
    assert_eq!(alone.json_at("/commands_generated"), 1, "{}", alone.text);
}
