//! The store suite on the memory store.

use std::future::{Ready, ready};
use std::sync::Arc;

use super::MemoryStore;
use crate::suite::{
    StoreFixture, compare_concurrent_with_model, compare_with_model,
    compare_with_model_under_faults, publishing_suite, store_suite,
};

fn create_fixture() -> Ready<StoreFixture> {
    let store = Arc::new(MemoryStore::new());
    let drop_store = Arc::clone(&store);
    let outbox_store = Arc::clone(&store);
    ready(StoreFixture {
        store,
        mark_dropped_before: Box::new(move |time| {
            drop_store.drop_before(time);
            Box::pin(async {})
        }),
        set_message_id: Box::new(move |row, message_id| {
            outbox_store.set_message_id(row, message_id);
        }),
        resources: Box::new(()),
    })
}

store_suite!(create_fixture);
publishing_suite!(create_fixture);

#[tokio::test]
async fn same_seed_gives_same_history() {
    for seed in 0..20 {
        compare_with_model(&MemoryStore::new(), seed, 200).await;
        compare_with_model_under_faults(MemoryStore::new(), seed, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn concurrent_histories_match_model() {
    compare_concurrent_with_model(Arc::new(MemoryStore::new()), 0, 16, 200).await;
}
