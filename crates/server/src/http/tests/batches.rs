//! Events of a worker that come in one call: all of them are written, or none is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_store::MemoryStore;
use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::{House, Reply, house, house_on, is_ok};
use crate::http::settings::HttpSettings;

const BATCH: &str = "/api/events/batch";

/// A run whose first command `w1` has claimed.
pub(super) struct Claimed<'h> {
    pub(super) house: &'h House,
    pub(super) execution_id: String,
    pub(super) command: Value,
}

impl<'h> Claimed<'h> {
    async fn of(house: &'h House) -> Self {
        let execution_id = house.started().await;
        let command = house.claimed(&execution_id).await;
        Self {
            house,
            execution_id,
            command,
        }
    }

    /// An event of the command.
    pub(super) fn event(&self, id: i64, name: &str) -> Value {
        json!({ "step": "start", "event_type": name, "event_id": id,
            "payload": { "command_id": self.command, "result": 1 } })
    }

    pub(super) async fn tell(&self, events: &[Value]) -> Reply {
        let body =
            json!({ "execution_id": self.execution_id, "worker_id": "w1", "events": events });
        self.house.post(BATCH, body).await
    }

    pub(super) async fn words(&self) -> Vec<String> {
        self.house.words(&self.execution_id).await
    }

    async fn ids(&self) -> Vec<String> {
        let log = self.house.log(&self.execution_id).await;
        log.iter()
            .map(|event| event["event_id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Something that shapes nothing.
pub(super) fn order(id: i64, number: i64) -> Value {
    json!({ "step": "start", "event_type": "order.made", "event_id": id,
        "payload": { "number": number }, "meta": { "business_object": { "type": "order" } } })
}

/// What a worker tells of a command from beginning to end.
fn whole(claimed: &Claimed<'_>) -> [Value; 4] {
    [
        claimed.event(101, "command.started"),
        order(102, 1),
        claimed.event(103, "call.done"),
        claimed.event(104, "command.completed"),
    ]
}

/// A store that counts appends, of which some go wrong.
pub(super) fn counted(
    plan: impl Fn(usize) -> Fault + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, Arc<FaultyStore<MemoryStore>>) {
    let appends = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&appends);
    let plan = move |method| match method {
        Method::Append => plan(count.fetch_add(1, Ordering::SeqCst)),
        _ => Fault::None,
    };
    (
        appends,
        Arc::new(FaultyStore::new(MemoryStore::new(), Box::new(plan))),
    )
}

#[tokio::test]
async fn a_batch_is_one_append() {
    let (appends, store) = counted(|_| Fault::None);
    let house = house_on(store).await;
    let claimed = Claimed::of(&house).await;
    let before = appends.load(Ordering::SeqCst);
    let taken = claimed.tell(&whole(&claimed)).await;
    assert!(is_ok(&taken), "{}", taken.text);
    assert_eq!(appends.load(Ordering::SeqCst), before + 1);
    // The same again is known, and nothing is written.
    let again = claimed.tell(&whole(&claimed)).await;
    assert_eq!(again.json(), taken.json());
    assert_eq!(appends.load(Ordering::SeqCst), before + 1);
    let many: Vec<Value> = (0..1000)
        .map(|number| order(1000 + number, number))
        .collect();
    let taken = claimed.tell(&many).await;
    assert!(is_ok(&taken), "{}", taken.text);
    assert_eq!(appends.load(Ordering::SeqCst), before + 2);
    let most = claimed
        .tell(&[many.as_slice(), &[order(9, 9)]].concat())
        .await;
    most.is_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn a_batch_tells_what_its_events_tell_one_by_one() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let together = Claimed::of(&house).await;
        let taken = together.tell(&whole(&together)).await;
        assert!(is_ok(&taken), "{}", taken.text);
        assert_eq!(taken.at("/commands_generated"), 1);
        assert_eq!(taken.at("/event_ids"), json!([101, 102, 103, 104]));
        let single = Claimed::of(&house).await;
        for event in whole(&single) {
            let taken = single.tell(&[event]).await;
            assert!(is_ok(&taken), "{}", taken.text);
        }
        let words = together.words().await;
        assert_eq!(words, single.words().await);
        let of_command: Vec<&str> = words.iter().map(String::as_str).skip(3).take(5).collect();
        assert_eq!(
            of_command,
            [
                "command.claimed",
                "command.started",
                "order.made",
                "call.done",
                "command.completed"
            ]
        );
        // The last command ends the run within a batch too.
        let command = house.claimed(&together.execution_id).await;
        let last = Claimed {
            command,
            ..together
        };
        let ended = last
            .tell(&[
                last.event(111, "command.started"),
                last.event(112, "command.completed"),
            ])
            .await;
        assert!(is_ok(&ended), "{}", ended.text);
        assert_eq!(house.status(&last.execution_id).await, "COMPLETED");
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_fails_in_the_middle_leaves_nothing() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let claimed = Claimed::of(&house).await;
        assert!(is_ok(&claimed.tell(&[order(90, 1)]).await));
        let before = claimed.ids().await;
        // What is there already under the id of one says something else.
        let taken = claimed
            .tell(&[
                claimed.event(91, "command.started"),
                order(90, 2),
                order(92, 1),
            ])
            .await;
        taken.is_problem(ErrorCode::IdConflict);
        // One names a command that is not there.
        let mut nowhere = claimed.event(94, "call.done");
        nowhere["step"] = json!("elsewhere");
        nowhere["payload"]
            .as_object_mut()
            .unwrap()
            .remove("command_id");
        let unknown = claimed.tell(&[order(93, 1), nowhere, order(95, 1)]).await;
        unknown.is_problem(ErrorCode::NotFound);
        assert_eq!(claimed.ids().await, before);
    })
    .await;
}

/// What shapes nothing costs no call its result.
#[tokio::test]
async fn a_remark_behind_the_end_of_a_run_is_written_before_it() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let claimed = Claimed::of(&house).await;
        let first = claimed.tell(&[claimed.event(96, "call.done")]).await;
        assert!(is_ok(&first), "{}", first.text);
        let command = house.claimed(&claimed.execution_id).await;
        let last = Claimed { command, ..claimed };
        let before = last.ids().await.len();
        let events = [order(97, 1), last.event(98, "call.done"), order(99, 1)];
        let ended = last.tell(&events).await;
        assert_eq!(
            ended.at("/event_ids"),
            json!([97, 98, 99]),
            "{}",
            ended.text
        );
        assert_eq!(house.status(&last.execution_id).await, "COMPLETED");
        let ids = last.ids().await;
        assert_eq!(ids[before..before + 3], ["97", "99", "98"]);
        // The same again is known; anything else comes too late, and leaves nothing.
        assert_eq!(last.tell(&events).await.json(), ended.json());
        let late = last.tell(&[events[0].clone(), order(100, 1)]).await;
        late.is_problem(ErrorCode::AlreadyTerminal);
        assert_eq!(last.ids().await, ids);
    })
    .await;
}

