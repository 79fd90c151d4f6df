//! Waits, signals to everybody, and what the server owes.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ExecutionId, Json, SignalId, StepName, TenantId, Text, Timestamp, json,
};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, one};
use crate::{
    Append, AppendRefused, Awaited, Broadcast, BroadcastFilter, ErrandChange, ErrandOutcome,
    InvalidAppend, MatchKey, NewWait, OpenWait, Store, WaitChange, WaitChoice, WaitFilter,
    WaitKind,
};

fn text(value: &str) -> Text {
    Text::from(value)
}

pub(crate) fn awaited(name: &str, key: Option<&str>) -> Awaited {
    Awaited::new(&text(name), key.map(text).as_ref())
}

pub(crate) fn new_wait(command_id: CommandId, names: Vec<Awaited>) -> NewWait {
    NewWait {
        command_id,
        kind: WaitKind::Signal,
        names,
        step: StepName::new("wait").unwrap(),
        index: None,
        until: None,
        detail: None,
    }
}

fn open(run: &mut Run, wait: NewWait) -> Append {
    Append {
        waits: vec![WaitChange::Open(Box::new(wait))],
        ..run.step()
    }
}

fn filter(choice: WaitChoice) -> WaitFilter {
    WaitFilter {
        tenant_id: TenantId::default(),
        choice,
        after: None,
        limit: PageLimit::default(),
    }
}

fn for_signal(name: &str, key: Option<&str>) -> WaitFilter {
    filter(WaitChoice::For {
        name: MatchKey::of(&text(name)),
        key: key.map(|key| MatchKey::of(&text(key))),
    })
}

fn command(number: i64) -> CommandId {
    CommandId::new(number).unwrap()
}

async fn found(store: &dyn Store, filter: WaitFilter) -> Vec<(ExecutionId, i64)> {
    let waits = store.waits(filter).await.unwrap();
    let place = |wait: &OpenWait| (wait.place.execution_id, wait.place.command_id.get());
    waits.iter().map(place).collect()
}

pub(crate) async fn waits_open_change_and_close(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut wait = new_wait(
        command(7),
        vec![awaited("paid", Some("o-1")), awaited("voided", None)],
    );
    wait.index = Some(3);
    wait.until = Some(at("13:00:00"));
    wait.detail = Some(json::parse(br#"{"title":"?"}"#).unwrap());
    let append = open(&mut run, wait.clone());
    run.write(store, append).await.unwrap();
    let mine = filter(WaitChoice::Of(run.id));
    let waits = store.waits(mine.clone()).await.unwrap();
    let expected = wait
        .clone()
        .into_open(&TenantId::default(), run.id, at("12:00:00"));
    assert_eq!(waits, expected);

    // Fewer names: the rest is gone.
    wait.names = vec![awaited("voided", None)];
    let append = open(&mut run, wait.clone());
    run.write(store, append).await.unwrap();
    let waits = store.waits(mine.clone()).await.unwrap();
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].awaited, awaited("voided", None));
    assert_eq!(found(store, for_signal("paid", Some("o-1"))).await, []);

    let close = WaitChange::Close {
        command_id: command(7),
    };
    let mut append = run.step();
    append.waits = vec![
        close.clone(),
        WaitChange::Close {
            command_id: command(8),
        },
    ];
    run.write(store, append).await.unwrap();
    assert_eq!(store.waits(mine).await.unwrap(), []);

    let mut append = run.step();
    append.waits = vec![close.clone(), close];
    assert_eq!(
        one(store, append).await,
        Err(InvalidAppend::WaitTwice.into())
    );
    let append = open(&mut run, new_wait(command(9), vec![]));
    assert_eq!(
        one(store, append).await,
        Err(InvalidAppend::WaitForNothing.into())
    );
}

