//! Waits, broadcast signals and follow-ups.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ExecutionId, Json, SignalId, StepName, TenantId, Text, Timestamp, json,
};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, test_time};
use crate::{
    AppendError, AppendRequest, AwaitedName, BroadcastFilter, BroadcastSignal, FollowUpChange,
    FollowUpOutcome, InvalidAppend, MatchKey, NewWait, OpenWait, Store, WaitChange, WaitFilter,
    WaitKind, WaitSelector,
};

fn to_text(value: &str) -> Text {
    Text::from(value)
}

pub(crate) fn awaited_name(name: &str, key: Option<&str>) -> AwaitedName {
    AwaitedName::new(&to_text(name), key.map(to_text).as_ref())
}

pub(crate) fn new_wait(command_id: CommandId, names: Vec<AwaitedName>) -> NewWait {
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

fn open_wait_append(run: &mut TestExecution, wait: NewWait) -> AppendRequest {
    AppendRequest { waits: vec![WaitChange::Open(Box::new(wait))], ..run.step_request() }
}

fn wait_filter(selector: WaitSelector) -> WaitFilter {
    WaitFilter {
        tenant_id: TenantId::default(),
        selector,
        after: None,
        limit: PageLimit::default(),
    }
}

fn waits_for_signal(name: &str, key: Option<&str>) -> WaitFilter {
    wait_filter(WaitSelector::Matching {
        name: MatchKey::from_text(&to_text(name)),
        key: key.map(|key| MatchKey::from_text(&to_text(key))),
    })
}

fn command_id(number: i64) -> CommandId {
    CommandId::new(number).unwrap()
}

async fn find_waits(store: &dyn Store, filter: WaitFilter) -> Vec<(ExecutionId, i64)> {
    let waits = store.list_waits(filter).await.unwrap();
    let ids = |wait: &OpenWait| (wait.position.execution_id, wait.position.command_id.get());
    waits.iter().map(ids).collect()
}

pub(crate) async fn waits_open_change_and_close(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut wait = new_wait(
        command_id(7),
        vec![awaited_name("paid", Some("o-1")), awaited_name("voided", None)],
    );
    wait.index = Some(3);
    wait.until = Some(test_time("13:00:00"));
    wait.detail = Some(json::parse(br#"{"title":"?"}"#).unwrap());
    let append = open_wait_append(&mut run, wait.clone());
    run.append_to(store, append).await.unwrap();
    let filter = wait_filter(WaitSelector::InExecution(run.id));
    let waits = store.list_waits(filter.clone()).await.unwrap();
    let expected =
        wait.clone().into_open_waits(&TenantId::default(), run.id, test_time("12:00:00"));
    assert_eq!(waits, expected);

    // The removed name is no longer awaited.
    wait.names = vec![awaited_name("voided", None)];
    let append = open_wait_append(&mut run, wait.clone());
    run.append_to(store, append).await.unwrap();
    let waits = store.list_waits(filter.clone()).await.unwrap();
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].awaited, awaited_name("voided", None));
    assert_eq!(find_waits(store, waits_for_signal("paid", Some("o-1"))).await, []);

    let close = WaitChange::Close { command_id: command_id(7) };
    let mut append = run.step_request();
    append.waits = vec![close.clone(), WaitChange::Close { command_id: command_id(8) }];
    run.append_to(store, append).await.unwrap();
    assert_eq!(store.list_waits(filter).await.unwrap(), []);

    let mut append = run.step_request();
    append.waits = vec![close.clone(), close];
    assert_eq!(append_one(store, append).await, Err(InvalidAppend::WaitTwice.into()));
    let append = open_wait_append(&mut run, new_wait(command_id(9), vec![]));
    assert_eq!(append_one(store, append).await, Err(InvalidAppend::WaitForNothing.into()));
}

pub(crate) async fn signal_finds_matching_waits(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let long = "k".repeat(5_000);
    let keys = [Some("a"), Some("b"), None, Some(long.as_str())];
    let mut ids = Vec::new();
    for (number, key) in (1..).zip(keys) {
        let mut run = TestExecution::create_started(store, number).await;
        let wait = new_wait(command_id(number), vec![awaited_name("paid", key)]);
        let append = open_wait_append(&mut run, wait);
        run.append_to(store, append).await.unwrap();
        ids.push(run.id);
    }
    let waiting =
        |name: &'static str, key: Option<&str>| find_waits(store, waits_for_signal(name, key));
    assert_eq!(waiting("paid", Some("a")).await, [(ids[0], 1), (ids[2], 3)]);
    assert_eq!(waiting("paid", Some("c")).await, [(ids[2], 3)]);
    assert_eq!(waiting("paid", None).await, [(ids[2], 3)]);
    assert_eq!(waiting("paid", Some(&long)).await, [(ids[2], 3), (ids[3], 4)]);
    assert_eq!(waiting("voided", Some("a")).await, []);
    let mut foreign = waits_for_signal("paid", Some("a"));
    foreign.tenant_id = TenantId::new("acme").unwrap();
    assert_eq!(find_waits(store, foreign).await, []);

    let mut page = waits_for_signal("paid", Some("a"));
    page.limit = PageLimit::MIN;
    let first = store.list_waits(page.clone()).await.unwrap();
    page.after = first.last().map(|wait| wait.position);
    assert_eq!(find_waits(store, page.clone()).await, [(ids[2], 3)]);
    page.after = store.list_waits(page.clone()).await.unwrap().pop().map(|it| it.position);
    assert_eq!(find_waits(store, page).await, []);
}

pub(crate) async fn approval_inbox_lists_each_wait_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut approval = new_wait(
        command_id(1),
        vec![awaited_name("approval", None), awaited_name("escalated", None)],
    );
    approval.kind = WaitKind::Approval;
    let append = open_wait_append(&mut run, approval);
    run.append_to(store, append).await.unwrap();
    let append =
        open_wait_append(&mut run, new_wait(command_id(2), vec![awaited_name("paid", None)]));
    run.append_to(store, append).await.unwrap();
    let inbox = find_waits(store, wait_filter(WaitSelector::Approvals)).await;
    assert_eq!(inbox, [(run.id, 1)]);
}