/// Nobody knows how often a store fails, so the clock of the test does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_takes_nothing_of_a_batch() {
    let failing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&failing);
    let (_, store) = counted(move |_| {
        let left = plan.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        left.map_or(Fault::None, |_| Fault::Before)
    });
    let house = house_on(store).await;
    let claimed = Claimed::of(&house).await;
    let before = claimed.ids().await;
    failing.store(1_000_000, Ordering::SeqCst);
    let failed = claimed.tell(&whole(&claimed)).await;
    failed.is_problem(ErrorCode::StoreUnavailable);
    assert_eq!(claimed.ids().await, before);
    failing.store(0, Ordering::SeqCst);
    let taken = claimed.tell(&whole(&claimed)).await;
    assert_eq!(taken.at("/event_ids"), json!([101, 102, 103, 104]));
    assert_eq!(taken.at("/commands_generated"), 1);
}

/// It was written, and nobody could tell: the log does.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_is_lost_is_answered_once() {
    let losing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&losing);
    let (_, store) = counted(move |_| {
        let left = plan.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        left.map_or(Fault::None, |_| Fault::After)
    });
    let house = house_on(store).await;
    let claimed = Claimed::of(&house).await;
    losing.store(1, Ordering::SeqCst);
    let taken = claimed.tell(&whole(&claimed)).await;
    assert_eq!(
        taken.at("/event_ids"),
        json!([101, 102, 103, 104]),
        "{}",
        taken.text
    );
    assert_eq!(taken.at("/commands_generated"), 1);
    let words = claimed.words().await;
    let count = |word: &str| words.iter().filter(|found| *found == word).count();
    assert_eq!(
        (count("order.made"), count("call.done")),
        (1, 1),
        "{words:?}"
    );
}

/// The same without the ids of their sender.
fn nameless<const N: usize>(mut events: [Value; N]) -> [Value; N] {
    for event in &mut events {
        event.as_object_mut().unwrap().remove("event_id");
    }
    events
}

