//! Notifications between processes that share a store.

use std::fmt;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::model::Wakeup;

/// A channel to the other processes on a store, over a dedicated connection. It carries wakeups:
/// delivery is not guaranteed, and losses are not reported. A process that opens a new channel
/// therefore checks everything, and notifies the others to do the same.
#[async_trait]
pub trait NotifyChannel: fmt::Debug + Send {
    /// Notifies the other processes. After an error the channel is unusable.
    async fn notify(&mut self, wakeup: &Wakeup) -> Result<(), StoreError>;

    /// Returns the wakeups received since the last call, and waits until there are some. After an
    /// error the channel is unusable. Cancel-safe: a dropped call loses nothing.
    async fn recv(&mut self) -> Result<Wakeup, StoreError>;
}
