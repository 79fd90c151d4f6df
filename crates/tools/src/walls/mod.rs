//! The walls around user code that only the kernel can raise.
//!
//! Owns which walls there are, what the operator wants of them, and the launcher that raises them:
//! the worker's own program, started anew as `noetl task-walls ORDER PROGRAM…`, walls itself in and
//! then starts the program. So no code of a task ever runs outside of them, and none of this runs
//! in the worker. Limits, groups and folders, which always stand, are `program` and `process`.
//!
//! Three processes stand behind each other. The *outside* leaves the worker's namespaces and waits;
//! the *inside* is the first process of the new ones, finishes the walls and reaps; the program is
//! its child. When the outside ends, however it does, the kernel ends the inside, and with it
//! everything in its pid namespace, also what left the process group.

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod outside;
mod standing;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use noetl_types::{TaskError, TaskErrorKind};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

pub use standing::Standing;

/// The word that makes the program a launcher.
pub const LAUNCHER_WORD: &str = "task-walls";

/// The word of the second stage.
const INSIDE_WORD: &str = "task-walls-inside";

/// The launcher keeps the variables of a task under names that mean nothing to it or to its loader.
const VARIABLE_PREFIX: &str = "NOETL_OF_TASK_";

/// What the launcher ends with when it refuses or cannot start the program, as shells do.
const REFUSED: u8 = 126;

/// Processes and threads of one task, where its user namespace counts them by themselves: one that
/// multiplies takes nothing from the others.
pub(crate) const MOST_PROCESSES: u64 = 1024;

/// Folders that sockets of the machine are in.
const RUN: [&str; 2] = ["/run", "/var/run"];

/// Sockets that would lead a task out of its walls: engines of containers, databases, the system.
const SOCKETS: [&str; 9] = [
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

/// Where sockets are that would lead a task out of its walls.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let of = |folder| SOCKETS.iter().map(move |name| Path::new(folder).join(name));
    RUN.into_iter().flat_map(of).collect()
}

/// A wall that needs the kernel's leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// Privileges of the task are worth nothing outside.
    UserNamespace,
    /// The task sees no process but its own, and none outlives it.
    PidNamespace,
    /// The task has a view of the files of its own.
    MountNamespace,
    /// The task shares no memory and no queue with others.
    IpcNamespace,
    /// The task has no network, where the operator turned it off.
    NoNetwork,
    /// Only the private folder, private temporary folders and what the operator names can be written
    /// to, and the files of the platform are not there.
    ReadOnlyRoot,
    /// No program gives the task a privilege.
    NoNewPrivileges,
    /// System calls that tasks have no business with are refused.
    Seccomp,
    /// A worker of the superuser runs tasks as another user.
    OwnUser,
}

impl Wall {
    /// Its name, in code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserNamespace => "user_namespace",
            Self::PidNamespace => "pid_namespace",
            Self::MountNamespace => "mount_namespace",
            Self::IpcNamespace => "ipc_namespace",
            Self::NoNetwork => "no_network",
            Self::ReadOnlyRoot => "read_only_root",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Seccomp => "seccomp",
            Self::OwnUser => "own_user",
        }
    }

    /// Its name, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::UserNamespace => "a user namespace",
            Self::PidNamespace => "a pid namespace",
            Self::MountNamespace => "a mount namespace",
            Self::IpcNamespace => "an ipc namespace",
            Self::NoNetwork => "no network",
            Self::ReadOnlyRoot => "a read-only root",
            Self::NoNewPrivileges => "no new privileges",
            Self::Seccomp => "seccomp",
            Self::OwnUser => "a user of its own",
        }
    }
}

/// A wall that could not be raised, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The wall.
    pub wall: Wall,
    /// What the kernel said.
    pub why: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.wall.words(), self.why)
    }
}

/// How much of the walls must stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// Only those that always stand.
    #[default]
    Off,
    /// As many as the kernel allows. Tasks keep the user of the worker.
    BestEffort,
    /// All of them, or the task is refused. Tasks of a superuser's worker run as another user.
    Strict,
}

