//! The trait that a tool kind implements, and the context that it runs in.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Weak;

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

/// Process that works for a call.
#[derive(Debug, Clone)]
pub(crate) enum TaskProcess {
    /// Leader of a process group.
    Group(Pid),
    /// Process that a zygote has forked and stops on request.
    Forked(Weak<UnixStream>),
}

impl TaskProcess {
    /// Sends SIGTERM to its process group. Returns true if there was one.
    fn terminate(&self) -> bool {
        match self {
            Self::Group(group) => kill_process_group(*group, Signal::TERM).is_ok(),
            Self::Forked(status_socket) => status_socket
                .upgrade()
                .is_some_and(|socket| (&*socket).write_all(TERMINATE_REQUEST).is_ok()),
        }
    }
}

/// Request to a zygote to send SIGTERM to the process of a call.
const TERMINATE_REQUEST: &[u8] = b"T";

/// Context of a running call: the process that can be asked to stop, and the handle to the control
/// plane.
#[derive(Default)]
pub(crate) struct CallContext {
    process: Mutex<Option<TaskProcess>>,
    platform: PlatformHandle,
}

impl CallContext {
    /// Creates a context, with a handle to the control plane if there is one.
    pub(crate) fn new(platform: PlatformHandle) -> Self {
        Self { process: Mutex::default(), platform }
    }

    pub(crate) fn platform(&self) -> Result<&dyn Platform, TaskError> {
        self.platform.as_deref().ok_or_else(|| {
            let message = "this task requires a server, and this toolbox is not connected to one";
            TaskError::new(TaskErrorKind::Unsupported, message)
        })
    }

    /// Returns the handle to the control plane, which receives the output of the call.
    pub(crate) fn output_sink(&self) -> PlatformHandle {
        self.platform.clone()
    }

    /// Records the process that works for the call, if any.
    pub(crate) fn set_process(&self, process: Option<TaskProcess>) {
        *self.process.lock() = process;
    }

    /// Sends SIGTERM to the processes of the call. Returns true if there were any.
    pub(crate) fn terminate_process(&self) -> bool {
        let process = self.process.lock().clone();
        process.is_some_and(|process| process.terminate())
    }
}