pub(crate) fn broadcast_signal(
    number: i64,
    name: &str,
    key: Option<&str>,
    received_at: Timestamp,
) -> BroadcastSignal {
    BroadcastSignal {
        signal_id: SignalId::new(number).unwrap(),
        tenant_id: TenantId::default(),
        name: to_text(name),
        key: key.map(to_text),
        payload: Json::from(number),
        actor: Some(to_text("ann")),
        received_at,
        expires_at: test_time("23:00:00"),
    }
}

pub(crate) async fn wait_finds_earlier_signals(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let long = "k".repeat(5_000);
    let sent = [
        broadcast_signal(1, "paid", Some("a"), test_time("12:05:00")),
        broadcast_signal(2, "paid", Some("b"), test_time("12:01:00")),
        broadcast_signal(3, "paid", None, test_time("12:03:00")),
        broadcast_signal(4, "voided", Some("a"), test_time("12:02:00")),
        broadcast_signal(5, "paid", Some(&long), test_time("12:04:00")),
    ];
    for signal in &sent {
        store.put_broadcast(signal.clone()).await.unwrap();
    }
    // The first signal with an id is kept.
    let repeated = broadcast_signal(1, "other", None, test_time("12:00:00"));
    store.put_broadcast(repeated).await.unwrap();
    let find_signals = |names: Vec<AwaitedName>, since: &'static str, limit: i64| async move {
        let filter = BroadcastFilter {
            tenant_id: TenantId::default(),
            awaited: names,
            since: test_time(since),
            limit: PageLimit::new(limit).unwrap(),
        };
        store.list_broadcasts(filter).await.unwrap()
    };
    let ids = |found: Vec<BroadcastSignal>| -> Vec<i64> {
        found.iter().map(|signal| signal.signal_id.get()).collect()
    };
    let any = || awaited_name("paid", None);
    assert_eq!(
        find_signals(vec![awaited_name("paid", Some("a"))], "12:05:00", 9).await,
        [sent[0].clone()]
    );
    assert_eq!(ids(find_signals(vec![any()], "12:00:00", 9).await), [2, 3, 5, 1]);
    assert_eq!(ids(find_signals(vec![any()], "12:03:00.000001", 9).await), [5, 1]);
    let several = vec![awaited_name("voided", None), any(), awaited_name("paid", Some("b"))];
    assert_eq!(ids(find_signals(several.clone(), "12:00:00", 9).await), [2, 4, 3, 5, 1]);
    assert_eq!(ids(find_signals(several, "12:00:00", 2).await), [2, 4]);
    let keyed = vec![awaited_name("paid", Some(&long))];
    assert_eq!(ids(find_signals(keyed, "12:00:00", 9).await), [5]);
    assert_eq!(find_signals(vec![], "12:00:00", 9).await, []);
}

