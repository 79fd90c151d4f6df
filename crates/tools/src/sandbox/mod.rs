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
mod visible_paths;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use noetl_types::{Json, TaskError, TaskErrorKind};
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

/// World-writable directories. Each task gets its own, in memory.
const TEMPORARY_DIRS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Mount options of a temporary directory, with its maximum size.
const TEMPORARY_DIR_OPTIONS: &str = "mode=1777,size=1073741824";

/// Mount options of `/proc`: processes that a task may not inspect are invisible.
const PROC_OPTIONS: &str = "hidepid=2";

/// User and group of tasks of a worker that runs as root, unless the operator chooses another. Not in
/// use on common systems.
pub const DEFAULT_TASK_USER: u32 = 64_999;

/// Directories that contain sockets of the host.
const RUN_DIRS: [&str; 2] = ["/run", "/var/run"];

/// Sockets through which a task could escape the sandbox: container engines, databases, the system.
const SOCKET_NAMES: [&str; 9] = [
    "postgresql", "docker.sock", "docker", "containerd", "podman", "crio", "user", "dbus",
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
    /// The task sees only the files of the system that programs need and those that the operator
    /// names. Only the private directory, private temporary directories and the operator's writable
    /// directories can be written to.
    ReadOnlyRoot,
    /// No program can gain privileges, such as by a setuid bit.
    NoNewPrivileges,
    /// Only the system calls that programs need are available.
    Seccomp,
    /// Abstract Unix sockets of other processes are closed. Requires Landlock of Linux 6.12, so that
    /// it is required in no mode.
    Landlock,
    /// Tasks of a worker that runs as root run as another user.
    OwnUser,
}

/// Layers without which a task can access files and processes of the machine.
const ESSENTIAL_LAYERS: [Layer; 3] =
    [Layer::MountNamespace, Layer::PidNamespace, Layer::ReadOnlyRoot];

impl Layer {
    /// True if tasks are refused without this layer.
    fn is_required(self, strict: bool) -> bool {
        (strict && self != Self::Landlock) || ESSENTIAL_LAYERS.contains(&self)
    }

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
            Self::Landlock => "landlock",
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
    /// All layers that the kernel allows.
    BestEffort,
    /// All layers, or the task is refused.
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

#[derive(Debug, Clone)]
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
    /// Files and directories that tasks may read in addition to those of the system.
    pub readable: Vec<PathBuf>,
    /// User and group id of tasks of a worker that runs as root; `None` is the worker's own.
    pub user: Option<u32>,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            mode: SandboxMode::default(),
            is_offline: false,
            launcher: None,
            hidden: Vec::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            user: Some(DEFAULT_TASK_USER),
        }
    }
}

impl SandboxSettings {
    /// True if tasks run in the launcher.
    pub(crate) fn is_enabled(&self) -> bool {
        match self.mode {
            SandboxMode::Off => false,
            SandboxMode::BestEffort => self.launcher.is_some(),
            SandboxMode::Strict => true,
        }
    }
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
    /// Files and directories that can be read.
    readable: Vec<PathBuf>,
    /// User and group of the task, if the worker runs as root.
    user: Option<u32>,
    purpose: LaunchPurpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum LaunchPurpose {
    /// Starts the program of a task.
    Task,
    /// Leaves to the program what it needs to isolate its own children, see [`ZygoteIsolation`].
    Zygote,
    /// Prints the inactive layers instead of starting a program.
    Probe,
}

impl LaunchRequest {
    fn new(settings: &Settings, private: &Path, cwd: &Path) -> Self {
        let sandbox = &settings.sandbox;
        Self {
            strict: sandbox.mode == SandboxMode::Strict,
            offline: sandbox.is_offline,
            private: private.to_owned(),
            cwd: cwd.to_owned(),
            hidden: sandbox.hidden.clone(),
            writable: sandbox.writable.clone(),
            readable: visible_paths::find_visible_paths(settings),
            user: sandbox.user,
            purpose: LaunchPurpose::Task,
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
    if !settings.sandbox.is_enabled() {
        return Ok(command);
    }
    let request = LaunchRequest::new(settings, private, cwd);
    wrap_request(&settings.sandbox, &request, command)
}

/// Wraps the command line of a zygote in the launcher. The zygote isolates each process that it
/// forks.
pub(crate) fn wrap_zygote_in_sandbox(
    settings: &Settings,
    private: &Path,
    command: LaunchCommand,
) -> Result<(LaunchCommand, ZygoteIsolation), TaskError> {
    let mut request = LaunchRequest::new(settings, private, private);
    request.purpose = LaunchPurpose::Zygote;
    let isolation = ZygoteIsolation::new(&request).map_err(|error| sandbox_unavailable(&error))?;
    Ok((wrap_request(&settings.sandbox, &request, command)?, isolation))
}

fn wrap_request(
    sandbox: &SandboxSettings,
    request: &LaunchRequest,
    command: LaunchCommand,
) -> Result<LaunchCommand, TaskError> {
    let launcher = sandbox.launcher.as_ref();
    let launcher = launcher.ok_or_else(|| sandbox_unavailable("this build has no launcher"))?;
    let request = serde_json::to_string(request);
    let request = request.map_err(|error| sandbox_unavailable(&error.to_string()))?;
    let mut argv =
        vec![launcher.to_string_lossy().into_owned(), LAUNCHER_COMMAND.to_owned(), request];
    argv.extend(command.argv);
    let environment = command.environment.into_iter();
    let environment = environment.map(|(name, value)| (format!("{VARIABLE_PREFIX}{name}"), value));
    Ok(LaunchCommand { argv, environment: environment.collect() })
}

/// Instructions for a zygote to isolate the processes that it forks. The layers are those that the
/// inner stage enables for other programs, and further namespaces inside the zygote's.
#[derive(Debug)]
pub(crate) struct ZygoteIsolation {
    /// Seccomp filters, as the kernel reads them.
    filters: Vec<Vec<u8>>,
    /// Paths below the temporary directories that stay available.
    kept: Vec<PathBuf>,
}

impl ZygoteIsolation {
    fn new(request: &LaunchRequest) -> Result<Self, String> {
        #[cfg(target_os = "linux")]
        let filters = seccomp::encode_filters(request.offline)?;
        #[cfg(not(target_os = "linux"))]
        let filters = Vec::new();
        let paths = request.writable.iter().chain(&request.readable);
        let paths = paths.filter_map(|path| path.canonicalize().ok());
        let is_temporary = |path: &PathBuf| TEMPORARY_DIRS.iter().any(|dir| path.starts_with(dir));
        let mut kept: Vec<_> = paths.filter(is_temporary).collect();
        kept.sort();
        Ok(Self { filters, kept })
    }

    pub(crate) fn to_json(&self) -> Json {
        let to_hex = |bytes: &Vec<u8>| {
            Json::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        };
        let texts = |texts: &[&str]| Json::list(texts.iter().map(|text| Json::from(*text)));
        let kept = self.kept.iter().map(|path| Json::from(&*path.to_string_lossy()));
        Json::object([
            ("filters", Json::list(self.filters.iter().map(to_hex))),
            ("temporary", texts(&TEMPORARY_DIRS)),
            ("temporary_options", Json::from(TEMPORARY_DIR_OPTIONS)),
            ("proc_options", Json::from(PROC_OPTIONS)),
            ("kept", Json::list(kept)),
            ("processes", Json::from(MAX_TASK_PROCESSES)),
        ])
    }
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
