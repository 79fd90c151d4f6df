//! The first stage: leaves the namespaces of the worker and waits for what it started there.

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

use super::{INSIDE_WORD, Missing, Order, Wall};

/// The user and group that tasks of a superuser's worker run as; nobody else's on usual systems.
const TASK_ID: u32 = 64_999;

/// What the second stage has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Raised {
    /// What was ordered.
    pub(super) order: Order,
    /// The walls of the first stage that stand.
    pub(super) up: Vec<Wall>,
    /// Those that do not.
    pub(super) missing: Vec<Missing>,
}

impl Raised {
    /// Notes how a wall came out.
    pub(super) fn note(&mut self, wall: Wall, result: Result<(), String>) {
        match result {
            Ok(()) => self.up.push(wall),
            Err(why) => self.missing.push(Missing { wall, why }),
        }
    }

    /// Whether a wall stands.
    pub(super) fn is_up(&self, wall: Wall) -> bool {
        self.up.contains(&wall)
    }

    /// An error where a strict order has a wall that does not stand.
    pub(super) fn stand(&self) -> Result<(), String> {
        if self.order.strict
            && !self.order.probe
            && let Some(missing) = self.missing.first()
        {
            return Err(format!(
                "{missing} cannot be raised, and NOETL_SANDBOX=strict asks for it"
            ));
        }
        Ok(())
    }
}

/// Raises what has to be raised from outside and waits for the rest.
pub(super) fn run(args: &[OsString]) -> Result<u8, String> {
    let (order, program) = args.split_first().ok_or("an order is missing")?;
    let order = order.to_str().ok_or("the order is not text")?;
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    // An order to stop is for the program, which gets it too since it is of the same group; this
    // process has to live until the program has said its last.
    let asked = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ];
    let asked: SigSet = asked.into_iter().collect();
    asked.thread_block().map_err(|error| error.to_string())?;
    let raised = leave(order);
    raised.stand()?;
    let state = serde_json::to_string(&raised).map_err(|error| error.to_string())?;
    let mut inside = Command::new("/proc/self/exe")
        .arg(INSIDE_WORD)
        .arg(state)
        .args(program)
        .spawn()
        .map_err(|error| format!("the walls cannot be raised: {error}"))?;
    let status = inside.wait().map_err(|error| error.to_string())?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Leaves the namespaces, one after another, so that each shows by itself whether it can be left.
fn leave(order: Order) -> Raised {
    let mut raised = Raised {
        up: Vec::new(),
        missing: Vec::new(),
        order,
    };
    if geteuid().is_root() && (raised.order.strict || raised.order.probe) {
        let result = if raised.order.strict {
            become_another(&raised.order.private)
        } else {
            Err("only with NOETL_SANDBOX=strict".to_owned())
        };
        raised.note(Wall::OwnUser, result);
    }
    // The ids stay what they are, so that what the task owns is its own on both sides.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let own_users = unshared(CloneFlags::CLONE_NEWUSER).and_then(|()| {
        let write = |file: &str, text: String| {
            fs::write(format!("/proc/self/{file}"), text).map_err(|error| error.to_string())
        };
        write("setgroups", "deny".to_owned())?;
        write("uid_map", format!("{user} {user} 1"))?;
        write("gid_map", format!("{group} {group} 1"))?;
        hand_on().map_err(|error| error.to_string())
    });
    raised.note(Wall::UserNamespace, own_users);
    for (wall, flag, is_wanted) in [
        (Wall::MountNamespace, CloneFlags::CLONE_NEWNS, true),
        (Wall::IpcNamespace, CloneFlags::CLONE_NEWIPC, true),
        (
            Wall::NoNetwork,
            CloneFlags::CLONE_NEWNET,
            raised.order.offline,
        ),
        (Wall::PidNamespace, CloneFlags::CLONE_NEWPID, true),
    ] {
        if is_wanted {
            raised.note(wall, unshared(flag));
        }
    }
    raised
}

/// Lets the second stage have what it needs to finish the walls: a process of any user but the
/// superuser loses what it may do when it becomes another program.
fn hand_on() -> rustix::io::Result<()> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    let mut own = capabilities(None)?;
    own.inheritable |= needed;
    set_capabilities(None, own)?;
    needed
        .iter()
        .try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

fn unshared(flag: CloneFlags) -> Result<(), String> {
    unshare(flag).map_err(|error| error.desc().to_owned())
}

/// Gives the private folder to the user of tasks and becomes that user.
fn become_another(private: &Path) -> Result<(), String> {
    let user = rustix::fs::Uid::from_raw(TASK_ID);
    let group = rustix::fs::Gid::from_raw(TASK_ID);
    give(private, 0).map_err(|error| format!("the private folder: {error}"))?;
    let change = || {
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // A process that changed its user does not own its own files in /proc otherwise, among them
        // those that say who is who in its namespace.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
    };
    change().map_err(|error: rustix::io::Errno| error.to_string())
}

/// What a private folder holds before its task begins is not deep.
const DEEPEST: u32 = 4;

fn give(path: &Path, depth: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(TASK_ID), Some(TASK_ID))?;
    if depth < DEEPEST && fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), depth + 1)?;
        }
    }
    Ok(())
}
