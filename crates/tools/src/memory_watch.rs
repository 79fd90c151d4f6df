//! Limit on the memory of all processes of a task together.
//!
//! The kernel limits only the memory of each process, because a worker usually may not create
//! cgroups. So the worker measures the processes of a task at an interval. A task can exceed the limit
//! for that time.

use std::fs;
use std::future::pending;
use std::time::Duration;

use noetl_types::ByteSize;
use rustix::process::{Pid, Signal, kill_process};

use crate::tool::run_blocking;

const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a process and its descendants use more than `limit` together, and kills them.
pub(crate) async fn kill_above_limit(root: Pid, limit: Option<ByteSize>) {
    let Some(limit) = limit else {
        return pending().await;
    };
    let root = root.as_raw_nonzero().get();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if run_blocking("memory", move || kill_tree_above(root, limit)).await.unwrap_or(false) {
            return;
        }
    }
}

/// Kills each process that is `depth` levels below `root` and uses more than `limit` together with
/// its descendants. Never ends.
pub(crate) async fn kill_descendants_above_limit(root: Pid, depth: u32, limit: ByteSize) {
    let root = root.as_raw_nonzero().get();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let check = move || {
            let below = |pids: Vec<i32>, _| pids.into_iter().flat_map(find_children).collect();
            for pid in (0..depth).fold(vec![root], below) {
                kill_tree_above(pid, limit);
            }
        };
        // A thread that panicked is not a reason to stop the watch.
        let _ = run_blocking("memory", check).await;
    }
}

fn kill_tree_above(root: i32, limit: ByteSize) -> bool {
    let mut pids = vec![root];
    let mut next = 0;
    while let Some(pid) = pids.get(next).copied() {
        pids.extend(find_children(pid));
        next += 1;
    }
    let exceeds = |measure: fn(i32) -> u64| {
        pids.iter().map(|pid| measure(*pid)).sum::<u64>() > limit.as_bytes() / 1024
    };
    // The exact measure takes longer.
    let is_above = exceeds(resident_kib) && exceeds(proportional_kib);
    if is_above {
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            // It may have ended in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    is_above
}

fn find_children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut pids = Vec::new();
    for thread in threads {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        pids.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    pids
}

/// Memory of a process without its files. Counts memory that processes share for each of them.
fn resident_kib(pid: i32) -> u64 {
    read_kib(&format!("/proc/{pid}/status"), ["RssAnon:", "RssShmem:"]).unwrap_or(0)
}

/// Memory of a process without its files, with shared memory divided between the processes that
/// share it.
fn proportional_kib(pid: i32) -> u64 {
    let exact = read_kib(&format!("/proc/{pid}/smaps_rollup"), ["Pss_Anon:", "Pss_Shmem:"]);
    exact.unwrap_or_else(|| resident_kib(pid))
}

/// Sum of two fields of a file, or `None` if it cannot be read.
fn read_kib(file: &str, fields: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = |line: &str| {
        let rest = fields.iter().find_map(|field| line.strip_prefix(field))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some(text.lines().filter_map(value).sum())
}
