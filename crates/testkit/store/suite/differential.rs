//! Plays the same random history on two backends and compares their answers.
//!
//! One of them is SQLite in memory. Histories are played on a store without faults, on one that
//! fails before or after a call, and concurrently with other histories that compete for the same
//! connections, groups and locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::history::RandomHistory;
use crate::testing::{Fault, FaultFn, FaultyStore};
use crate::{SqliteStore, Store};

fn assert_same_answers(seed: u64, expected: &[String], actual: &[String]) {
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        assert_eq!(expected, actual, "seed {seed}, answer {index}");
    }
    assert_eq!(expected.len(), actual.len(), "seed {seed}");
}

async fn play_history(store: &dyn Store, seed: u64, calls: usize) -> Vec<String> {
    let mut history = RandomHistory::new(seed);
    history.play_calls(store, calls).await;
    history.read_final_answers(store).await
}

/// Plays a history on a store in memory and on a backend, and panics at the first difference.
pub(crate) async fn compare_with_model(store: &dyn Store, seed: u64, calls: usize) {
    let expected = play_history(&SqliteStore::in_memory().unwrap(), seed, calls).await;
    let actual = play_history(store, seed, calls).await;
    assert_same_answers(seed, &expected, &actual);
}

/// Fails about one call in six, the same ones for the same seed, until the flag is set.
fn seeded_faults(seed: u64) -> (FaultFn, Arc<AtomicBool>) {
    let stop_flag = Arc::new(AtomicBool::new(false));
    let calls = AtomicU64::new(0);
    let stop = Arc::clone(&stop_flag);
    let plan = move |_| {
        if stop.load(Ordering::Relaxed) {
            return Fault::None;
        }
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let mixed = (call ^ seed.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match (mixed >> 40) % 24 {
            0 | 1 => Fault::FailBefore,
            2 | 3 => Fault::FailAfter,
            4 => Fault::Conflict,
            _ => Fault::None,
        }
    };
    (Box::new(plan), stop_flag)
}

async fn play_history_with_faults<S: Store>(store: S, seed: u64, calls: usize) -> Vec<String> {
    let (plan, stop_flag) = seeded_faults(seed);
    let store = FaultyStore::new(store, plan);
    let mut history = RandomHistory::new(seed);
    history.play_calls(&store, calls).await;
    stop_flag.store(true, Ordering::Relaxed);
    history.read_final_answers(&store).await
}

/// Compares with faults: effects of calls that failed after completion exist on both stores, those
/// of calls that failed before on neither.
pub(crate) async fn compare_with_model_under_faults<S: Store>(store: S, seed: u64, calls: usize) {
    let expected = play_history_with_faults(SqliteStore::in_memory().unwrap(), seed, calls).await;
    let actual = play_history_with_faults(store, seed, calls).await;
    assert_same_answers(seed, &expected, &actual);
}

/// Plays histories concurrently on one store. Each must get the same answers as if it were alone.
pub(crate) async fn compare_concurrent_with_model(
    store: Arc<dyn Store>,
    seed: u64,
    lanes: i64,
    calls: usize,
) {
    let mut tasks = JoinSet::new();
    for lane in 0..lanes {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let seed = seed.wrapping_add(u64::try_from(lane).unwrap());
            let model = SqliteStore::in_memory().unwrap();
            let mut expected = RandomHistory::in_lane(seed, lane);
            expected.play_calls(&model, calls).await;
            let mut actual = RandomHistory::in_lane(seed, lane);
            actual.play_calls(&*store, calls).await;
            assert_same_answers(
                seed,
                &expected.read_final_answers(&model).await,
                &actual.read_final_answers(&*store).await,
            );
        });
    }
    tasks.join_all().await;
}