impl SandboxMode {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::BestEffort => "best_effort",
            Self::Strict => "strict",
        }
    }

    /// Reads a word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::BestEffort, Self::Strict]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// What the operator wants of the walls.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    /// How much of them must stand.
    pub mode: SandboxMode,
    /// Whether user code has no network.
    pub is_offline: bool,
    /// The program that raises them: one that hands its arguments to [`launch`] where the first is
    /// [`LAUNCHER_WORD`].
    pub launcher: Option<PathBuf>,
    /// Files and folders of the platform, which tasks do not see, and which no tool touches for them
    /// either, with walls or without.
    pub hidden: Vec<PathBuf>,
    /// Folders that tasks may write to besides their own. Where one has to do with a hidden place,
    /// the inner of the two is what it is.
    pub writable: Vec<PathBuf>,
}

/// What the launcher is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    /// Whether a wall that cannot be raised ends it all.
    strict: bool,
    /// Whether the task has no network.
    offline: bool,
    /// The private folder of the task.
    private: PathBuf,
    /// The folder that the program begins in.
    cwd: PathBuf,
    /// Files and folders that are not to be seen.
    hidden: Vec<PathBuf>,
    /// Folders that can be written to.
    writable: Vec<PathBuf>,
    /// Whether the walls that stand are told instead of starting a program.
    probe: bool,
}

/// The words that start a program within the walls, and the variables that it gets.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The variables.
    pub(crate) environment: Vec<(String, String)>,
}

/// How a program of a task is started: within the walls that the operator wants.
pub(crate) fn walled(
    settings: &Settings,
    private: &Path,
    cwd: &Path,
    plain: Launch,
) -> Result<Launch, TaskError> {
    let sandbox = &settings.sandbox;
    let strict = match sandbox.mode {
        SandboxMode::Off => return Ok(plain),
        SandboxMode::BestEffort => false,
        SandboxMode::Strict => true,
    };
    let Some(launcher) = &sandbox.launcher else {
        return if strict {
            Err(refused("this build has no launcher that raises them"))
        } else {
            Ok(plain)
        };
    };
    let order = Order {
        strict,
        offline: sandbox.is_offline,
        private: private.to_owned(),
        cwd: cwd.to_owned(),
        hidden: sandbox.hidden.clone(),
        writable: sandbox.writable.clone(),
        probe: false,
    };
    let order = serde_json::to_string(&order).map_err(|error| refused(&error.to_string()))?;
    let mut words = vec![
        launcher.to_string_lossy().into_owned(),
        LAUNCHER_WORD.to_owned(),
        order,
    ];
    words.extend(plain.words);
    let environment = plain.environment.into_iter();
    let environment = environment.map(|(name, value)| (format!("{VARIABLE_PREFIX}{name}"), value));
    Ok(Launch {
        words,
        environment: environment.collect(),
    })
}

fn refused(why: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!(
            "the walls around tasks cannot be raised, and NOETL_SANDBOX=strict asks for them: {why}"
        ),
    )
}

/// Lets nobody but the superuser look into this process, not even by a core dump: what a worker knows
/// is in its memory and in its environment, and its tasks run as the same user where they have no walls
/// of their own.
pub fn hide_this_process() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The kernel refuses nobody this.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Raises the walls around this process and runs a program within them: what a launcher does with
/// the arguments after its own name. `None` where they do not ask for that.
///
/// The caller must not have started a thread.
pub fn launch(args: &[OsString]) -> Option<u8> {
    let (word, rest) = args.split_first()?;
    let is_inside = match word.to_str()? {
        LAUNCHER_WORD => false,
        INSIDE_WORD => true,
        _ => return None,
    };
    Some(stage(is_inside, rest))
}

#[cfg(target_os = "linux")]
fn stage(is_inside: bool, args: &[OsString]) -> u8 {
    let ended = if is_inside {
        inside::run(args)
    } else {
        outside::run(args)
    };
    ended.unwrap_or_else(|why| {
        use std::io::Write as _;
        // Where even that cannot be told, the exit code has to say it all.
        let _ = writeln!(std::io::stderr(), "noetl: {why}");
        REFUSED
    })
}

#[cfg(not(target_os = "linux"))]
fn stage(_is_inside: bool, _args: &[OsString]) -> u8 {
    REFUSED
}
