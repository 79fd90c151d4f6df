//! The kernel-enforced sandbox around user code.
//!
//! Owns the sandbox layers, the operator's settings for them, and the launcher that enables them:
//! the worker's own program, started again as `noetl task-sandbox REQUEST PROGRAM…`, which sandboxes
//! itself and then starts the program. So no code of a task ever runs outside the sandbox, and none
//! of this runs in the worker. Limits, process groups and private directories, which are always
//! active, are in `program`.
//!
//! A task runs as a chain of three processes. The *outer stage* leaves the worker's namespaces and
//! waits. The *inner stage* is the first process of the new namespaces: it enables the remaining
//! layers and reaps processes. The program is its child. When the outer stage ends, for any reason,
//! the kernel kills the inner stage, and with it everything in its pid namespace, including
//! processes that left the process group.

#[cfg(target_os = "linux")]
mod inner_stage;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod outer_stage;
#[cfg(target_os = "linux")]
mod seccomp;
mod status;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use noetl_types::{TaskError, TaskErrorKind};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

pub use status::SandboxStatus;

/// Argument that makes the program a launcher.
pub const LAUNCHER_COMMAND: &str = "task-sandbox";

/// Argument that starts the inner stage.
const INNER_STAGE_COMMAND: &str = "task-sandbox-inside";

/// Prefix of the task's variables while the launcher runs, so that they affect neither the launcher
/// nor its dynamic loader.
const VARIABLE_PREFIX: &str = "NOETL_OF_TASK_";

/// Exit code of a launcher that refuses or fails to start the program, as in shells.
const LAUNCH_FAILED_EXIT_CODE: u8 = 126;

/// Maximum number of processes and threads of one task, if its user namespace counts them
/// separately. A fork bomb then does not affect other tasks.
pub(crate) const MAX_TASK_PROCESSES: u64 = 1024;

/// Directories that contain sockets of the host.
const RUN_DIRS: [&str; 2] = ["/run", "/var/run"];

/// Sockets through which a task could escape the sandbox: container engines, databases, the system.
const SOCKET_NAMES: [&str; 9] = [
    "postgresql",
    "docker.sock",
    "docker",
    "containerd",
    "podman",
    "crio",
    "user",
    "dbus",
    "systemd/private",
];

/// Paths of sockets through which a task could escape the sandbox.
pub(crate) fn host_sockets() -> Vec<PathBuf> {
    let paths_in = |dir| SOCKET_NAMES.iter().map(move |name| Path::new(dir).join(name));
    RUN_DIRS.into_iter().flat_map(paths_in).collect()
}

/// Sandbox layer that requires kernel support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Privileges of the task have no effect outside its namespace.
    UserNamespace,
    /// The task sees only its own processes, and none outlives it.
    PidNamespace,
    /// The task has a separate view of the file system.
    MountNamespace,
    /// The task shares no memory and no message queue with others.
    IpcNamespace,
    /// The task has no network. Active only if the operator disables the network.
    NoNetwork,
    /// Only the private directory, private temporary directories and the operator's writable
    /// directories can be written to, and the files of the platform are hidden.
    ReadOnlyRoot,
    /// No program can gain privileges, such as by a setuid bit.
    NoNewPrivileges,
    /// System calls that tasks do not need are denied.
    Seccomp,
    /// Tasks of a worker that runs as root run as another user.
    OwnUser,
}

impl Layer {
    /// Human-readable name.
    pub fn description(self) -> &'static str {
        match self {
            Self::UserNamespace => "user namespace",
            Self::PidNamespace => "pid namespace",
            Self::MountNamespace => "mount namespace",
            Self::IpcNamespace => "ipc namespace",
            Self::NoNetwork => "no network",
            Self::ReadOnlyRoot => "read-only root",
            Self::NoNewPrivileges => "no new privileges",
            Self::Seccomp => "seccomp",
            Self::OwnUser => "separate user",
        }
    }
}

/// Layer that could not be enabled, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InactiveLayer {
    pub wall: Layer,
    /// Error from the kernel.
    pub why: String,
}

impl std::fmt::Display for InactiveLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.wall.description(), self.why)
    }
}

/// Required sandbox layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// No kernel layers.
    #[default]
    Off,
    /// All layers that the kernel allows. Tasks run as the user of the worker.
    BestEffort,
    /// All layers, or the task is refused. Tasks of a worker that runs as root run as another user.
    Strict,
}

impl SandboxMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::BestEffort => "best_effort",
            Self::Strict => "strict",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::BestEffort, Self::Strict].into_iter().find(|mode| mode.as_str() == text)
    }
}

