//! The inner stage: the first process of the new namespaces. Enables the remaining layers, starts
//! the program and reaps orphaned processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Command;

use landlock::{CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetError, Scope};
use nix::sys::signal::SigSet;
use rustix::process::{
    Resource, Rlimit, Signal, WaitOptions, getrlimit, set_parent_process_death_signal, setrlimit,
    wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use super::outer_stage::SandboxState;
use super::{
    LaunchPurpose, Layer, MAX_TASK_PROCESSES, TEMPORARY_DIRS, VARIABLE_PREFIX, mounts, seccomp,
};

/// Enables the remaining layers and runs the program.
pub(super) fn run(args: &[OsString]) -> Result<u8, String> {
    let (state, program) = args.split_first().ok_or("the state is missing")?;
    let state = state.to_str().ok_or("the state is not text")?;
    let mut state: SandboxState = serde_json::from_str(state).map_err(|error| error.to_string())?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let no_signals = SigSet::empty();
    no_signals.thread_set_mask().map_err(|error| error.to_string())?;
    enable_remaining_layers(&mut state);
    state.check_required()?;
    if state.request.purpose == LaunchPurpose::Probe {
        let report = serde_json::to_vec(&state.missing).map_err(|error| error.to_string())?;
        std::io::stdout().write_all(&report).map_err(|error| error.to_string())?;
        return Ok(0);
    }
    run_program(&state, program)
}

fn enable_remaining_layers(state: &mut SandboxState) {
    if state.is_active(Layer::MountNamespace) {
        let has_pid_namespace = state.is_active(Layer::PidNamespace);
        let entered = mounts::enter_private_root(&state.request, has_pid_namespace);
        state.record_layer(Layer::ReadOnlyRoot, entered);
    } else {
        state.record_layer(Layer::ReadOnlyRoot, Err("requires a mount namespace".to_owned()));
    }
    // Code of the task must not read the memory of this process, nor follow the links of its
    // entries in /proc.
    super::hide_this_process();
    if state.request.purpose == LaunchPurpose::Zygote {
        // Each of its processes drops the privileges and enables the filters.
        let result = set_no_new_privs(true).map_err(|error| error.to_string());
        state.record_layer(Layer::NoNewPrivileges, result);
        return;
    }
    if state.is_active(Layer::UserNamespace) {
        limit_processes();
    }
    state.record_layer(Layer::NoNewPrivileges, drop_privileges());
    state.record_layer(Layer::Landlock, enable_landlock().map_err(|error| error.to_string()));
    state.record_layer(Layer::Seccomp, seccomp::enable_seccomp(state.request.offline));
}

/// Lowers the process limit of the task. The kernel counts processes per user of each user
/// namespace, so the limit applies to this task alone and can be much lower than one that all tasks
/// share.
fn limit_processes() {
    let current = getrlimit(Resource::Nproc);
    let lower = |limit: Option<u64>| {
        Some(limit.map_or(MAX_TASK_PROCESSES, |limit| limit.min(MAX_TASK_PROCESSES)))
    };
    let lowered = Rlimit { current: lower(current.current), maximum: lower(current.maximum) };
    // Lowering a limit is always permitted.
    let _ = setrlimit(Resource::Nproc, lowered);
}

/// Drops all privileges of this process and its children, including those inside its namespaces.
fn drop_privileges() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // This fails for capabilities that the kernel does not know or that the process may not
        // drop. Unless the user is root, the following calls drop them.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let empty = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, empty).map_err(|error| error.to_string())?;
    set_no_new_privs(true).map_err(|error| error.to_string())
}

/// Closes the abstract Unix sockets of processes outside of the sandbox, which no namespace hides as
/// long as the task has a network.
fn enable_landlock() -> Result<(), RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .restrict_self()
        .map(drop)
}

fn run_program(state: &SandboxState, program: &[OsString]) -> Result<u8, String> {
    let (name, args) = program.split_first().ok_or("the program is missing")?;
    let mut variables = task_variables();
    if state.is_active(Layer::ReadOnlyRoot)
        && let Some(temporary) = variables.get_mut(OsStr::new("TMPDIR"))
    {
        // The worker's own does not exist here.
        *temporary = TEMPORARY_DIRS[0].into();
    }
    let child = Command::new(name)
        .args(args)
        .env_clear()
        .envs(variables)
        .current_dir(&state.request.cwd)
        .spawn()
        .map_err(|error| {
            let cwd = &state.request.cwd;
            if cwd.is_dir() {
                format!(
                    "'{}' cannot be started: {error} (tasks see the programs of the system and of \
                     PATH; NOETL_SANDBOX_READABLE adds others)",
                    name.display()
                )
            } else {
                format!(
                    "the folder '{}' is not visible to tasks; add it to NOETL_SANDBOX_READABLE or \
                     NOETL_SANDBOX_WRITABLE",
                    cwd.display()
                )
            }
        })?;
    let child = i32::try_from(child.id()).ok();
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid.as_raw_nonzero().get()) == child => {
                let code =
                    status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            // An orphaned process, or an interrupted wait.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Home directory of the task.
pub(super) fn task_home() -> Option<PathBuf> {
    let home = PathBuf::from(task_variables().remove(OsStr::new("HOME"))?);
    home.is_absolute().then_some(home)
}

/// Environment variables of the task, with their original names.
fn task_variables() -> BTreeMap<OsString, OsString> {
    let restore_name = |(name, value): (OsString, OsString)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    };
    std::env::vars_os().filter_map(restore_name).collect()
}
