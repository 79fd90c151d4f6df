//! Machine ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::id::HighWater;
use noetl_types::{MachineId, Text};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::at;
use crate::{MachineRefused, MachineRenewal, MachineRequest};

fn request(owner: &str, now: &str, until: &str) -> MachineRequest {
    MachineRequest {
        owner: Text::from(owner),
        wanted: None,
        now: at(now),
        lease_until: at(until),
    }
}

/// Hole I1.
pub(crate) async fn ids_are_unique_among_live_processes(bench: &Bench) {
    let mut racers = JoinSet::new();
    for racer in 0..16 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let request = request(&format!("p{racer}"), "12:00:00", "12:01:00");
            store.lease_machine(request).await.unwrap().machine_id
        });
    }
    let ids: BTreeSet<MachineId> = racers.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 16);
}

/// Holes I1, I2.
pub(crate) async fn a_lapsed_id_is_taken_over(bench: &Bench) {
    let store = &*bench.store;
    let wanted = |owner: &str, now: &str, until: &str| MachineRequest {
        wanted: MachineId::new(7).ok(),
        ..request(owner, now, until)
    };
    let first = store
        .lease_machine(wanted("a", "12:00:00", "12:01:00"))
        .await
        .unwrap();
    assert_eq!((first.epoch, first.high_water), (1, HighWater::NONE));
    let renewal = |epoch, mark, until| MachineRenewal {
        machine_id: first.machine_id,
        epoch,
        high_water: HighWater::new(mark),
        now: at("12:00:00"),
        lease_until: at(until),
        gives_back: false,
    };
    store
        .renew_machine(renewal(1, 500, "12:02:00"))
        .await
        .unwrap();
    // A mark never sinks.
    let kept = store
        .renew_machine(renewal(1, 400, "12:02:00"))
        .await
        .unwrap();
    assert_eq!(kept.high_water, HighWater::new(500));

    let early = store
        .lease_machine(wanted("b", "12:01:59", "12:05:00"))
        .await;
    assert!(
        matches!(early, Err(MachineRefused::Taken { .. })),
        "{early:?}"
    );
    let second = store
        .lease_machine(wanted("b", "12:02:00", "12:05:00"))
        .await
        .unwrap();
    assert_eq!(second.epoch, 2);
    assert_eq!(second.high_water, HighWater::new(500));
    let fenced = store.renew_machine(renewal(1, 900, "12:09:00")).await;
    assert_eq!(fenced, Err(MachineRefused::Lost));
    let kept = store
        .renew_machine(renewal(2, 600, "12:06:00"))
        .await
        .unwrap();
    assert_eq!(kept.high_water, HighWater::new(600));
}

/// Who begins again right after a stop makes ids at once, and what was on its way finds no lease.
pub(crate) async fn an_id_that_is_given_back(bench: &Bench) {
    let store = &*bench.store;
    let first = store
        .lease_machine(request("a", "12:00:00", "12:01:00"))
        .await
        .unwrap();
    let renewal = |mark, until, gives_back| MachineRenewal {
        machine_id: first.machine_id,
        epoch: first.epoch,
        high_water: HighWater::new(mark),
        now: at("12:00:00"),
        lease_until: at(until),
        gives_back,
    };
    let ahead = renewal(900, "12:01:00", false);
    store.renew_machine(ahead).await.unwrap();
    let back = renewal(450, "12:00:10", true);
    store.renew_machine(back).await.unwrap();
    let late = store.renew_machine(ahead).await;
    assert_eq!(late, Err(MachineRefused::Lost));
    let again = MachineRequest {
        wanted: Some(first.machine_id),
        ..request("a", "12:00:11", "12:02:00")
    };
    let second = store.lease_machine(again).await.unwrap();
    assert_eq!(second.high_water, HighWater::new(450));
    assert!(second.epoch > first.epoch);
}

/// Whoever leases or renews is told whether it is alone.
pub(crate) async fn others_are_counted(bench: &Bench) {
    let store = &*bench.store;
    let lease = |owner, now, until| store.lease_machine(request(owner, now, until));
    let first = lease("a", "12:00:00", "12:01:00").await.unwrap();
    assert_eq!(first.others, 0);
    let second = lease("b", "12:00:10", "12:01:10").await.unwrap();
    assert_eq!(second.others, 1);
    let renewal = |now, until, gives_back| MachineRenewal {
        machine_id: first.machine_id,
        epoch: first.epoch,
        high_water: HighWater::NONE,
        now: at(now),
        lease_until: at(until),
        gives_back,
    };
    let renew = |now, until| store.renew_machine(renewal(now, until, false));
    assert_eq!(renew("12:00:20", "12:01:20").await.unwrap().others, 1);
    let lapsed = renew("12:01:10", "12:02:10").await.unwrap();
    assert_eq!(lapsed.others, 0, "its lease has run out");
    let third = lease("c", "12:01:20", "12:03:00").await.unwrap();
    assert_eq!(third.others, 1);
    let back = renewal("12:01:30", "12:01:30", true);
    assert_eq!(store.renew_machine(back).await.unwrap().others, 1);
    let last = lease("d", "12:01:30", "12:03:00").await.unwrap();
    assert_eq!(last.others, 1, "one was given back");
}

pub(crate) async fn a_wanted_id(bench: &Bench) {
    let store = &*bench.store;
    let unknown = MachineRenewal {
        machine_id: MachineId::MAX,
        epoch: 1,
        high_water: HighWater::NONE,
        now: at("12:00:00"),
        lease_until: at("12:01:00"),
        gives_back: false,
    };
    assert_eq!(
        store.renew_machine(unknown).await,
        Err(MachineRefused::Lost)
    );
    let last = MachineRequest {
        wanted: Some(MachineId::MAX),
        ..request("a", "12:00:00", "12:01:00")
    };
    let lease = store.lease_machine(last.clone()).await.unwrap();
    assert_eq!(lease.machine_id, MachineId::MAX);
    let refused = store.lease_machine(last).await;
    assert_eq!(
        refused,
        Err(MachineRefused::Taken {
            machine_id: MachineId::MAX,
            owner: Text::from("a"),
            lease_until: at("12:01:00"),
        })
    );
}
