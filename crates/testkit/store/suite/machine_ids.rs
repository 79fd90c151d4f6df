//! Leases of machine ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::id::HighWaterMark;
use noetl_types::{MachineId, Text};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::test_time;
use crate::{MachineIdRequest, MachineLeaseError, MachineRenewal};

fn machine_request(owner: &str, now: &str, until: &str) -> MachineIdRequest {
    MachineIdRequest {
        owner: Text::from(owner),
        requested_id: None,
        now: test_time(now),
        lease_until: test_time(until),
    }
}

pub(crate) async fn machine_ids_are_unique_among_live_processes(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let request = machine_request(&format!("p{number}"), "12:00:00", "12:01:00");
            store.lease_machine_id(request).await.unwrap().machine_id
        });
    }
    let ids: BTreeSet<MachineId> = tasks.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 16);
}

pub(crate) async fn expired_machine_id_is_taken_over(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let request = |owner: &str, now: &str, until: &str| MachineIdRequest {
        requested_id: MachineId::new(7).ok(),
        ..machine_request(owner, now, until)
    };
    let first = store.lease_machine_id(request("a", "12:00:00", "12:01:00")).await.unwrap();
    assert_eq!((first.epoch, first.high_water), (1, HighWaterMark::NONE));
    let renewal = |epoch, mark, until| MachineRenewal {
        machine_id: first.machine_id,
        epoch,
        high_water: HighWaterMark::new(mark),
        now: test_time("12:00:00"),
        lease_until: test_time(until),
        is_release: false,
    };
    store.renew_machine_lease(renewal(1, 500, "12:02:00")).await.unwrap();
    // The high-water mark never decreases.
    let renewed = store.renew_machine_lease(renewal(1, 400, "12:02:00")).await.unwrap();
    assert_eq!(renewed.high_water, HighWaterMark::new(500));

    let early = store.lease_machine_id(request("b", "12:01:59", "12:05:00")).await;
    assert!(matches!(early, Err(MachineLeaseError::Taken { .. })), "{early:?}");
    let second = store.lease_machine_id(request("b", "12:02:00", "12:05:00")).await.unwrap();
    assert_eq!(second.epoch, 2);
    assert_eq!(second.high_water, HighWaterMark::new(500));
    let fenced = store.renew_machine_lease(renewal(1, 900, "12:09:00")).await;
    assert_eq!(fenced, Err(MachineLeaseError::Lost));
    let renewed = store.renew_machine_lease(renewal(2, 600, "12:06:00")).await.unwrap();
    assert_eq!(renewed.high_water, HighWaterMark::new(600));
}

/// A process that restarts right after a stop can generate ids at once, and a late renewal of its
/// former lease is refused.
pub(crate) async fn released_machine_id_is_reused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = store.lease_machine_id(machine_request("a", "12:00:00", "12:01:00")).await.unwrap();
    let renewal = |mark, until, is_release| MachineRenewal {
        machine_id: first.machine_id,
        epoch: first.epoch,
        high_water: HighWaterMark::new(mark),
        now: test_time("12:00:00"),
        lease_until: test_time(until),
        is_release,
    };
    let renewed = renewal(900, "12:01:00", false);
    store.renew_machine_lease(renewed).await.unwrap();
    let released = renewal(450, "12:00:10", true);
    store.renew_machine_lease(released).await.unwrap();
    let late = store.renew_machine_lease(renewed).await;
    assert_eq!(late, Err(MachineLeaseError::Lost));
    let request = MachineIdRequest {
        requested_id: Some(first.machine_id),
        ..machine_request("a", "12:00:11", "12:02:00")
    };
    let second = store.lease_machine_id(request).await.unwrap();
    assert_eq!(second.high_water, HighWaterMark::new(450));
    assert!(second.epoch > first.epoch);
}

/// A lease reports the number of other live leases.
pub(crate) async fn other_machine_leases_are_counted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let lease = |owner, now, until| store.lease_machine_id(machine_request(owner, now, until));
    let first = lease("a", "12:00:00", "12:01:00").await.unwrap();
    assert_eq!(first.other_leases, 0);
    let second = lease("b", "12:00:10", "12:01:10").await.unwrap();
    assert_eq!(second.other_leases, 1);
    let renewal = |now, until, is_release| MachineRenewal {
        machine_id: first.machine_id,
        epoch: first.epoch,
        high_water: HighWaterMark::NONE,
        now: test_time(now),
        lease_until: test_time(until),
        is_release,
    };
    let renew = |now, until| store.renew_machine_lease(renewal(now, until, false));
    assert_eq!(renew("12:00:20", "12:01:20").await.unwrap().other_leases, 1);
    let renewed = renew("12:01:10", "12:02:10").await.unwrap();
    assert_eq!(renewed.other_leases, 0, "its lease has expired");
    let third = lease("c", "12:01:20", "12:03:00").await.unwrap();
    assert_eq!(third.other_leases, 1);
    let released = renewal("12:01:30", "12:01:30", true);
    assert_eq!(store.renew_machine_lease(released).await.unwrap().other_leases, 1);
    let last = lease("d", "12:01:30", "12:03:00").await.unwrap();
    assert_eq!(last.other_leases, 1, "one was released");
}

pub(crate) async fn requested_machine_id_is_granted_or_refused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let unknown = MachineRenewal {
        machine_id: MachineId::MAX,
        epoch: 1,
        high_water: HighWaterMark::NONE,
        now: test_time("12:00:00"),
        lease_until: test_time("12:01:00"),
        is_release: false,
    };
    assert_eq!(store.renew_machine_lease(unknown).await, Err(MachineLeaseError::Lost));
    let request = MachineIdRequest {
        requested_id: Some(MachineId::MAX),
        ..machine_request("a", "12:00:00", "12:01:00")
    };
    let lease = store.lease_machine_id(request.clone()).await.unwrap();
    assert_eq!(lease.machine_id, MachineId::MAX);
    let result = store.lease_machine_id(request).await;
    assert_eq!(
        result,
        Err(MachineLeaseError::Taken {
            machine_id: MachineId::MAX,
            owner: Text::from("a"),
            lease_until: test_time("12:01:00"),
        })
    );
}
