//! Ends what a connection does, from outside of the thread that it does it on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};

/// How many steps of its machine a statement takes between two looks at the flag.
const STEPS: i32 = 1000;

/// A flag that running statements look at. An interrupt alone could come in the moment before a
/// statement starts, and be lost.
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    stopped: AtomicBool,
    running: Mutex<Option<InterruptHandle>>,
}

/// Stops when it is dropped.
pub(super) struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let inner = &self.0.0;
        inner.stopped.store(true, Ordering::SeqCst);
        let running = inner.running.lock();
        if let Some(handle) = &*running.unwrap_or_else(PoisonError::into_inner) {
            handle.interrupt();
        }
    }
}

impl Stop {
    /// What stops when it is dropped.
    pub(super) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Lets a connection be stopped from now on. What is stopped does not commit any more, even if
    /// it waited for a lock meanwhile.
    pub(super) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let (running, committing) = (self.clone(), self.clone());
        connection.progress_handler(STEPS, Some(move || running.is_stopped()))?;
        connection.commit_hook(Some(move || committing.is_stopped()))?;
        self.hold(Some(connection.get_interrupt_handle()));
        Ok(())
    }

    /// Lets go of a connection that others will use.
    pub(super) fn leave(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        self.hold(None);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        connection.commit_hook(None::<fn() -> bool>)
    }

    fn hold(&self, handle: Option<InterruptHandle>) {
        let running = self.0.running.lock();
        *running.unwrap_or_else(PoisonError::into_inner) = handle;
    }
}
