//! Kills a cluster with all of its processes.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cluster::poll_pause;

/// Kills the processes of the cluster with this data folder, and waits until they have ended.
pub(super) fn kill_all(data: &Path) -> io::Result<()> {
    let file = std::fs::read_to_string(data.join("postmaster.pid"))?;
    let first_line = file.lines().next().unwrap_or_default().trim();
    let postmaster: u32 = first_line.parse().map_err(io::Error::other)?;
    // The file may be left over from an ended cluster, and its pid reused.
    if !is_postmaster(postmaster, data) {
        return Err(io::Error::other("the cluster is not running"));
    }
    // A stopped process neither starts nor reaps children, so the list below is complete and its
    // pids are not reused.
    send_signal("STOP", &[postmaster])?;
    let mut pids = child_processes(postmaster)?;
    pids.push(postmaster);
    send_signal("KILL", &pids)?;
    for _ in 0..1200 {
        if pids.iter().all(|pid| live_parent(*pid).is_none()) {
            return Ok(());
        }
        poll_pause();
    }
    Err(io::Error::other("the cluster still runs after it was killed"))
}

fn is_postmaster(pid: u32, data: &Path) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.any(|argument| argument == data.as_os_str().as_encoded_bytes())
}

fn send_signal(name: &str, pids: &[u32]) -> io::Result<()> {
    let output = Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids.iter().map(u32::to_string))
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(stderr))
}

fn child_processes(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|pid| live_parent(*pid) == Some(parent)) {
            children.push(pid);
        }
    }
    Ok(children)
}

/// Returns the parent of a process. A zombie does not count as live.
fn live_parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name is in parentheses and may contain any character.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}
