//! The same history on two backends must be answered alike.
//!
//! The model is one of them. Histories are played on a quiet store, on one that fails before or
//! after a call has done its work, and beside other histories that race for the same connections,
//! groups and locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::history::History;
use crate::faulty::{Fault, FaultyStore, Plan};
use crate::{MemoryStore, Store};

fn compare(seed: u64, expected: &[String], found: &[String]) {
    for (place, (expected, found)) in expected.iter().zip(found).enumerate() {
        assert_eq!(expected, found, "seed {seed}, answer {place}");
    }
    assert_eq!(expected.len(), found.len(), "seed {seed}");
}

async fn play(store: &dyn Store, seed: u64, calls: usize) -> Vec<String> {
    let mut history = History::new(seed);
    history.play(store, calls).await;
    history.end(store).await
}

/// Plays a history on the model and on a backend, and stops at the first difference.
pub(crate) async fn differ(store: &dyn Store, seed: u64, calls: usize) {
    let expected = play(&MemoryStore::new(), seed, calls).await;
    let found = play(store, seed, calls).await;
    compare(seed, &expected, &found);
}

/// Fails about one call in six, the same ones for the same seed, until it is told to stop.
fn faults(seed: u64) -> (Plan, Arc<AtomicBool>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let calls = AtomicU64::new(0);
    let stop = Arc::clone(&is_over);
    let plan = move |_| {
        if stop.load(Ordering::Relaxed) {
            return Fault::None;
        }
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let mixed = (call ^ seed.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match (mixed >> 40) % 24 {
            0 | 1 => Fault::Before,
            2 | 3 => Fault::After,
            4 => Fault::Conflict,
            _ => Fault::None,
        }
    };
    (Box::new(plan), is_over)
}

async fn play_with_faults<S: Store>(store: S, seed: u64, calls: usize) -> Vec<String> {
    let (plan, is_over) = faults(seed);
    let store = FaultyStore::new(store, plan);
    let mut history = History::new(seed);
    history.play(&store, calls).await;
    is_over.store(true, Ordering::Relaxed);
    history.end(&store).await
}

/// The same with faults: what failed after it was done is there on both, what failed before on
/// neither.
pub(crate) async fn differ_with_faults<S: Store>(store: S, seed: u64, calls: usize) {
    let expected = play_with_faults(MemoryStore::new(), seed, calls).await;
    let found = play_with_faults(store, seed, calls).await;
    compare(seed, &expected, &found);
}

/// Histories that race on one store, each of which must be answered as if it were alone.
pub(crate) async fn differ_in_lanes(store: Arc<dyn Store>, seed: u64, lanes: i64, calls: usize) {
    let mut racers = JoinSet::new();
    for lane in 0..lanes {
        let store = Arc::clone(&store);
        racers.spawn(async move {
            let seed = seed.wrapping_add(u64::try_from(lane).unwrap());
            let model = MemoryStore::new();
            let mut expected = History::in_lane(seed, lane);
            expected.play(&model, calls).await;
            let mut found = History::in_lane(seed, lane);
            found.play(&*store, calls).await;
            compare(seed, &expected.end(&model).await, &found.end(&*store).await);
        });
    }
    racers.join_all().await;
}
