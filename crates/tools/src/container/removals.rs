//! Removal of containers whose call has ended.
//!
//! Ending the engine's client does not end its container, so every call removes its own, no matter
//! how the call ends. A dropped call cannot wait for the removal, so the next call that uses the
//! name waits instead.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::engine::ContainerEngine;

/// Containers that are being removed.
#[derive(Debug, Default)]
pub(super) struct PendingRemovals {
    names: Mutex<BTreeSet<String>>,
    changed: Notify,
}

/// Guard for the container of a call in progress. Dropping it removes the container.
#[derive(Debug)]
pub(super) struct RemovalGuard {
    engine: Arc<ContainerEngine>,
    name: String,
    removals: Arc<PendingRemovals>,
}

impl PendingRemovals {
    /// Creates a guard that removes a container when it is dropped.
    pub(super) fn remove_on_drop(
        self: &Arc<Self>,
        engine: &Arc<ContainerEngine>,
        name: &str,
    ) -> RemovalGuard {
        RemovalGuard {
            engine: Arc::clone(engine),
            name: name.to_owned(),
            removals: Arc::clone(self),
        }
    }

    /// Waits until no removal of this name is in progress. Otherwise it would remove the next
    /// container that has the name.
    pub(super) async fn wait_for_name(&self, name: &str) {
        self.wait_until(|names| !names.contains(name)).await;
    }

    /// Waits until all removals have ended.
    pub(super) async fn wait_for_all(&self) {
        self.wait_until(BTreeSet::is_empty).await;
    }

    async fn wait_until(&self, is_done: impl Fn(&BTreeSet<String>) -> bool) {
        loop {
            // Created before the check, so that no later change is missed.
            let changed = self.changed.notified();
            if is_done(&self.lock_names()) {
                return;
            }
            changed.await;
        }
    }

    fn lock_names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the next attempt removes the container.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        self.removals.lock_names().insert(self.name.clone());
        let completion = CompletionGuard {
            name: std::mem::take(&mut self.name),
            removals: Arc::clone(&self.removals),
        };
        let engine = Arc::clone(&self.engine);
        runtime.spawn(async move {
            if let Err(error) = engine.remove(&completion.name, Path::new("/")).await {
                tracing::warn!(
                    container = completion.name,
                    "a container could not be removed: {}",
                    error.message
                );
            }
        });
    }
}

/// Marks a removal as done when it is dropped, even if it was aborted.
struct CompletionGuard {
    name: String,
    removals: Arc<PendingRemovals>,
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.removals.lock_names().remove(&self.name);
        self.removals.changed.notify_waiters();
    }
}