/// Of a wait and a signal, the later one finds the earlier one, so they never miss each other.
pub(crate) async fn racing_waits_and_signals_find_each_other(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let mut run = TestExecution::create_started(&*store, number).await;
            let append = open_wait_append(
                &mut run,
                new_wait(command_id(number), vec![awaited_name("go", None)]),
            );
            run.append_to(&*store, append).await.unwrap();
            let filter = BroadcastFilter {
                tenant_id: TenantId::default(),
                awaited: vec![awaited_name("go", None)],
                since: test_time("12:00:00"),
                limit: PageLimit::MAX,
            };
            let seen = store.list_broadcasts(filter).await.unwrap();
            let seen: BTreeSet<_> = seen.iter().map(|it| it.signal_id.get()).collect();
            (number, seen, false)
        });
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let sent = broadcast_signal(number, "go", None, test_time("12:00:00"));
            store.put_broadcast(sent).await.unwrap();
            let seen = find_waits(&*store, waits_for_signal("go", None)).await;
            (number, seen.iter().map(|it| it.1).collect(), true)
        });
    }
    let results = tasks.join_all().await;
    let (signals, waits): (Vec<_>, Vec<_>) = results.into_iter().partition(|it| it.2);
    for (wait, seen, _) in &waits {
        for (signal, found, _) in &signals {
            assert!(seen.contains(signal) || found.contains(wait));
        }
    }
}

pub(crate) async fn follow_ups_stay_until_completed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let add = |id: &str, time: &str| FollowUpChange::Add {
        errand_id: to_text(id),
        body: json::parse(format!("{{\"do\":\"{id}\"}}").as_bytes()).unwrap(),
        due_at: test_time(time),
    };
    let mut append = run.step_request();
    append.follow_ups = vec![
        add("child:1", "12:00:02"),
        add("child:2", "12:00:01"),
        add("parent", "12:00:03"),
        FollowUpChange::Add {
            errand_id: to_text("empty"),
            body: Json::Null,
            due_at: test_time("12:00:04"),
        },
    ];
    run.append_to(store, append).await.unwrap();
    let due = |time: &'static str| async move {
        let follow_ups =
            store.list_due_follow_ups(test_time(time), PageLimit::default()).await.unwrap();
        follow_ups.iter().map(|it| it.follow_up_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(due("12:00:00").await, [""; 0]);
    assert_eq!(due("12:00:02").await, ["child:2", "child:1"]);
    let page = store.list_due_follow_ups(test_time("13:00:00"), PageLimit::MIN).await.unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].execution_id, run.id);
    assert_eq!(page[0].body.to_string(), r#"{"do":"child:2"}"#);

    let complete = |id: &'static str, outcome| {
        let execution_id = run.id;
        async move { store.complete_follow_up(execution_id, &to_text(id), outcome).await.unwrap() }
    };
    assert!(complete("child:1", FollowUpOutcome::RetryAt(test_time("12:10:00"))).await);
    assert!(complete("child:2", FollowUpOutcome::Done).await);
    assert!(!complete("child:2", FollowUpOutcome::Done).await);
    assert!(!complete("child:2", FollowUpOutcome::RetryAt(test_time("12:10:00"))).await);
    assert_eq!(due("12:09:00").await, ["parent", "empty"]);
    // An append can complete a follow-up too, and add another one again.
    let mut append = run.step_request();
    append.follow_ups =
        vec![FollowUpChange::Done { errand_id: to_text("parent") }, add("child:2", "12:00:00")];
    run.append_to(store, append).await.unwrap();
    assert_eq!(due("12:30:00").await, ["child:2", "empty", "child:1"]);

    let mut append = run.step_request();
    append.follow_ups = vec![add("x", "12:00:00"), add("x", "12:00:00")];
    let result: Result<_, AppendError> = append_one(store, append).await;
    assert_eq!(result, Err(InvalidAppend::FollowUpTwice.into()));
}

pub(crate) async fn follow_up_is_found_on_path_to_root(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut runs: Vec<TestExecution> = Vec::new();
    for number in 1..=3 {
        let mut run = TestExecution::new(number);
        let mut start = run.start_request();
        start.start.as_mut().unwrap().parent_execution_id = runs.last().map(|parent| parent.id);
        run.append_to(store, start).await.unwrap();
        runs.push(run);
    }
    let new_child = TestExecution::new(4).id;
    let is_found = async |parent: &TestExecution| {
        let prefix = to_text("cancel:");
        store.has_follow_up_on_path(parent.id, new_child, &prefix).await.unwrap()
    };
    assert!(!is_found(&runs[2]).await);
    // The root is to cancel its child, and so everything below.
    let child = runs[1].id;
    let mut append = runs[0].step_request();
    append.follow_ups = vec![FollowUpChange::Add {
        errand_id: to_text(&format!("cancel:{child}")),
        body: Json::Null,
        due_at: test_time("12:00:00"),
    }];
    runs[0].append_to(store, append).await.unwrap();
    assert!(is_found(&runs[1]).await);
    assert!(is_found(&runs[2]).await);
    assert!(!is_found(&runs[0]).await);
}
