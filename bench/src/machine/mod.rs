//! Facts about processes and the machine, read from the kernel.

mod cpu;
mod filesystem;
mod memory;
mod tree;

pub(crate) use cpu::{machine_cpu, tree_cpu};
pub(crate) use filesystem::{filesystem_kind, is_volatile};
pub(crate) use memory::{MemoryUsage, tree_memory};

use std::path::Path;

/// Kernel release, from `/proc`.
pub(crate) fn kernel_release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Reads a pid from the first line of a file.
pub(crate) fn read_pid_file(file: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().next()?.trim().parse().ok()
}
