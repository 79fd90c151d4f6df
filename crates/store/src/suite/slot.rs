//! Slots: order, confirmation, races.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{ExecutionId, StepName, TenantId, Text, Timestamp};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, one};
use crate::{
    Append, InvalidAppend, MatchKey, Slot, SlotChange, SlotChoice, SlotHolder, SlotState, SlotWish,
    Store,
};

pub(crate) fn key(name: &str) -> MatchKey {
    MatchKey::of(&Text::from(name))
}

pub(crate) fn holder(run: u32) -> SlotHolder {
    SlotHolder::Step {
        step: StepName::new("load").unwrap(),
        run,
    }
}

pub(crate) fn wish(name: &str, limit: u32, priority: i64, arrived_at: Timestamp) -> SlotWish {
    SlotWish {
        key: key(name),
        holder: holder(1),
        limit,
        priority: Priority::new(priority).unwrap(),
        arrived_at,
    }
}

async fn want(store: &dyn Store, number: i64, wish: SlotWish) -> Run {
    let mut run = Run::started(store, number).await;
    let append = Append {
        slots: vec![SlotChange::Want(wish)],
        ..run.step()
    };
    run.write(store, append).await.unwrap();
    run
}

async fn change(store: &dyn Store, run: &mut Run, change: SlotChange) {
    let append = Append {
        slots: vec![change],
        ..run.step()
    };
    run.write(store, append).await.unwrap();
}

async fn grant(store: &dyn Store, name: &str, time: &str) -> Vec<ExecutionId> {
    let tenant = TenantId::default();
    let granted = store.grant_slots(&tenant, &key(name), at(time)).await;
    let granted = granted.unwrap();
    for slot in &granted {
        let expected = SlotState::Held {
            since: at(time),
            is_confirmed: false,
        };
        assert_eq!(slot.state, expected);
    }
    granted.iter().map(|slot| slot.id.execution_id).collect()
}

async fn of_key(store: &dyn Store, name: &str) -> Vec<Slot> {
    let choice = SlotChoice::Key {
        tenant_id: TenantId::default(),
        key: key(name),
    };
    store.slots(choice, PageLimit::default()).await.unwrap()
}

fn free(name: &str) -> SlotChange {
    SlotChange::Free {
        key: key(name),
        holder: holder(1),
    }
}

pub(crate) async fn slots_go_by_priority_and_arrival(bench: &Bench) {
    let store = &*bench.store;
    let mut late = want(store, 1, wish("k", 2, 0, at("12:00:03"))).await;
    let early = want(store, 2, wish("k", 2, 0, at("12:00:01"))).await;
    let mut urgent = want(store, 3, wish("k", 2, 5, at("12:00:09"))).await;
    let other = want(store, 4, wish("other", 1, 0, at("12:00:00"))).await;
    assert_eq!(grant(store, "k", "12:01:00").await, [urgent.id, early.id]);
    assert_eq!(grant(store, "k", "12:02:00").await, []);
    let states: Vec<_> = of_key(store, "k")
        .await
        .iter()
        .map(|slot| (slot.id.execution_id, slot.held_since()))
        .collect();
    let held = Some(at("12:01:00"));
    assert_eq!(
        states,
        [(early.id, held), (urgent.id, held), (late.id, None)]
    );

    // Wanting again changes nothing, neither for who waits nor for who holds.
    let again = SlotChange::Want(wish("k", 2, 9, at("12:00:00")));
    change(store, &mut late, again.clone()).await;
    change(store, &mut urgent, again).await;
    assert_eq!(grant(store, "k", "12:02:00").await, []);
    change(store, &mut urgent, free("k")).await;
    assert_eq!(grant(store, "k", "12:03:00").await, [late.id]);
    assert_eq!(grant(store, "other", "12:03:00").await, [other.id]);

    without_append(store, &late).await;
    let append = Append {
        slots: vec![free("k"), free("k")],
        ..late.step()
    };
    let refused = one(store, append).await;
    assert_eq!(refused, Err(InvalidAppend::SlotTwice.into()));
}

