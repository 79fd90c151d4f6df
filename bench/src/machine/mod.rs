//! What the kernel tells about processes and about the machine.

mod cpu;
mod filesystem;
mod memory;
mod tree;

pub(crate) use cpu::{machine_cpu, tree_cpu};
pub(crate) use filesystem::{filesystem, is_volatile};
pub(crate) use memory::{Memory, tree_memory};

use std::path::Path;

/// The kernel's release, as `/proc` tells it.
pub(crate) fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// How many processors there are.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The process that wrote its number into the first line of a file.
pub(crate) fn pid_in(file: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().next()?.trim().parse().ok()
}
