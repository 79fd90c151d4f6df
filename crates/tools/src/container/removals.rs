//! Containers whose call is over.
//!
//! The end of an engine's client does not end its container, so every call removes its own, in
//! whatever way it ends. A dropped call cannot wait for that; whoever needs the name next does.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::engine::Engine;

/// The containers that are being removed.
#[derive(Debug, Default)]
pub(super) struct Removals {
    names: Mutex<BTreeSet<String>>,
    changed: Notify,
}

/// The container of a call under way; it is removed when this goes.
#[derive(Debug)]
pub(super) struct Removal {
    engine: Arc<Engine>,
    name: String,
    removals: Arc<Removals>,
}

impl Removals {
    /// A promise to remove a container.
    pub(super) fn promise(self: &Arc<Self>, engine: &Arc<Engine>, name: &str) -> Removal {
        Removal {
            engine: Arc::clone(engine),
            name: name.to_owned(),
            removals: Arc::clone(self),
        }
    }

    /// Waits until nobody removes the container of this name any more: its removal would hit the
    /// next one that has it.
    pub(super) async fn wait_for(&self, name: &str) {
        self.wait_until(|names| !names.contains(name)).await;
    }

    /// Waits until all are removed.
    pub(super) async fn wait_for_all(&self) {
        self.wait_until(BTreeSet::is_empty).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&BTreeSet<String>) -> bool) {
        loop {
            // Made before the look, so that no change after it is missed.
            let changed = self.changed.notified();
            if is_so(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        // Without a runtime everything ends, and the next attempt removes what is left.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        self.removals.lock().insert(self.name.clone());
        let done = Done {
            name: std::mem::take(&mut self.name),
            removals: Arc::clone(&self.removals),
        };
        let engine = Arc::clone(&self.engine);
        runtime.spawn(async move {
            if let Err(error) = engine.remove(&done.name, Path::new("/")).await {
                tracing::warn!(
                    container = done.name,
                    "a container is left behind: {}",
                    error.message
                );
            }
        });
    }
}

/// Tells that a removal is over, even one that was cut short.
struct Done {
    name: String,
    removals: Arc<Removals>,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.removals.lock().remove(&self.name);
        self.removals.changed.notify_waiters();
    }
}
