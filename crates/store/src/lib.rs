//! Storage of the event log and of everything derived from it.
//!
//! Owns the trait [`Store`], its in-memory model [`MemoryStore`], the embedded SQLite backend, the
//! clustered PostgreSQL backend, their migrations, and the test suite that all three pass.
//!
//! A store makes no decisions. Each append carries its effects on the execution, its commands and
//! its timers. The store checks that the log head and the leases match what the caller expects and,
//! if requested, that the operation was not performed before. It then writes everything or nothing.
//! Values on which both databases must agree, such as the numbering and the hash chain of events,
//! are computed here once, before a backend sees them.
//!
//! Must not: read a clock, generate random numbers, fold events, or interpret a status beyond
//! checking if it is terminal.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod blobs;
mod coordination;
mod credentials;
mod error;
pub mod faulty;
mod identities;
mod keychain;
mod lease_order;
mod machine_ids;
mod maintenance;
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migration;
mod model;
mod notify_channel;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prepare_append;
mod projection;
mod publishing;
mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod row;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
#[cfg(test)]
mod suite;

pub use coordination::CoordinationStore;
pub use credentials::CredentialStore;
pub use error::{ErrorCause, StoreError, StoreSaturated};
pub use identities::IdentityStore;
pub use keychain::KeychainStore;
pub use maintenance::MaintenanceStore;
pub use memory::MemoryStore;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use migration::SchemaStatus;
pub use model::*;
pub use notify_channel::NotifyChannel;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresStore, TlsVerification};
pub use projection::{project_events, rebuild_execution_view};
pub use publishing::PublishingStore;
pub use retention::{LogDamage, purge_old_data, verify_log, verify_logs};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::Store;
