//! Where the log and all that follows from it are kept.
//!
//! Owns the trait [`Store`], its in-memory model [`MemoryStore`], the embedded backend on SQLite,
//! the clustered one on PostgreSQL, their migrations, and the suite that all three pass.
//!
//! A store decides nothing. What an append means for the execution, its commands and its timers
//! comes with the append; the store checks that the log stands where the caller believes, that the
//! leases are what the caller believes, that nobody did the same before where that is asked, and
//! writes everything or nothing. Whatever both databases
//! must agree on, such as the numbering and the hash chain of events, is computed here, once,
//! before a backend sees it.
//!
//! Must not: read a clock, make random numbers, fold events, or know what a status means beyond
//! whether it ends something.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod blobs;
mod commons;
mod credentials;
mod error;
mod fair;
pub mod faulty;
mod keychain;
mod line;
mod machines;
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migration;
mod model;
mod outlets;
#[cfg(feature = "postgres")]
pub mod postgres;
mod project;
mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod row;
mod seal;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
#[cfg(test)]
mod suite;
mod upkeep;
mod vault;

pub use commons::Commons;
pub use credentials::Credentials;
pub use error::{Cause, Saturated, StoreError};
pub use keychain::Keychain;
pub use line::Line;
pub use memory::MemoryStore;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use migration::Schema;
pub use model::*;
pub use outlets::Outlets;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresStore, Trust};
pub use project::{project, view_of_log};
pub use retention::{LogDamage, purge, verify_log, verify_logs};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::Store;
pub use upkeep::Upkeep;
pub use vault::Vault;
