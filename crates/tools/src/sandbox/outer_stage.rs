//! The outer stage: leaves the namespaces of the worker and waits for the inner stage.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

use super::{INNER_STAGE_COMMAND, InactiveLayer, LaunchPurpose, LaunchRequest, Layer};

/// State that the inner stage receives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SandboxState {
    pub(super) request: LaunchRequest,
    /// Active layers of the outer stage.
    pub(super) active: Vec<Layer>,
    pub(super) missing: Vec<InactiveLayer>,
}

impl SandboxState {
    /// Records the result of enabling a layer.
    pub(super) fn record_layer(&mut self, layer: Layer, result: Result<(), String>) {
        match result {
            Ok(()) => self.active.push(layer),
            Err(why) => self.missing.push(InactiveLayer { wall: layer, why }),
        }
    }

    pub(super) fn is_active(&self, layer: Layer) -> bool {
        self.active.contains(&layer)
    }

    /// Returns an error if a required layer is inactive: in strict mode any, and otherwise one
    /// without which the task would not be isolated.
    pub(super) fn check_required(&self) -> Result<(), String> {
        if self.request.purpose == LaunchPurpose::Probe {
            return Ok(());
        }
        let strict = self.request.strict;
        let is_required = |missing: &&InactiveLayer| missing.wall.is_required(strict);
        match self.missing.iter().find(is_required) {
            Some(missing) if strict => Err(format!(
                "sandbox layer {missing} cannot be enabled, but NOETL_SANDBOX=strict requires it"
            )),
            Some(missing) => Err(format!(
                "this worker cannot isolate tasks, because sandbox layer {missing} cannot be \
                 enabled; allow user namespaces, or set NOETL_SANDBOX=off if you trust all authors \
                 of the playbooks that it runs"
            )),
            None => Ok(()),
        }
    }
}

/// Enables the layers that must be enabled before the inner stage, and waits for it.
pub(super) fn run(args: &[OsString]) -> Result<u8, String> {
    let (request, program) = args.split_first().ok_or("the launch request is missing")?;
    let request = request.to_str().ok_or("the launch request is not text")?;
    let request: LaunchRequest =
        serde_json::from_str(request).map_err(|error| error.to_string())?;
    close_inherited_descriptors().map_err(|error| error.to_string())?;
    // Termination signals are for the program, which also gets them as a member of the same group.
    // This process must live until the program has ended.
    let termination_signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];
    let termination_signals: SigSet = termination_signals.into_iter().collect();
    termination_signals.thread_block().map_err(|error| error.to_string())?;
    let state = unshare_namespaces(request);
    state.check_required()?;
    let state = serde_json::to_string(&state).map_err(|error| error.to_string())?;
    let mut inner = Command::new("/proc/self/exe")
        .arg(INNER_STAGE_COMMAND)
        .arg(state)
        .args(program)
        .spawn()
        .map_err(|error| format!("the sandbox cannot be enabled: {error}"))?;
    let status = inner.wait().map_err(|error| error.to_string())?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Closes descriptors that the process that started the worker left open.
fn close_inherited_descriptors() -> std::io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<std::io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // The directory itself is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Leaves the namespaces one by one, so that each reports separately if it is available.
fn unshare_namespaces(request: LaunchRequest) -> SandboxState {
    let mut state = SandboxState { active: Vec::new(), missing: Vec::new(), request };
    if geteuid().is_root() {
        let result = match state.request.user {
            Some(user) => switch_to_task_user(user, &state.request.private),
            None => Err("NOETL_SANDBOX_USER=worker".to_owned()),
        };
        state.record_layer(Layer::OwnUser, result);
    }
    // The ids are unchanged, so that the task owns the same files inside and outside.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let user_namespace = unshare_namespace(CloneFlags::CLONE_NEWUSER).and_then(|()| {
        let write = |file: &str, text: String| {
            fs::write(format!("/proc/self/{file}"), text).map_err(|error| error.to_string())
        };
        write("setgroups", "deny".to_owned())?;
        write("uid_map", format!("{user} {user} 1"))?;
        write("gid_map", format!("{group} {group} 1"))?;
        pass_capabilities().map_err(|error| error.to_string())
    });
    state.record_layer(Layer::UserNamespace, user_namespace);
    for (layer, flag, is_required) in [
        (Layer::MountNamespace, CloneFlags::CLONE_NEWNS, true),
        (Layer::IpcNamespace, CloneFlags::CLONE_NEWIPC, true),
        (Layer::NoNetwork, CloneFlags::CLONE_NEWNET, state.request.offline),
        (Layer::PidNamespace, CloneFlags::CLONE_NEWPID, true),
    ] {
        if is_required {
            state.record_layer(layer, unshare_namespace(flag));
        }
    }
    state
}

/// Passes to the inner stage the capabilities that it needs. A process that is not root loses its
/// capabilities when it executes another program.
fn pass_capabilities() -> rustix::io::Result<()> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    let mut current = capabilities(None)?;
    current.inheritable |= needed;
    set_capabilities(None, current)?;
    needed.iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

fn unshare_namespace(flag: CloneFlags) -> Result<(), String> {
    unshare(flag).map_err(|error| error.desc().to_owned())
}

/// Changes the owner of the private directory to the user of tasks and switches to that user.
fn switch_to_task_user(id: u32, private: &Path) -> Result<(), String> {
    let user = rustix::fs::Uid::from_raw(id);
    let group = rustix::fs::Gid::from_raw(id);
    chown_recursive(private, id, 0).map_err(|error| format!("the private folder: {error}"))?;
    let switch_user = || {
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // Otherwise a process that changed its user does not own its files in /proc, including the
        // id maps of its namespace.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
    };
    switch_user().map_err(|error: rustix::io::Errno| error.to_string())
}

/// Maximum directory depth of the change of owner. A private directory is shallow before its task
/// starts.
const MAX_CHOWN_DEPTH: u32 = 4;

fn chown_recursive(path: &Path, id: u32, depth: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(id), Some(id))?;
    if depth < MAX_CHOWN_DEPTH && fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            chown_recursive(&entry?.path(), id, depth + 1)?;
        }
    }
    Ok(())
}