pub(crate) async fn a_signal_finds_who_awaits_it(bench: &Bench) {
    let store = &*bench.store;
    let long = "k".repeat(5_000);
    let keys = [Some("a"), Some("b"), None, Some(long.as_str())];
    let mut ids = Vec::new();
    for (number, key) in (1..).zip(keys) {
        let mut run = Run::started(store, number).await;
        let wait = new_wait(command(number), vec![awaited("paid", key)]);
        let append = open(&mut run, wait);
        run.write(store, append).await.unwrap();
        ids.push(run.id);
    }
    let who = |name: &'static str, key: Option<&str>| found(store, for_signal(name, key));
    assert_eq!(who("paid", Some("a")).await, [(ids[0], 1), (ids[2], 3)]);
    assert_eq!(who("paid", Some("c")).await, [(ids[2], 3)]);
    assert_eq!(who("paid", None).await, [(ids[2], 3)]);
    assert_eq!(who("paid", Some(&long)).await, [(ids[2], 3), (ids[3], 4)]);
    assert_eq!(who("voided", Some("a")).await, []);
    let mut foreign = for_signal("paid", Some("a"));
    foreign.tenant_id = TenantId::new("acme").unwrap();
    assert_eq!(found(store, foreign).await, []);

    let mut page = for_signal("paid", Some("a"));
    page.limit = PageLimit::MIN;
    let first = store.waits(page.clone()).await.unwrap();
    page.after = first.last().map(|wait| wait.place);
    assert_eq!(found(store, page.clone()).await, [(ids[2], 3)]);
    page.after = store
        .waits(page.clone())
        .await
        .unwrap()
        .pop()
        .map(|it| it.place);
    assert_eq!(found(store, page).await, []);
}

pub(crate) async fn people_see_each_wait_once(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut approval = new_wait(
        command(1),
        vec![awaited("approval", None), awaited("escalated", None)],
    );
    approval.kind = WaitKind::Approval;
    let append = open(&mut run, approval);
    run.write(store, append).await.unwrap();
    let append = open(&mut run, new_wait(command(2), vec![awaited("paid", None)]));
    run.write(store, append).await.unwrap();
    let inbox = found(store, filter(WaitChoice::Approvals)).await;
    assert_eq!(inbox, [(run.id, 1)]);
}

pub(crate) fn signal(number: i64, name: &str, key: Option<&str>, when: Timestamp) -> Broadcast {
    Broadcast {
        signal_id: SignalId::new(number).unwrap(),
        tenant_id: TenantId::default(),
        name: text(name),
        key: key.map(text),
        payload: Json::from(number),
        actor: Some(text("ann")),
        received_at: when,
        expires_at: at("23:00:00"),
    }
}

pub(crate) async fn a_wait_looks_back_at_signals(bench: &Bench) {
    let store = &*bench.store;
    let long = "k".repeat(5_000);
    let sent = [
        signal(1, "paid", Some("a"), at("12:05:00")),
        signal(2, "paid", Some("b"), at("12:01:00")),
        signal(3, "paid", None, at("12:03:00")),
        signal(4, "voided", Some("a"), at("12:02:00")),
        signal(5, "paid", Some(&long), at("12:04:00")),
    ];
    for signal in &sent {
        store.broadcast(signal.clone()).await.unwrap();
    }
    // The first one of an id stays.
    let again = signal(1, "other", None, at("12:00:00"));
    store.broadcast(again).await.unwrap();
    let look = |names: Vec<Awaited>, since: &'static str, limit: i64| async move {
        let filter = BroadcastFilter {
            tenant_id: TenantId::default(),
            awaited: names,
            since: at(since),
            limit: PageLimit::new(limit).unwrap(),
        };
        store.broadcasts(filter).await.unwrap()
    };
    let ids = |found: Vec<Broadcast>| -> Vec<i64> {
        found.iter().map(|signal| signal.signal_id.get()).collect()
    };
    let any = || awaited("paid", None);
    assert_eq!(
        look(vec![awaited("paid", Some("a"))], "12:05:00", 9).await,
        [sent[0].clone()]
    );
    assert_eq!(ids(look(vec![any()], "12:00:00", 9).await), [2, 3, 5, 1]);
    assert_eq!(ids(look(vec![any()], "12:03:00.000001", 9).await), [5, 1]);
    let two = vec![awaited("voided", None), any(), awaited("paid", Some("b"))];
    assert_eq!(ids(look(two.clone(), "12:00:00", 9).await), [2, 4, 3, 5, 1]);
    assert_eq!(ids(look(two, "12:00:00", 2).await), [2, 4]);
    let keyed = vec![awaited("paid", Some(&long))];
    assert_eq!(ids(look(keyed, "12:00:00", 9).await), [5]);
    assert_eq!(look(vec![], "12:00:00", 9).await, []);
}

