//! Slots: order, confirmation, races.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{ExecutionId, StepName, TenantId, Text, Timestamp};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, test_time};
use crate::{
    AppendRequest, InvalidAppend, MatchKey, NewSlot, Slot, SlotChange, SlotHolder, SlotSelector,
    SlotState, Store,
};

pub(crate) fn match_key(name: &str) -> MatchKey {
    MatchKey::from_text(&Text::from(name))
}

pub(crate) fn step_holder(run: u32) -> SlotHolder {
    SlotHolder::Step { step: StepName::new("load").unwrap(), run }
}

pub(crate) fn new_slot(name: &str, limit: u32, priority: i64, arrived_at: Timestamp) -> NewSlot {
    NewSlot {
        key: match_key(name),
        holder: step_holder(1),
        limit,
        priority: Priority::new(priority).unwrap(),
        arrived_at,
    }
}

async fn request_slot(store: &dyn Store, number: i64, slot: NewSlot) -> TestExecution {
    let mut run = TestExecution::create_started(store, number).await;
    let append = AppendRequest { slots: vec![SlotChange::Request(slot)], ..run.step_request() };
    run.append_to(store, append).await.unwrap();
    run
}

async fn append_slot_change(store: &dyn Store, run: &mut TestExecution, change: SlotChange) {
    let append = AppendRequest { slots: vec![change], ..run.step_request() };
    run.append_to(store, append).await.unwrap();
}

async fn grant_and_check(store: &dyn Store, name: &str, time: &str) -> Vec<ExecutionId> {
    let tenant = TenantId::default();
    let granted = store.grant_slots(&tenant, &match_key(name), test_time(time)).await;
    let granted = granted.unwrap();
    for slot in &granted {
        let expected = SlotState::Held { since: test_time(time), is_confirmed: false };
        assert_eq!(slot.state, expected);
    }
    granted.iter().map(|slot| slot.id.execution_id).collect()
}

async fn slots_of_key(store: &dyn Store, name: &str) -> Vec<Slot> {
    let selector = SlotSelector::Key { tenant_id: TenantId::default(), key: match_key(name) };
    store.list_slots(selector, PageLimit::default()).await.unwrap()
}

fn release_change(name: &str) -> SlotChange {
    SlotChange::Release { key: match_key(name), holder: step_holder(1) }
}

pub(crate) async fn slots_are_granted_by_priority_and_arrival(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut late = request_slot(store, 1, new_slot("k", 2, 0, test_time("12:00:03"))).await;
    let early = request_slot(store, 2, new_slot("k", 2, 0, test_time("12:00:01"))).await;
    let mut urgent = request_slot(store, 3, new_slot("k", 2, 5, test_time("12:00:09"))).await;
    let other = request_slot(store, 4, new_slot("other", 1, 0, test_time("12:00:00"))).await;
    assert_eq!(grant_and_check(store, "k", "12:01:00").await, [urgent.id, early.id]);
    assert_eq!(grant_and_check(store, "k", "12:02:00").await, []);
    let states: Vec<_> = slots_of_key(store, "k")
        .await
        .iter()
        .map(|slot| (slot.id.execution_id, held_since(slot)))
        .collect();
    let held = Some(test_time("12:01:00"));
    assert_eq!(states, [(early.id, held), (urgent.id, held), (late.id, None)]);

    // Repeating a request changes nothing, whether it waits or holds a slot.
    let repeated = SlotChange::Request(new_slot("k", 2, 9, test_time("12:00:00")));
    append_slot_change(store, &mut late, repeated.clone()).await;
    append_slot_change(store, &mut urgent, repeated).await;
    assert_eq!(grant_and_check(store, "k", "12:02:00").await, []);
    append_slot_change(store, &mut urgent, release_change("k")).await;
    assert_eq!(grant_and_check(store, "k", "12:03:00").await, [late.id]);
    assert_eq!(grant_and_check(store, "other", "12:03:00").await, [other.id]);

    change_slots_without_append(store, &late).await;
    let append = AppendRequest {
        slots: vec![release_change("k"), release_change("k")],
        ..late.step_request()
    };
    let result = append_one(store, append).await;
    assert_eq!(result, Err(InvalidAppend::SlotTwice.into()));
}

pub(crate) async fn slot_waiters_do_not_overtake(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut first = request_slot(store, 1, new_slot("k", 5, 0, test_time("12:00:00"))).await;
    let narrow = request_slot(store, 2, new_slot("k", 1, 0, test_time("12:00:01"))).await;
    let wide = request_slot(store, 3, new_slot("k", 5, 0, test_time("12:00:02"))).await;
    assert_eq!(grant_and_check(store, "k", "12:01:00").await, [first.id]);
    assert_eq!(grant_and_check(store, "k", "12:01:00").await, []);
    append_slot_change(store, &mut first, release_change("k")).await;
    assert_eq!(
        grant_and_check(store, "k", "12:02:00").await,
        [narrow.id, wide.id],
        "the limit of each counts those before it"
    );
}

