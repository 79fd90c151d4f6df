//! Databases that have the tables of a store already.

use std::io;

use noetl_store::postgres::{PostgresOptions, PostgresStore};
use noetl_testkit::postgres::{PostgresMissing, TestDatabase};
use noetl_types::{Month, Timestamp};

/// Creates a database as opening a store at this time would leave it. Copying migrated tables takes
/// a fraction of the time of the migrations.
pub fn migrated_database(now: Timestamp) -> Result<TestDatabase, PostgresMissing> {
    let month = Month::from_timestamp(now).to_string().replace('-', "_");
    TestDatabase::from_template(&format!("noetl_{month}"), |config| {
        let options = PostgresOptions::new(config, now);
        // The caller may be a task of a runtime, which must not block on another one.
        let migrate = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(PostgresStore::open(&options)).map(drop).map_err(io::Error::other)
        };
        let outcome = std::thread::scope(|scope| scope.spawn(migrate).join());
        outcome.unwrap_or_else(|_| Err(io::Error::other("the migration panicked")))
    })
}
