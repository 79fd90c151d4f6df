//! Pool of warm interpreters: their number, their assignment to calls, and their replacement.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::{TaskError, TaskErrorKind};
use tokio::sync::Semaphore;

use super::interpreter::Interpreter;
use crate::idle::IdlePool;
use crate::program::create_private_dir;
use crate::settings::Settings;

/// Startup parameters of an interpreter, which determine the calls that it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterpreterKey {
    pub(super) program: String,
    /// Variables that have an effect only at the start of a process.
    pub(super) environment: BTreeMap<String, String>,
}

/// Interpreters of a toolbox.
#[derive(Debug)]
pub(super) struct InterpreterPool {
    settings: Arc<Settings>,
    /// Permits that calls compete for.
    pub(super) permits: Semaphore,
    idle: Arc<IdlePool<InterpreterKey, Interpreter>>,
}

impl InterpreterPool {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            permits: Semaphore::new(settings.python.pool_size.max(1)),
            idle: IdlePool::new(settings.python.idle),
            settings,
        }
    }

    /// Returns an interpreter for a call, or starts a new one if none is idle. The caller holds a
    /// permit.
    pub(super) async fn acquire(&self, key: &InterpreterKey) -> Result<Interpreter, TaskError> {
        if let Some((interpreter, _)) = self.idle.take(key) {
            return Ok(interpreter);
        }
        // A new interpreter is about to start and may have to replace an idle one with another key.
        // All permits that are not available are held by busy calls, including this one.
        self.idle.shrink_to(self.permits.available_permits());
        let scratch = create_private_dir(&self.settings)?;
        Interpreter::start(key, &self.settings, scratch).await.map_err(|error| {
            TaskError::new(
                TaskErrorKind::Unsupported,
                format!(
                    "python steps need Python 3.8 or newer on the worker, but '{}' cannot be \
                     started ({error}); install it, or name another interpreter with 'python'",
                    key.program
                ),
            )
        })
    }

    /// Returns an interpreter to the pool for the next call.
    pub(super) fn release(&self, key: InterpreterKey, interpreter: Interpreter) {
        if interpreter.calls() < self.settings.python.max_calls {
            self.idle.put(key, interpreter);
        }
    }

    /// Ends idle interpreters now, and all others when their calls end.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.close();
    }
}
