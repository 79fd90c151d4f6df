//! The storage trait that every backend implements.

use std::fmt;

use async_trait::async_trait;

use crate::anchors::AnchorStore;
use crate::catalog::CatalogStore;
use crate::commands::{CommandQueue, CommandStore};
use crate::coordination::CoordinationStore;
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::executions::ExecutionStore;
use crate::identities::IdentityStore;
use crate::keychain::KeychainStore;
use crate::log::EventLog;
use crate::maintenance::{ExpiryStore, MaintenanceStore, StatsStore};
use crate::notify_channel::NotifyChannel;
use crate::outbox::{OutboxQueue, OutboxStore};
use crate::requests::RequestStore;
use crate::runtimes::RuntimeStore;
use crate::snapshots::SnapshotStore;
use crate::streams::StreamCursorStore;
use crate::task_output::TaskOutputStore;
use crate::verification::VerificationStore;

/// Durable storage of a NoETL system.
///
/// Times and tokens are arguments: a store reads no clock and generates no random numbers. A call
/// whose future is dropped may still take effect.
#[async_trait]
pub trait Store:
    EventLog
    + ExecutionStore
    + SnapshotStore
    + CommandQueue
    + CommandStore
    + CatalogStore
    + RuntimeStore
    + CoordinationStore
    + RequestStore
    + CredentialStore
    + KeychainStore
    + IdentityStore
    + OutboxQueue
    + OutboxStore
    + StreamCursorStore
    + TaskOutputStore
    + ExpiryStore
    + StatsStore
    + MaintenanceStore
    + VerificationStore
    + AnchorStore
    + Send
    + Sync
    + fmt::Debug
{
    /// Opens a channel to the other processes on this store. Returns `None` if the store is never
    /// shared.
    async fn open_notify_channel(&self) -> Result<Option<Box<dyn NotifyChannel>>, StoreError> {
        Ok(None)
    }
}