/// The ids that the server gave are there, so its own word is known to it.
#[tokio::test(start_paused = true)]
async fn a_batch_without_ids_whose_answer_is_lost_is_answered_once() {
    let losing = Arc::new(AtomicUsize::new(0));
    let plan = Arc::clone(&losing);
    let (_, store) = counted(move |_| match plan.swap(0, Ordering::SeqCst) {
        0 => Fault::None,
        _ => Fault::After,
    });
    let house = house_on(store).await;
    let mut claimed = Claimed::of(&house).await;
    let mut before = claimed.ids().await.len();
    for last in ["COMPLETED", "RUNNING"].into_iter().rev() {
        losing.store(1, Ordering::SeqCst);
        let events = nameless([order(0, 1), claimed.event(0, "call.done")]);
        let taken = claimed.tell(&events).await;
        assert!(is_ok(&taken), "{}", taken.text);
        let ids = claimed.ids().await;
        for id in taken.at("/event_ids").as_array().unwrap() {
            let id = id.to_string();
            let found = ids[before..].iter().filter(|found| **found == id);
            assert_eq!(found.count(), 1, "{id} in {ids:?}");
        }
        assert_eq!(house.status(&claimed.execution_id).await, last);
        if last == "RUNNING" {
            claimed.command = house.claimed(&claimed.execution_id).await;
        }
        before = claimed.ids().await.len();
    }
    let words = claimed.words().await;
    let orders = words.iter().filter(|word| *word == "order.made");
    assert_eq!(orders.count(), 2, "{words:?}");
}

/// Nobody is told that nothing was done while it may be written.
#[tokio::test(start_paused = true)]
async fn a_store_without_connections_behind_a_lost_answer_is_no_refusal() {
    for unavailable in [Method::Load, Method::Event] {
        let is_lost = Arc::new(AtomicUsize::new(0));
        let (losing, count) = (Arc::clone(&is_lost), Arc::new(AtomicUsize::new(0)));
        let plan = move |method| {
            let is_first = || count.fetch_add(1, Ordering::SeqCst) == 0;
            match losing.load(Ordering::SeqCst) {
                1 if method == Method::Append && is_first() => Fault::After,
                1 if method == unavailable => Fault::Saturated,
                _ => Fault::None,
            }
        };
        let house = house_on(Arc::new(FaultyStore::new(
            MemoryStore::new(),
            Box::new(plan),
        )))
        .await;
        let claimed = Claimed::of(&house).await;
        is_lost.store(1, Ordering::SeqCst);
        let told = claimed.tell(&nameless([order(0, 1)])).await;
        told.is_problem(ErrorCode::StoreUnavailable);
        is_lost.store(0, Ordering::SeqCst);
        let words = claimed.words().await;
        assert_eq!(words.last().map(String::as_str), Some("order.made"));
    }
}

/// What comes after a cancel is kept, whatever comes with it.
#[tokio::test]
async fn a_late_result_is_noted_beside_a_remark() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let claimed = Claimed::of(&house).await;
        let path = format!("/api/executions/{}/cancel", claimed.execution_id);
        assert!(is_ok(&house.post(&path, json!({})).await));
        let before = claimed.words().await.len();
        let events = whole(&claimed);
        let taken = claimed.tell(&events).await;
        assert_eq!(
            taken.at("/event_ids"),
            json!([101, 102, 103, 104]),
            "{}",
            taken.text
        );
        assert_eq!(taken.at("/commands_generated"), 0);
        let words = claimed.words().await;
        let noted = ["command.result_ignored", "command.result_ignored"];
        assert_eq!(words[before..], noted);
        // The same again is known. What tells no result is refused, and leaves nothing.
        assert_eq!(claimed.tell(&events).await.json(), taken.json());
        let late = claimed
            .tell(&[claimed.event(105, "command.started"), order(106, 1)])
            .await;
        late.is_problem(ErrorCode::AlreadyTerminal);
        assert_eq!(claimed.words().await, words);
        assert_eq!(house.status(&claimed.execution_id).await, "CANCELLED");
    })
    .await;
}

