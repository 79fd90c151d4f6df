//! Events of a worker that bring more than one append holds.

use std::sync::Arc;

use noetl_store::faulty::Fault;
use noetl_store::{MAX_APPEND_EVENTS, MAX_RESULT_BYTES, MemoryStore, NewResult, ResultPut, Store};
use noetl_types::{ErrorCode, ResultId, Timestamp, sha256};
use serde_json::{Value, json};

use super::batches::{Claimed, counted, order};
use super::{House, house_of, is_ok};
use crate::clock::{Clock, SystemClock};
use crate::http::settings::HttpSettings;
use crate::runtime::{Runtime, Settings};

/// More than half of the events that an append holds.
const OVER_HALF: usize = MAX_APPEND_EVENTS / 2 + 1;

/// A clock that stands still: no lease runs out, however long a test takes.
struct Still(Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
}

async fn still_house(store: Arc<dyn Store>) -> House {
    let clock = Arc::new(Still(SystemClock.now()));
    let runtime = Runtime::open(store, clock, Settings::default());
    house_of(runtime.await.unwrap(), &HttpSettings::default())
}

/// A run with a command for each width, claimed by `w1`. Its end leads to as many commands at once.
async fn claimed<const N: usize>(house: &House, widths: [usize; N]) -> [Claimed<'_>; N] {
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
    let execution_id = house.started_with(&text, "demo/fan").await;
    let command = house.claimed(&execution_id).await;
    let start = Claimed {
        house,
        execution_id,
        command,
    };
    let begun = start.tell(&[start.event(9_000, "call.done")]).await;
    assert!(is_ok(&begun), "{}", begun.text);
    let mut branches = Vec::new();
    for _ in 0..N {
        let execution_id = start.execution_id.clone();
        let command = house.claimed(&execution_id).await;
        branches.push(Claimed {
            house,
            execution_id,
            command,
        });
    }
    let step = |claimed: &Claimed<'_>| claimed.command.as_str().unwrap().to_owned();
    branches.sort_by_key(|claimed| step(claimed).split(':').nth(1).unwrap().to_owned());
    branches.try_into().ok().unwrap()
}

/// However many letters the call is.
#[tokio::test]
async fn what_no_append_holds_is_too_large() {
    let house = still_house(Arc::new(MemoryStore::new())).await;
    for remarks in [0, 20] {
        let [one, other] = claimed(&house, [OVER_HALF; 2]).await;
        let before = one.words().await;
        let mut events: Vec<Value> = (0..remarks).map(|id| order(100 + id, 1)).collect();
        events.push(one.event(1, "call.done"));
        events.push(other.event(2, "call.done"));
        let told = one.tell(&events).await;
        told.is_problem(ErrorCode::TooLarge);
        let detail = told.text_at("/detail");
        assert!(detail.contains("10000 events or 64MiB"), "{detail}");
        assert_eq!(one.words().await, before);
        // Nothing of it is left in memory either.
        for event in events.split_off(events.len() - 2) {
            let told = one.tell(&[event]).await;
            assert_eq!(told.at("/commands_generated"), OVER_HALF, "{}", told.text);
        }
    }
}

/// What comes while an append is under way is decided together, as far as one append holds it.
#[tokio::test]
async fn what_is_too_large_fails_nobody_else() {
    let (_, store) = counted(|_| Fault::Delay(1_000));
    let house = still_house(store).await;
    let [small, one, other] = claimed(&house, [1, OVER_HALF, OVER_HALF]).await;
    let both = [one.event(1, "call.done"), other.event(2, "call.done")];
    let (opener, small, large, remark) = tokio::join!(
        async { one.tell(&[order(3, 1)]).await },
        async { small.tell(&[small.event(4, "call.done")]).await },
        async { one.tell(&both).await },
        async { one.tell(&[order(5, 1)]).await },
    );
    for reply in [opener, small, remark] {
        assert!(is_ok(&reply), "{}", reply.text);
    }
    large.is_problem(ErrorCode::TooLarge);
}

#[tokio::test]
async fn what_one_append_does_not_hold_is_written_in_two() {
    let (_, store) = counted(|_| Fault::Delay(1_000));
    let house = still_house(store).await;
    let widths = [MAX_APPEND_EVENTS / 4, MAX_APPEND_EVENTS * 4 / 5];
    let [one, other] = claimed(&house, widths).await;
    let (opener, one, other) = tokio::join!(
        async { one.tell(&[order(3, 1)]).await },
        async { one.tell(&[one.event(1, "call.done")]).await },
        async { other.tell(&[other.event(2, "call.done")]).await },
    );
    assert!(is_ok(&opener), "{}", opener.text);
    for (reply, width) in [one, other].iter().zip(widths) {
        assert_eq!(reply.at("/commands_generated"), width, "{}", reply.text);
    }
}

/// A result that is kept, by its reference.
async fn kept(claimed: &Claimed<'_>, result_id: i64, bytes: Vec<u8>) -> Value {
    let execution_id = claimed.execution_id.parse().unwrap();
    let bytes: Arc<[u8]> = bytes.into();
    let result = NewResult {
        result_id: ResultId::new(result_id).unwrap(),
        name: "start".into(),
        // Of what is too large nothing is read.
        sha256: sha256(&bytes[..bytes.len().min(1_000)]),
        bytes,
        media_type: "application/json".into(),
    };
    let put = claimed.house.runtime.store().put_result(ResultPut {
        execution_id,
        result,
        scope: None,
        source_step: None,
        expires_at: None,
        now: SystemClock.now(),
    });
    put.await.unwrap();
    json!(format!(
        "noetl://execution/{execution_id}/result/start/{result_id}"
    ))
}

#[tokio::test]
async fn results_by_reference_are_no_more_than_an_append_holds() {
    let house = still_house(Arc::new(MemoryStore::new())).await;
    let [one, other] = claimed(&house, [1, 1]).await;
    let mut small = one.event(1, "call.done");
    small["result_kind"] = json!("ref");
    small["result_uri"] = kept(&one, 1, b"[1]".to_vec()).await;
    let mut large = other.event(2, "call.done");
    large["result_kind"] = json!("ref");
    large["result_uri"] = kept(&one, 2, vec![b' '; MAX_RESULT_BYTES]).await;
    let before = one.words().await;
    let together = one.tell(&[small.clone(), large]).await;
    together.is_problem(ErrorCode::TooLarge);
    let detail = together.text_at("/detail");
    assert!(detail.contains("at most 64MiB together"), "{detail}");
    assert_eq!(one.words().await, before);
    let alone = one.tell(&[small]).await;
    assert_eq!(alone.at("/commands_generated"), 1, "{}", alone.text);
}
