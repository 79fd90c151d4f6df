//! Storage of the event log and of everything derived from it.
//!
//! Owns the trait [`Store`] and its parts, the SQL layer that implements most of them once, the
//! embedded SQLite backend (in a file or in memory), the clustered PostgreSQL backend, and their
//! migrations. The test suite that both pass is in `testkit/store/suite`.
//!
//! A store makes no decisions. Each append carries its effects on the execution, its commands and
//! its timers. The store checks that the log head and the leases match what the caller expects and,
//! if requested, that the operation was not performed before. It then writes everything or nothing.
//! Values on which both databases must agree, such as the numbering and the hash chain of events,
//! are computed here once, before a backend sees them.
//!
//! Must not: read a clock, generate random numbers, fold events, or interpret a status beyond
//! checking if it is terminal.

mod anchors;
mod blobs;
mod catalog;
mod commands;
mod coordination;
mod credentials;
mod error;
mod executions;
mod identities;
mod keychain;
mod lease_order;
mod log;
mod machine_ids;
mod maintenance;
mod migration;
mod model;
mod notify_channel;
mod outbox;
pub mod postgres;
mod prepare_append;
mod projection;
mod requests;
mod retention;
mod row;
mod runtimes;
mod snapshots;
mod sql;
pub mod sqlite;
mod store;
mod streams;
#[cfg(test)]
#[path = "../../testkit/store/suite/mod.rs"]
mod suite;
mod task_output;
mod verification;

#[cfg(test)]
#[path = "../../testkit/store/src/lib.rs"]
pub mod testing;

// The name by which `testing` refers to this crate.
#[cfg(test)]
extern crate self as noetl_store;

/// All parts of [`Store`], for callers with a concrete backend.
pub mod prelude {
    pub use crate::{
        AnchorStore as _, CatalogStore as _, CommandQueue as _, CommandStore as _,
        CoordinationStore as _, CredentialStore as _, EventLog as _, ExecutionStore as _,
        ExpiryStore as _, IdentityStore as _, KeychainStore as _, MaintenanceStore as _,
        OutboxQueue as _, OutboxStore as _, RequestStore as _, RuntimeStore as _,
        SnapshotStore as _, StatsStore as _, Store as _, StreamCursorStore as _,
        TaskOutputStore as _, VerificationStore as _,
    };
}

pub use anchors::AnchorStore;
pub use catalog::CatalogStore;
pub use commands::{CommandQueue, CommandStore};
pub use coordination::CoordinationStore;
pub use credentials::CredentialStore;
pub use error::{ErrorCause, StoreError, StoreSaturated};
pub use executions::ExecutionStore;
pub use identities::IdentityStore;
pub use keychain::KeychainStore;
pub use log::EventLog;
pub use maintenance::{ExpiryStore, MaintenanceStore, StatsStore};
pub use migration::SchemaStatus;
pub use model::*;
pub use notify_channel::NotifyChannel;
pub use outbox::{OutboxQueue, OutboxStore};
pub use postgres::{PostgresStore, TlsVerification};
pub use projection::{project_events, rebuild_execution_view};
pub use requests::RequestStore;
pub use retention::{DropJournal, LogDamage, purge_old_data, verify_log};
pub use runtimes::RuntimeStore;
pub use snapshots::SnapshotStore;
pub use sqlite::SqliteStore;
pub use store::Store;
pub use streams::StreamCursorStore;
pub use task_output::TaskOutputStore;
pub use verification::VerificationStore;
