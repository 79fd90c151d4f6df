//! A cluster is killed with all of its processes.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cluster::pause;

/// Kills the processes of the cluster whose data is in a folder, and waits until they are gone.
pub(super) fn kill_all(data: &Path) -> io::Result<()> {
    let file = std::fs::read_to_string(data.join("postmaster.pid"))?;
    let first = file.lines().next().unwrap_or_default().trim();
    let postmaster: u32 = first.parse().map_err(io::Error::other)?;
    // The file may be that of a cluster long gone, and its number another's by now.
    if !is_postmaster(postmaster, data) {
        return Err(io::Error::other("the cluster does not run"));
    }
    // Who is stopped neither starts children nor buries them, so the list below is complete, and its
    // numbers are nobody else's.
    signal("STOP", &[postmaster])?;
    let mut all = children(postmaster)?;
    all.push(postmaster);
    signal("KILL", &all)?;
    for _ in 0..1200 {
        if all.iter().all(|pid| parent_of_live(*pid).is_none()) {
            return Ok(());
        }
        pause();
    }
    Err(io::Error::other("the cluster outlives its kill"))
}

fn is_postmaster(pid: u32, data: &Path) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.any(|it| it == data.as_os_str().as_encoded_bytes())
}

fn signal(name: &str, pids: &[u32]) -> io::Result<()> {
    let killed = Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids.iter().map(u32::to_string))
        .stdin(Stdio::null())
        .output()?;
    if killed.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&killed.stderr).into_owned();
    Err(io::Error::other(said))
}

fn children(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|it| it.parse().ok());
        if let Some(pid) = pid.filter(|pid| parent_of_live(*pid) == Some(parent)) {
            children.push(pid);
        }
    }
    Ok(children)
}

/// The parent of a process. One that only waits to be buried does not live.
fn parent_of_live(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in brackets, and may have anything in it.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}