#[derive(Debug, Clone, Default)]
pub struct SandboxSettings {
    /// Required layers.
    pub mode: SandboxMode,
    /// True if user code has no network access.
    pub is_offline: bool,
    /// Program that enables them: one that passes its arguments to [`run_launcher`] if the first is
    /// [`LAUNCHER_COMMAND`].
    pub launcher: Option<PathBuf>,
    /// Files and directories of the platform. They are hidden from tasks, and no tool accesses them
    /// for a task, with or without a sandbox.
    pub hidden: Vec<PathBuf>,
    /// Directories that tasks may write to in addition to their own. If one overlaps a hidden path,
    /// the inner of the two takes precedence.
    pub writable: Vec<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LaunchRequest {
    /// Refuses to start the program if a layer cannot be enabled.
    strict: bool,
    /// Disables the network of the task.
    offline: bool,
    private: PathBuf,
    cwd: PathBuf,
    /// Files and directories that are hidden.
    hidden: Vec<PathBuf>,
    /// Directories that can be written to.
    writable: Vec<PathBuf>,
    /// Prints the inactive layers instead of starting a program.
    probe: bool,
}

impl LaunchRequest {
    fn new(sandbox: &SandboxSettings, private: &Path, cwd: &Path, probe: bool) -> Self {
        Self {
            strict: sandbox.mode == SandboxMode::Strict,
            offline: sandbox.is_offline,
            private: private.to_owned(),
            cwd: cwd.to_owned(),
            hidden: sandbox.hidden.clone(),
            writable: sandbox.writable.clone(),
            probe,
        }
    }
}

/// Command line and environment that start a program.
#[derive(Debug)]
pub(crate) struct LaunchCommand {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// Wraps the command line of a task in the launcher, as the operator's sandbox mode requires.
pub(crate) fn wrap_in_sandbox(
    settings: &Settings,
    private: &Path,
    cwd: &Path,
    command: LaunchCommand,
) -> Result<LaunchCommand, TaskError> {
    let sandbox = &settings.sandbox;
    let launcher = match (sandbox.mode, &sandbox.launcher) {
        (SandboxMode::Off, _) | (SandboxMode::BestEffort, None) => return Ok(command),
        (SandboxMode::Strict, None) => {
            return Err(sandbox_unavailable("this build has no launcher"));
        }
        (SandboxMode::BestEffort | SandboxMode::Strict, Some(launcher)) => launcher,
    };
    let request = serde_json::to_string(&LaunchRequest::new(sandbox, private, cwd, false));
    let request = request.map_err(|error| sandbox_unavailable(&error.to_string()))?;
    let mut argv =
        vec![launcher.to_string_lossy().into_owned(), LAUNCHER_COMMAND.to_owned(), request];
    argv.extend(command.argv);
    let environment = command.environment.into_iter();
    let environment = environment.map(|(name, value)| (format!("{VARIABLE_PREFIX}{name}"), value));
    Ok(LaunchCommand { argv, environment: environment.collect() })
}

fn sandbox_unavailable(reason: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!("the sandbox cannot be enabled, but NOETL_SANDBOX=strict requires it: {reason}"),
    )
}

/// Makes this process accessible only to root, including through a core dump. A worker has secrets
/// in its memory and environment, and without the sandbox its tasks run as the same user.
pub fn hide_this_process() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The kernel always permits this.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Runs the launcher: enables the sandbox for this process and runs a program in it. `args` are the
/// arguments after the program's own name. Returns `None` if they do not start a launcher.
///
/// The caller must not have started a thread.
pub fn run_launcher(args: &[OsString]) -> Option<u8> {
    let (command, rest) = args.split_first()?;
    let is_inner = match command.to_str()? {
        LAUNCHER_COMMAND => false,
        INNER_STAGE_COMMAND => true,
        _ => return None,
    };
    Some(run_stage(is_inner, rest))
}

#[cfg(target_os = "linux")]
fn run_stage(is_inner: bool, args: &[OsString]) -> u8 {
    let result = if is_inner { inner_stage::run(args) } else { outer_stage::run(args) };
    result.unwrap_or_else(|reason| {
        use std::io::Write as _;
        // If this cannot be written, the exit code is the only signal.
        let _ = writeln!(std::io::stderr(), "noetl: {reason}");
        LAUNCH_FAILED_EXIT_CODE
    })
}

#[cfg(not(target_os = "linux"))]
fn run_stage(_is_inner: bool, _args: &[OsString]) -> u8 {
    LAUNCH_FAILED_EXIT_CODE
}
