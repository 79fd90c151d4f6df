//! What a kind has to provide, and what it can rely on while it runs.

use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;
use noetl_types::{TaskError, TaskErrorKind};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::Semaphore;

use crate::call::{Call, Outcome};
use crate::platform::{Platform, PlatformHandle};

/// A tool kind.
///
/// A tool does not watch the clock and does not know of cancellation: the toolbox drops its future
/// when time is up, so whatever the future owns must clean up when it is dropped.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    /// Does the work.
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome;

    /// The places that calls of this kind compete for. Waiting for one does not count as time of
    /// the attempt.
    fn places(&self) -> Option<&Semaphore> {
        None
    }

    /// Frees what is held between calls.
    async fn shutdown(&self) {}
}

/// What surrounds a call that runs: the process group that may be asked to stop, and the way to the
/// control plane.
#[derive(Default)]
pub(crate) struct Scope {
    group: Mutex<Option<Pid>>,
    platform: PlatformHandle,
}

impl Scope {
    /// The surroundings of a call, with a way to the control plane where there is one.
    pub(crate) fn new(platform: PlatformHandle) -> Self {
        Self {
            group: Mutex::default(),
            platform,
        }
    }

    /// The control plane.
    pub(crate) fn platform(&self) -> Result<&dyn Platform, TaskError> {
        self.platform.as_deref().ok_or_else(|| {
            let message = "this needs a server, and these tools are not connected to one";
            TaskError::new(TaskErrorKind::Unsupported, message)
        })
    }

    /// Tells which process group works for the call now.
    pub(crate) fn enter_group(&self, group: Pid) {
        *self.lock() = Some(group);
    }

    /// Tells that no process works for the call any more.
    pub(crate) fn leave_group(&self) {
        *self.lock() = None;
    }

    /// Asks the processes of the call to end; tells whether there are any.
    pub(crate) fn terminate(&self) -> bool {
        let group = self.lock();
        group.is_some_and(|group| kill_process_group(group, Signal::TERM).is_ok())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Pid>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