#[tokio::test]
async fn a_batch_of_known_and_new_events_writes_the_new_ones() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let claimed = Claimed::of(&house).await;
        let all = whole(&claimed);
        assert!(is_ok(&claimed.tell(&all[..3]).await));
        let before = claimed.ids().await.len();
        let more = [&all[..], &[order(105, 2), order(105, 2)]].concat();
        let taken = claimed.tell(&more).await;
        assert_eq!(
            taken.at("/event_ids"),
            json!([101, 102, 103, 104, 105, 105])
        );
        assert_eq!(taken.at("/commands_generated"), 1);
        assert_eq!(claimed.ids().await.len(), before + 1);
        let again = claimed.tell(&more).await;
        assert_eq!(again.json(), taken.json());
        assert_eq!(claimed.ids().await.len(), before + 1);
    })
    .await;
}

#[tokio::test]
async fn an_id_stands_for_one_event_of_a_batch() {
    let house = house().await;
    let claimed = Claimed::of(&house).await;
    let before = claimed.ids().await;
    let twice = claimed.tell(&[order(1, 1), order(2, 1), order(1, 2)]).await;
    twice.is_problem(ErrorCode::IdConflict);
    assert_eq!(claimed.ids().await, before);
    let same = claimed.tell(&[order(1, 1), order(2, 1), order(1, 1)]).await;
    assert_eq!(same.at("/event_ids"), json!([1, 2, 1]), "{}", same.text);
    assert_eq!(claimed.ids().await.len(), before.len() + 2);
}

#[tokio::test]
async fn the_same_batch_twice_at_once_is_one() {
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let claimed = Claimed::of(&house).await;
        let events = whole(&claimed);
        let (one, other) = tokio::join!(claimed.tell(&events), claimed.tell(&events));
        assert_eq!(
            one.at("/event_ids"),
            json!([101, 102, 103, 104]),
            "{}",
            one.text
        );
        assert_eq!(other.json(), one.json());
        let words = claimed.words().await;
        let orders = words.iter().filter(|word| *word == "order.made");
        assert_eq!(orders.count(), 1, "{words:?}");
    })
    .await;
}

/// What comes while an append is under way is decided together. One of them that brings an id that
/// is taken fails no other; and the word of one worker may come in two calls.
#[tokio::test]
async fn whoever_brings_a_taken_id_fails_alone() {
    let (_, store) = counted(|_| Fault::Delay(1_000));
    let house = house_on(store).await;
    let claimed = Claimed::of(&house).await;
    let (opener, heartbeat, done, first, second) = tokio::join!(
        async { claimed.tell(&[order(1, 1)]).await },
        async { claimed.tell(&[claimed.event(2, "command.heartbeat")]).await },
        async { claimed.tell(&[claimed.event(3, "call.done")]).await },
        async { claimed.tell(&[order(4, 1), order(5, 1)]).await },
        async { claimed.tell(&[order(6, 1), order(5, 2)]).await },
    );
    for reply in [opener, heartbeat, done] {
        assert!(is_ok(&reply), "{}", reply.text);
    }
    let is_first = is_ok(&first);
    let refused = if is_first { second } else { first };
    refused.is_problem(ErrorCode::IdConflict);
    let ids = claimed.ids().await;
    for (id, is_there) in [("4", is_first), ("5", true), ("6", !is_first)] {
        assert_eq!(ids.iter().any(|found| found == id), is_there, "{id}");
    }
}

/// A command that its policy has made again is nobody's within the same call.
#[tokio::test]
async fn what_follows_a_retry_in_a_batch_comes_too_late() {
    const AGAIN: &str = r#"apiVersion: noetl.io/v2
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
    on_every_store(async |shelter: &Shelter| {
        let house = shelter.house(HttpSettings::default(), |_| {}).await;
        let execution_id = house.started_with(AGAIN, "demo/retry").await;
        let command = house.claimed(&execution_id).await;
        let claimed = Claimed {
            house: &house,
            execution_id,
            command,
        };
        let events = [
            claimed.event(1, "call.error"),
            claimed.event(2, "command.failed"),
        ];
        let taken = claimed.tell(&events).await;
        assert_eq!(taken.at("/event_ids"), json!([1, 2]), "{}", taken.text);
        let words = claimed.words().await;
        let last: Vec<&str> = words
            .iter()
            .rev()
            .take(3)
            .rev()
            .map(String::as_str)
            .collect();
        assert_eq!(
            last,
            ["call.error", "command.expired", "command.result_ignored"]
        );
        assert_eq!(house.status(&claimed.execution_id).await, "RUNNING");
        // What is only noted has its id too, and is not noted again.
        let again = claimed.tell(&events).await;
        assert_eq!(again.json(), taken.json());
        assert_eq!(claimed.words().await.len(), words.len());
    })
    .await;
}
