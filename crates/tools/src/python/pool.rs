//! Pool of warm interpreters: their number, their assignment to calls, and their replacement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::interpreter::{Interpreter, InterpreterError};
use crate::settings::Settings;

/// Startup parameters of an interpreter, which determine the calls that it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterpreterKey {
    /// Program of the interpreter.
    pub(super) program: String,
    /// Variables that have an effect only at the start of a process.
    pub(super) environment: BTreeMap<String, String>,
}

/// Interpreters of a toolbox.
#[derive(Debug)]
pub(super) struct InterpreterPool {
    settings: Arc<Settings>,
    permits: Semaphore,
    idle: Mutex<IdleState>,
}

#[derive(Debug, Default)]
struct IdleState {
    /// Oldest first, so that the most recently used one is reused and the least recently used one
    /// ends.
    interpreters: Vec<IdleInterpreter>,
    /// True if a task that ends idle interpreters is running.
    has_reaper: bool,
    closed: bool,
}

#[derive(Debug)]
struct IdleInterpreter {
    key: InterpreterKey,
    interpreter: Interpreter,
    idle_since: Instant,
}

impl InterpreterPool {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            permits: Semaphore::new(settings.python.pool_size.max(1)),
            settings,
            idle: Mutex::default(),
        }
    }

    /// Returns the permits that calls compete for.
    pub(super) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    /// Returns an interpreter for a call, or starts a new one if none is idle. The caller holds a
    /// permit.
    pub(super) async fn acquire(
        &self,
        key: &InterpreterKey,
        scratch: TempDirFactory<'_>,
    ) -> Result<Interpreter, AcquireError> {
        if let Some(interpreter) = self.take_idle(key) {
            return Ok(interpreter);
        }
        let scratch = scratch().map_err(AcquireError::NoFolder)?;
        Interpreter::start(key, &self.settings, scratch).await.map_err(AcquireError::NotStarted)
    }

    /// Returns an interpreter to the pool for the next call.
    pub(super) fn release(self: &Arc<Self>, key: InterpreterKey, interpreter: Interpreter) {
        if interpreter.calls() >= self.settings.python.max_calls {
            return;
        }
        let mut idle = self.lock_idle();
        if idle.closed {
            return;
        }
        idle.interpreters.push(IdleInterpreter { key, interpreter, idle_since: Instant::now() });
        if !std::mem::replace(&mut idle.has_reaper, true) {
            tokio::spawn(idle_reaper_loop(Arc::downgrade(self)));
        }
    }

    /// Ends idle interpreters now, and all others when their calls end.
    pub(super) fn close(&self) {
        let mut idle = self.lock_idle();
        idle.closed = true;
        idle.interpreters.clear();
        self.permits.close();
    }

    fn take_idle(&self, key: &InterpreterKey) -> Option<Interpreter> {
        let mut idle = self.lock_idle();
        if let Some(index) = idle.interpreters.iter().rposition(|entry| entry.key == *key) {
            return Some(idle.interpreters.remove(index).interpreter);
        }
        // A new interpreter is about to start and may have to replace an idle one with another key.
        let size = self.settings.python.pool_size.max(1);
        let busy = size.saturating_sub(self.permits.available_permits());
        if idle.interpreters.len() + busy > size && !idle.interpreters.is_empty() {
            idle.interpreters.remove(0);
        }
        None
    }

    /// Ends interpreters that have been idle too long. Returns true if any are left.
    fn end_idle(&self) -> bool {
        let limit = self.settings.python.idle;
        let mut idle = self.lock_idle();
        idle.interpreters.retain(|entry| entry.idle_since.elapsed() < limit);
        idle.has_reaper = !idle.interpreters.is_empty();
        idle.has_reaper
    }

    fn lock_idle(&self) -> MutexGuard<'_, IdleState> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the private directory of a new interpreter.
pub(super) type TempDirFactory<'m> =
    &'m (dyn Fn() -> Result<TempDir, noetl_types::TaskError> + Send + Sync);

/// Error of a call that gets no interpreter.
#[derive(Debug)]
pub(super) enum AcquireError {
    /// The private directory cannot be created.
    NoFolder(noetl_types::TaskError),
    /// The interpreter cannot be started.
    NotStarted(InterpreterError),
}

async fn idle_reaper_loop(pool: Weak<InterpreterPool>) {
    loop {
        let Some(interval) = pool.upgrade().map(|pool| pool.settings.python.idle / 2) else {
            return;
        };
        sleep(interval).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.end_idle() {
            return;
        }
    }
}