/// Whoever comes second finds the first: no signal and wait that are both there miss each other.
pub(crate) async fn racing_waits_and_signals_meet(bench: &Bench) {
    let mut racers = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let mut run = Run::started(&*store, number).await;
            let append = open(
                &mut run,
                new_wait(command(number), vec![awaited("go", None)]),
            );
            run.write(&*store, append).await.unwrap();
            let filter = BroadcastFilter {
                tenant_id: TenantId::default(),
                awaited: vec![awaited("go", None)],
                since: at("12:00:00"),
                limit: PageLimit::MAX,
            };
            let seen = store.broadcasts(filter).await.unwrap();
            let seen: BTreeSet<_> = seen.iter().map(|it| it.signal_id.get()).collect();
            (number, seen, false)
        });
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let sent = signal(number, "go", None, at("12:00:00"));
            store.broadcast(sent).await.unwrap();
            let seen = found(&*store, for_signal("go", None)).await;
            (number, seen.iter().map(|it| it.1).collect(), true)
        });
    }
    let results = racers.join_all().await;
    let (signals, waits): (Vec<_>, Vec<_>) = results.into_iter().partition(|it| it.2);
    for (wait, seen, _) in &waits {
        for (signal, found, _) in &signals {
            assert!(seen.contains(signal) || found.contains(wait));
        }
    }
}

pub(crate) async fn errands_stay_until_they_are_settled(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let add = |id: &str, time: &str| ErrandChange::Add {
        errand_id: text(id),
        body: json::parse(format!("{{\"do\":\"{id}\"}}").as_bytes()).unwrap(),
        due_at: at(time),
    };
    let mut append = run.step();
    append.errands = vec![
        add("child:1", "12:00:02"),
        add("child:2", "12:00:01"),
        add("parent", "12:00:03"),
        ErrandChange::Add {
            errand_id: text("empty"),
            body: Json::Null,
            due_at: at("12:00:04"),
        },
    ];
    run.write(store, append).await.unwrap();
    let due = |time: &'static str| async move {
        let errands = store.errands(at(time), PageLimit::default()).await.unwrap();
        errands
            .iter()
            .map(|it| it.errand_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(due("12:00:00").await, [""; 0]);
    assert_eq!(due("12:00:02").await, ["child:2", "child:1"]);
    let one_of_them = store.errands(at("13:00:00"), PageLimit::MIN).await.unwrap();
    assert_eq!(one_of_them.len(), 1);
    assert_eq!(one_of_them[0].execution_id, run.id);
    assert_eq!(one_of_them[0].body.to_string(), r#"{"do":"child:2"}"#);

    let settle = |id: &'static str, outcome| {
        let run = run.id;
        async move { store.settle_errand(run, &text(id), outcome).await.unwrap() }
    };
    assert!(settle("child:1", ErrandOutcome::Later(at("12:10:00"))).await);
    assert!(settle("child:2", ErrandOutcome::Done).await);
    assert!(!settle("child:2", ErrandOutcome::Done).await);
    assert!(!settle("child:2", ErrandOutcome::Later(at("12:10:00"))).await);
    assert_eq!(due("12:09:00").await, ["parent", "empty"]);
    // An append may settle one too, and order another again.
    let mut append = run.step();
    append.errands = vec![
        ErrandChange::Done {
            errand_id: text("parent"),
        },
        add("child:2", "12:00:00"),
    ];
    run.write(store, append).await.unwrap();
    assert_eq!(due("12:30:00").await, ["child:2", "empty", "child:1"]);

    let mut append = run.step();
    append.errands = vec![add("x", "12:00:00"), add("x", "12:00:00")];
    let refused: Result<_, AppendRefused> = one(store, append).await;
    assert_eq!(refused, Err(InvalidAppend::ErrandTwice.into()));
}
