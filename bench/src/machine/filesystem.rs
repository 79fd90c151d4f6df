//! What the stores lie on: where a sync costs nothing, nothing is measured.

use std::path::Path;

/// The kinds that are told apart, by the number that the kernel gives them.
const KINDS: [(u64, &str); 7] = [
    (0xef53, "ext4"),
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0x794c_7630, "overlayfs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// The kind of the file system that a folder is in.
pub(crate) fn filesystem(folder: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(folder) else {
        return "unknown".to_owned();
    };
    let number = u64::try_from(found.f_type).unwrap_or_default();
    let known = KINDS.iter().find(|(kind, _)| *kind == number);
    known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned())
}

/// Whether a file system forgets everything when the machine stops.
pub(crate) fn is_volatile(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs")
}
