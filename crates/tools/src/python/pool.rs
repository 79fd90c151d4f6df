//! The warm interpreters: how many there are, which one takes a call, and when one is replaced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::interpreter::{Interpreter, Lost};
use crate::settings::Settings;

/// What an interpreter is started with, and so which calls it can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// The program.
    pub(super) program: String,
    /// Variables that matter only at the start of a process.
    pub(super) environment: BTreeMap<String, String>,
}

/// The interpreters of a toolbox.
#[derive(Debug)]
pub(super) struct Pool {
    settings: Arc<Settings>,
    places: Semaphore,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// Oldest first, so that the warmest is taken and the coldest ends.
    waiting: Vec<Waiting>,
    /// Whether a task looks after those that wait too long.
    watched: bool,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    interpreter: Interpreter,
    since: Instant,
}

impl Pool {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            places: Semaphore::new(settings.python.pool_size.max(1)),
            settings,
            idle: Mutex::default(),
        }
    }

    /// The places that calls compete for.
    pub(super) fn places(&self) -> &Semaphore {
        &self.places
    }

    /// An interpreter for a call; a new one when none is waiting. The caller holds a place.
    pub(super) async fn take(
        &self,
        key: &Key,
        scratch: TempDirMaker<'_>,
    ) -> Result<Interpreter, TakeError> {
        if let Some(interpreter) = self.waiting(key) {
            return Ok(interpreter);
        }
        let scratch = scratch().map_err(TakeError::NoFolder)?;
        Interpreter::start(key, &self.settings, scratch)
            .await
            .map_err(TakeError::Lost)
    }

    /// Gives an interpreter back for the next call.
    pub(super) fn put(self: &Arc<Self>, key: Key, interpreter: Interpreter) {
        if interpreter.calls() >= self.settings.python.max_calls {
            return;
        }
        let mut idle = self.lock();
        if idle.closed {
            return;
        }
        idle.waiting.push(Waiting {
            key,
            interpreter,
            since: Instant::now(),
        });
        if !std::mem::replace(&mut idle.watched, true) {
            tokio::spawn(end_the_idle(Arc::downgrade(self)));
        }
    }

    /// Ends those that wait, and all others when their calls end.
    pub(super) fn close(&self) {
        let mut idle = self.lock();
        idle.closed = true;
        idle.waiting.clear();
        self.places.close();
    }

    fn waiting(&self, key: &Key) -> Option<Interpreter> {
        let mut idle = self.lock();
        if let Some(index) = idle.waiting.iter().rposition(|waiting| waiting.key == *key) {
            return Some(idle.waiting.remove(index).interpreter);
        }
        // A new one is about to start: it may need the room of one that waits for other calls.
        let size = self.settings.python.pool_size.max(1);
        let busy = size.saturating_sub(self.places.available_permits());
        if idle.waiting.len() + busy > size && !idle.waiting.is_empty() {
            idle.waiting.remove(0);
        }
        None
    }

    /// Ends those that waited too long; tells whether any are left.
    fn reap(&self) -> bool {
        let limit = self.settings.python.idle;
        let mut idle = self.lock();
        idle.waiting
            .retain(|waiting| waiting.since.elapsed() < limit);
        idle.watched = !idle.waiting.is_empty();
        idle.watched
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the private folder of a new interpreter.
pub(super) type TempDirMaker<'m> =
    &'m (dyn Fn() -> Result<TempDir, noetl_types::TaskError> + Send + Sync);

/// Why there is no interpreter for a call.
#[derive(Debug)]
pub(super) enum TakeError {
    /// There is no folder for it.
    NoFolder(noetl_types::TaskError),
    /// It does not start.
    Lost(Lost),
}

async fn end_the_idle(pool: Weak<Pool>) {
    loop {
        let Some(pause) = pool.upgrade().map(|pool| pool.settings.python.idle / 2) else {
            return;
        };
        sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.reap() {
            return;
        }
    }
}