pub(crate) async fn nobody_overtakes(bench: &Bench) {
    let store = &*bench.store;
    let mut first = want(store, 1, wish("k", 5, 0, at("12:00:00"))).await;
    let narrow = want(store, 2, wish("k", 1, 0, at("12:00:01"))).await;
    let wide = want(store, 3, wish("k", 5, 0, at("12:00:02"))).await;
    assert_eq!(grant(store, "k", "12:01:00").await, [first.id]);
    assert_eq!(grant(store, "k", "12:01:00").await, []);
    change(store, &mut first, free("k")).await;
    assert_eq!(
        grant(store, "k", "12:02:00").await,
        [narrow.id, wide.id],
        "the limit of each counts those before it"
    );
}

/// Slots of a run that holds `k` are given back, wanted and confirmed beside its log.
async fn without_append(store: &dyn Store, run: &Run) {
    let tenant = TenantId::default();
    let states = async || -> Vec<(ExecutionId, SlotState)> {
        let slots = of_key(store, "k").await.into_iter();
        slots
            .map(|slot| (slot.id.execution_id, slot.state))
            .collect()
    };
    let change = async |change: SlotChange| {
        let changed = store.change_slots(&tenant, run.id, vec![change]);
        changed.await.unwrap();
        states().await.into_iter().find(|(id, _)| *id == run.id)
    };
    assert_eq!(change(free("k")).await, None);
    assert_eq!(change(free("k")).await, None, "once more changes nothing");
    let wanted = SlotChange::Want(wish("k", 9, 0, at("12:00:00")));
    let waiting = Some((run.id, SlotState::Waiting));
    assert_eq!(change(wanted.clone()).await, waiting);
    let confirm = SlotChange::Confirm {
        key: key("k"),
        holder: holder(1),
    };
    assert_eq!(change(confirm.clone()).await, waiting, "nobody granted it");
    assert_eq!(grant(store, "k", "12:04:00").await, [run.id]);
    let held = |is_confirmed| {
        let since = at("12:04:00");
        let state = SlotState::Held {
            since,
            is_confirmed,
        };
        Some((run.id, state))
    };
    assert_eq!(change(wanted).await, held(false), "it is held already");
    assert_eq!(change(confirm).await, held(true));
    assert_eq!(change(free("k")).await, None);
}

pub(crate) async fn a_grant_is_confirmed_by_the_log(bench: &Bench) {
    let store = &*bench.store;
    let mut wanted = wish("k", 1, 0, at("12:00:00"));
    wanted.holder = SlotHolder::Execution;
    let mut run = want(store, 1, wanted).await;
    let confirm = SlotChange::Confirm {
        key: key("k"),
        holder: SlotHolder::Execution,
    };
    // Nothing was granted yet.
    change(store, &mut run, confirm.clone()).await;
    assert_eq!(of_key(store, "k").await[0].state, SlotState::Waiting);
    assert_eq!(grant(store, "k", "12:01:00").await, [run.id]);
    let unconfirmed = |time: &'static str| async move {
        let choice = SlotChoice::Unconfirmed { held_by: at(time) };
        store.slots(choice, PageLimit::default()).await.unwrap()
    };
    assert_eq!(unconfirmed("12:00:59").await, []);
    let old = unconfirmed("12:01:00").await;
    assert_eq!(old.len(), 1);
    assert_eq!(old[0].id.holder, SlotHolder::Execution);
    change(store, &mut run, confirm).await;
    assert_eq!(unconfirmed("12:01:00").await, []);
    let expected = SlotState::Held {
        since: at("12:01:00"),
        is_confirmed: true,
    };
    assert_eq!(of_key(store, "k").await[0].state, expected);
}

/// Racers want, are granted by whoever comes along, use and free slots; nobody ever sees more in use
/// than there are, and all of them have their turn.
pub(crate) async fn racing_grants_never_exceed_the_limit(bench: &Bench) {
    const LIMIT: u32 = 3;
    let in_use = Arc::new(AtomicUsize::new(0));
    let mut racers = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&bench.store);
        let in_use = Arc::clone(&in_use);
        racers.spawn(async move {
            let mut run = want(&*store, number, wish("k", LIMIT, 0, at("12:00:00"))).await;
            loop {
                let tenant = TenantId::default();
                let name = key("k");
                let granted = store.grant_slots(&tenant, &name, at("12:01:00")).await;
                granted.unwrap();
                let slots = of_key(&*store, "k").await;
                let held = slots.iter().filter(|slot| slot.held_since().is_some());
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
            change(&*store, &mut run, free("k")).await;
        });
    }
    racers.join_all().await;
    assert_eq!(of_key(&*bench.store, "k").await, []);
}
