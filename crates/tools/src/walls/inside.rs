//! The second stage: the first process of the new namespaces. Finishes the walls, starts the
//! program and reaps whatever is left to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::process::{
    Resource, Rlimit, Signal, WaitOptions, getrlimit, set_parent_process_death_signal, setrlimit,
    wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use super::outside::Raised;
use super::{MOST_PROCESSES, VARIABLE_PREFIX, Wall, files, filter};

/// Finishes the walls and runs the program.
pub(super) fn run(args: &[OsString]) -> Result<u8, String> {
    let (state, program) = args.split_first().ok_or("the state is missing")?;
    let state = state.to_str().ok_or("the state is not text")?;
    let mut raised: Raised = serde_json::from_str(state).map_err(|error| error.to_string())?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let calm = SigSet::empty();
    calm.thread_set_mask().map_err(|error| error.to_string())?;
    finish(&mut raised);
    raised.stand()?;
    if raised.order.probe {
        let told = serde_json::to_vec(&raised.missing).map_err(|error| error.to_string())?;
        std::io::stdout()
            .write_all(&told)
            .map_err(|error| error.to_string())?;
        return Ok(0);
    }
    start(&raised, program)
}

fn finish(raised: &mut Raised) {
    if raised.is_up(Wall::MountNamespace) {
        let has_own_pids = raised.is_up(Wall::PidNamespace);
        if has_own_pids && let Err(why) = files::own_proc() {
            raised.up.retain(|wall| *wall != Wall::PidNamespace);
            raised.note(
                Wall::PidNamespace,
                Err(format!("its /proc cannot be mounted: {why}")),
            );
        }
        raised.note(Wall::ReadOnlyRoot, files::raise(&raised.order));
    } else {
        raised.note(
            Wall::ReadOnlyRoot,
            Err("it needs a mount namespace".to_owned()),
        );
    }
    if raised.is_up(Wall::UserNamespace) {
        count_processes();
    }
    raised.note(Wall::NoNewPrivileges, give_up_privileges());
    raised.note(Wall::Seccomp, filter::raise());
}

/// The kernel counts processes for each user of each user namespace, so that this is the task's own
/// limit, and can be much lower than one that all tasks share.
fn count_processes() {
    let current = getrlimit(Resource::Nproc);
    let most =
        |limit: Option<u64>| Some(limit.map_or(MOST_PROCESSES, |limit| limit.min(MOST_PROCESSES)));
    let lowered = Rlimit {
        current: most(current.current),
        maximum: most(current.maximum),
    };
    // A limit is only lowered, which nobody is refused.
    let _ = setrlimit(Resource::Nproc, lowered);
}

/// Nothing that this process starts has or gets a privilege, not even within its namespaces.
fn give_up_privileges() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // Kernels that do not know one, and processes that may not give one up, have it no more
        // after what follows unless the user is the superuser.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| error.to_string())?;
    set_no_new_privs(true).map_err(|error| error.to_string())
}

fn start(raised: &Raised, program: &[OsString]) -> Result<u8, String> {
    let (name, args) = program.split_first().ok_or("a program is missing")?;
    let child = Command::new(name)
        .args(args)
        .env_clear()
        .envs(variables())
        .current_dir(&raised.order.cwd)
        .spawn()
        .map_err(|error| {
            let cwd = &raised.order.cwd;
            if cwd.is_dir() {
                format!("'{}' cannot be started: {error}", name.display())
            } else {
                format!("the folder '{}' is not to be seen by tasks", cwd.display())
            }
        })?;
    let child = i32::try_from(child.id()).ok();
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid.as_raw_nonzero().get()) == child => {
                let code = status
                    .exit_status()
                    .or(status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            // Somebody whose parent has ended, or a pause.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The variables of the task, by their own names again.
fn variables() -> BTreeMap<OsString, OsString> {
    let own = |(name, value): (OsString, OsString)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    };
    std::env::vars_os().filter_map(own).collect()
}
