//! Stops the work of a connection from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};

/// Number of virtual machine steps of a statement between two checks of the flag.
const STEPS_PER_CHECK: i32 = 1000;

/// Flag that running statements check. An interrupt alone could arrive just before a statement
/// starts and be lost.
#[derive(Clone, Default)]
pub(super) struct StopFlag(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    running: Mutex<Option<InterruptHandle>>,
}

/// Guard that stops the work when it is dropped.
pub(super) struct StopOnDrop(StopFlag);

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

impl StopFlag {
    /// Returns a guard that stops the work when it is dropped.
    pub(super) fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Makes a connection stoppable. A stopped connection does not commit, even if it was waiting
    /// for a lock.
    pub(super) fn attach_connection(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let (running, committing) = (self.clone(), self.clone());
        connection.progress_handler(STEPS_PER_CHECK, Some(move || running.is_stopped()))?;
        connection.commit_hook(Some(move || committing.is_stopped()))?;
        self.set_interrupt_handle(Some(connection.get_interrupt_handle()));
        Ok(())
    }

    /// Detaches from a connection that other tasks will use.
    pub(super) fn detach_connection(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        self.set_interrupt_handle(None);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        connection.commit_hook(None::<fn() -> bool>)
    }

    fn set_interrupt_handle(&self, handle: Option<InterruptHandle>) {
        let running = self.0.running.lock();
        *running.unwrap_or_else(PoisonError::into_inner) = handle;
    }
}
