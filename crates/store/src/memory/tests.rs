//! The suite on the model.

use std::future::{Ready, ready};
use std::sync::Arc;

use super::MemoryStore;
use crate::suite::{Bench, differ, differ_in_lanes, differ_with_faults, outlet_suite, store_suite};

fn bench() -> Ready<Bench> {
    let store = Arc::new(MemoryStore::new());
    let dropping = Arc::clone(&store);
    let calling = Arc::clone(&store);
    ready(Bench {
        store,
        drop_before: Box::new(move |time| {
            dropping.drop_before(time);
            Box::pin(async {})
        }),
        call_row: Box::new(move |row, name| calling.call_row(row, name)),
        keep: Box::new(()),
    })
}

store_suite!(bench);
outlet_suite!(bench);

#[tokio::test]
async fn a_history_is_the_same_twice() {
    for seed in 0..20 {
        differ(&MemoryStore::new(), seed, 200).await;
        differ_with_faults(MemoryStore::new(), seed, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn histories_beside_each_other_are_those_of_the_model() {
    differ_in_lanes(Arc::new(MemoryStore::new()), 0, 16, 200).await;
}