/// Releases, requests and confirms slots of a run that holds `k`, without an append.
async fn change_slots_without_append(store: &dyn Store, run: &TestExecution) {
    let tenant = TenantId::default();
    let states = async || -> Vec<(ExecutionId, SlotState)> {
        let slots = slots_of_key(store, "k").await.into_iter();
        slots.map(|slot| (slot.id.execution_id, slot.state)).collect()
    };
    let change = async |change: SlotChange| {
        let changed = store.change_slots(&tenant, run.id, vec![change]);
        changed.await.unwrap();
        states().await.into_iter().find(|(id, _)| *id == run.id)
    };
    assert_eq!(change(release_change("k")).await, None);
    assert_eq!(change(release_change("k")).await, None, "a repetition changes nothing");
    let request = SlotChange::Request(new_slot("k", 9, 0, test_time("12:00:00")));
    let waiting = Some((run.id, SlotState::Waiting));
    assert_eq!(change(request.clone()).await, waiting);
    let confirm = SlotChange::Confirm { key: match_key("k"), holder: step_holder(1) };
    assert_eq!(change(confirm.clone()).await, waiting, "it was not granted");
    assert_eq!(grant_and_check(store, "k", "12:04:00").await, [run.id]);
    let held = |is_confirmed| {
        let since = test_time("12:04:00");
        let state = SlotState::Held { since, is_confirmed };
        Some((run.id, state))
    };
    assert_eq!(change(request).await, held(false), "it is already held");
    assert_eq!(change(confirm).await, held(true));
    assert_eq!(change(release_change("k")).await, None);
}

pub(crate) async fn slot_grant_is_confirmed_by_append(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut request = new_slot("k", 1, 0, test_time("12:00:00"));
    request.holder = SlotHolder::Execution;
    let mut run = request_slot(store, 1, request).await;
    let confirm = SlotChange::Confirm { key: match_key("k"), holder: SlotHolder::Execution };
    // No slot was granted yet.
    append_slot_change(store, &mut run, confirm.clone()).await;
    assert_eq!(slots_of_key(store, "k").await[0].state, SlotState::Waiting);
    assert_eq!(grant_and_check(store, "k", "12:01:00").await, [run.id]);
    let unconfirmed = |time: &'static str| async move {
        let selector = SlotSelector::Unconfirmed { held_by: test_time(time) };
        store.list_slots(selector, PageLimit::default()).await.unwrap()
    };
    assert_eq!(unconfirmed("12:00:59").await, []);
    let slots = unconfirmed("12:01:00").await;
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].id.holder, SlotHolder::Execution);
    append_slot_change(store, &mut run, confirm).await;
    assert_eq!(unconfirmed("12:01:00").await, []);
    let expected = SlotState::Held { since: test_time("12:01:00"), is_confirmed: true };
    assert_eq!(slots_of_key(store, "k").await[0].state, expected);
}

/// Concurrent executions request, grant, use and release slots. The limit is never exceeded, and
/// every execution gets a slot.
pub(crate) async fn racing_slot_grants_never_exceed_limit(fixture: &StoreFixture) {
    const LIMIT: u32 = 3;
    let in_use = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&fixture.store);
        let in_use = Arc::clone(&in_use);
        tasks.spawn(async move {
            let mut run =
                request_slot(&*store, number, new_slot("k", LIMIT, 0, test_time("12:00:00"))).await;
            loop {
                let tenant = TenantId::default();
                let name = match_key("k");
                let granted = store.grant_slots(&tenant, &name, test_time("12:01:00")).await;
                granted.unwrap();
                let slots = slots_of_key(&*store, "k").await;
                let held = slots.iter().filter(|slot| held_since(slot).is_some());
                let held: Vec<_> = held.map(|slot| slot.id.execution_id).collect();
                assert!(held.len() <= usize::try_from(LIMIT).unwrap(), "{held:?}");
                if held.contains(&run.id) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let users = in_use.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(users <= usize::try_from(LIMIT).unwrap(), "{users} at once");
            tokio::task::yield_now().await;
            in_use.fetch_sub(1, Ordering::SeqCst);
            append_slot_change(&*store, &mut run, release_change("k")).await;
        });
    }
    tasks.join_all().await;
    assert_eq!(slots_of_key(&*fixture.store, "k").await, []);
}

/// Returns the grant time of a held slot.
fn held_since(slot: &Slot) -> Option<Timestamp> {
    match slot.state {
        SlotState::Held { since, .. } => Some(since),
        SlotState::Waiting => None,
    }
}
