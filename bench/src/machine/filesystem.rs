//! File systems of the stores. If a sync costs nothing, a measurement means nothing.

use std::path::Path;

/// Known file systems by their magic number.
const FILESYSTEM_MAGIC_NUMBERS: [(u64, &str); 7] = [
    (0xef53, "ext4"),
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0x794c_7630, "overlayfs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// Returns the kind of the file system of a folder.
pub(crate) fn filesystem_kind(folder: &Path) -> String {
    let Ok(stats) = rustix::fs::statfs(folder) else {
        return "unknown".to_owned();
    };
    let number = u64::try_from(stats.f_type).unwrap_or_default();
    let entry = FILESYSTEM_MAGIC_NUMBERS.iter().find(|(magic, _)| *magic == number);
    entry.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned())
}

/// True if a file system loses its data when the machine stops.
pub(crate) fn is_volatile(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs")
}
