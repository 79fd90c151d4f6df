//! The store suite on SQLite in memory.

use std::future::{Ready, ready};
use std::sync::Arc;

use rusqlite::Connection;

use super::{mark_dropped_before, set_message_id};
use crate::sqlite::SqliteStore;
use crate::sqlite::reader_pool::Readers;
use crate::suite::{StoreFixture, publishing_suite, store_suite};

fn with_connection(store: &SqliteStore, work: impl FnOnce(&Connection)) {
    let Readers::Memory(connection) = &store.readers else {
        panic!("the store is not in memory");
    };
    connection.with_connection(work);
}

fn create_fixture() -> Ready<StoreFixture> {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (drop_store, outbox_store) = (Arc::clone(&store), Arc::clone(&store));
    ready(StoreFixture {
        store,
        mark_dropped_before: Box::new(move |time| {
            with_connection(&drop_store, |connection| mark_dropped_before(connection, time));
            Box::pin(async {})
        }),
        set_message_id: Box::new(move |row, message_id| {
            let set = |connection: &Connection| set_message_id(connection, row, message_id);
            with_connection(&outbox_store, set);
        }),
        resources: Box::new(()),
    })
}

store_suite!(create_fixture);
publishing_suite!(create_fixture);
