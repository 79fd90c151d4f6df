//! The trait that a tool kind implements, and the context that it runs in.

use async_trait::async_trait;
use noetl_types::{TaskError, TaskErrorKind};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::Semaphore;

use crate::call::{ToolCall, ToolOutcome};
use crate::platform::{Platform, PlatformHandle};

/// A tool kind.
///
/// A tool handles neither timeouts nor cancellation: the toolbox drops its future when time is up,
/// so everything that the future owns must clean up when it is dropped.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    /// Runs the call. An error without data may be returned as `Err`.
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError>;

    /// Permits that calls of this kind compete for, if their number is limited. Time spent waiting
    /// for a permit does not count toward the attempt's timeout.
    fn call_permits(&self) -> Option<&Semaphore> {
        None
    }

    /// Releases state that is kept for a command.
    fn release_command(&self, _command: &str) {}

    /// Releases resources that are held between calls.
    async fn shutdown(&self) {}
}

/// Runs a blocking function on a separate thread. `name` describes the thread in an error.
pub(crate) async fn run_blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let message = format!("the {name} thread ended unexpectedly: {error}");
        TaskError::new(TaskErrorKind::Unknown, message)
    })
}

/// Context of a running call: the process group that can be asked to stop, and the handle to the
/// control plane.
#[derive(Default)]
pub(crate) struct CallContext {
    group: Mutex<Option<Pid>>,
    platform: PlatformHandle,
}

impl CallContext {
    /// Creates a context, with a handle to the control plane if there is one.
    pub(crate) fn new(platform: PlatformHandle) -> Self {
        Self { group: Mutex::default(), platform }
    }

    pub(crate) fn platform(&self) -> Result<&dyn Platform, TaskError> {
        self.platform.as_deref().ok_or_else(|| {
            let message = "this task requires a server, and this toolbox is not connected to one";
            TaskError::new(TaskErrorKind::Unsupported, message)
        })
    }

    /// Records the process group that works for the call, if any.
    pub(crate) fn set_process_group(&self, group: Option<Pid>) {
        *self.group.lock() = group;
    }

    /// Sends SIGTERM to the processes of the call. Returns true if there were any.
    pub(crate) fn terminate_group(&self) -> bool {
        self.group.lock().is_some_and(|group| kill_process_group(group, Signal::TERM).is_ok())
    }
}
