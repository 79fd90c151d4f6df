//! File system view of a task: everything read-only, private temporary directories, and no files of
//! the platform.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
    mount_change, mount_remount, move_mount, open_tree,
};

use super::{LaunchRequest, host_sockets};

/// World-writable directories. The task gets its own, in memory.
const TEMPORARY_DIRS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Mount options of a temporary directory, with its maximum size.
const TEMPORARY_DIR_OPTIONS: &str = "mode=1777,size=1073741824";

/// Mounts a `/proc` for the new pid namespace over the old one.
pub(super) fn mount_proc() -> Result<(), String> {
    make_mounts_private()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("proc", "/proc", "proc", flags, None).map_err(|error| error.to_string())
}

/// Makes all mounts private, so that later mounts are not visible outside.
fn make_mounts_private() -> Result<(), String> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| format!("/: {error}"))
}

/// Overlay on a path. If several apply to the same path, the later one covers the earlier one.
#[derive(Debug)]
enum PathOverlay {
    /// Replaced by a private directory of the task.
    Temporary,
    /// Writable. The mount was cloned before anything covered it.
    Writable(OwnedFd),
    Hidden,
}

impl PathOverlay {
    fn mount_order(&self) -> u8 {
        match self {
            Self::Temporary => 0,
            Self::Writable(_) => 1,
            Self::Hidden => 2,
        }
    }
}

pub(super) fn enable_read_only_root(request: &LaunchRequest) -> Result<(), String> {
    make_mounts_private()?;
    // The private directory is usually inside a temporary directory, which is about to be covered.
    // So may be the directories that the operator names.
    let private_dir = clone_mount_tree(&request.private)?;
    let links: Vec<_> = request.writable.iter().filter_map(|path| find_symlink(path)).collect();
    let (overlays, mut result) = plan_overlays(request);
    // Errors are returned at the end: the private directory must be mounted in any case, since a
    // task without this layer still has to work.
    for (path, overlay) in &overlays {
        result = result.and(match overlay {
            PathOverlay::Temporary => mount_tmpfs(path, TEMPORARY_DIR_OPTIONS),
            PathOverlay::Writable(tree) => attach_mount(tree, path),
            PathOverlay::Hidden => hide_path(path),
        });
    }
    for (path, real) in links {
        result = result.and(restore_symlink(path, &real));
    }
    attach_mount(&private_dir, &request.private)?;
    result.and(remount_read_only(request, &overlays))
}

/// Returns the path of a link that the operator named, and its target.
fn find_symlink(path: &Path) -> Option<(&Path, PathBuf)> {
    let real = fs::canonicalize(path).ok()?;
    (real != path).then_some((path, real))
}

/// Recreates a link that disappeared because its directory is covered.
fn restore_symlink(path: &Path, real: &Path) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let created = path.parent().map_or(Ok(()), fs::create_dir_all);
    let created = created.and_then(|()| std::os::unix::fs::symlink(real, path));
    created.map_err(|error| path_error(path, &error))
}

/// Lists the overlay of each path, outer directories first: a writable directory does not reveal
/// hidden paths inside it, and a writable directory inside a hidden path is available.
fn plan_overlays(request: &LaunchRequest) -> (Vec<(PathBuf, PathOverlay)>, Result<(), String>) {
    let mut result = Ok(());
    let mut overlays = Vec::new();
    for path in TEMPORARY_DIRS.map(Path::new) {
        // A link to another directory is skipped: the target itself counts.
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            overlays.push((path.to_owned(), PathOverlay::Temporary));
        }
    }
    for path in &request.writable {
        let real = fs::canonicalize(path).map_err(|error| path_error(path, &error));
        match real.and_then(|real| clone_mount_tree(&real).map(|tree| (real, tree))) {
            Ok((real, tree)) => overlays.push((real, PathOverlay::Writable(tree))),
            Err(reason) => result = result.and(Err(reason)),
        }
    }
    for path in host_sockets().iter().chain(&request.hidden) {
        // A path that does not exist need not be hidden.
        if let Ok(real) = fs::canonicalize(path) {
            overlays.push((real, PathOverlay::Hidden));
        }
    }
    overlays.sort_by_key(|(path, overlay)| (path.components().count(), overlay.mount_order()));
    (overlays, result)
}

/// Clones the mounts of a directory, so that it stays available when its path is covered.
fn clone_mount_tree(path: &Path) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| path_error(path, &error))
}

/// Attaches a cloned mount at its path.
fn attach_mount(tree: &OwnedFd, path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| path_error(path, &error))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, path, flags).map_err(|error| path_error(path, &error))
}

fn path_error(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Mounts an empty directory over a path.
fn mount_tmpfs(path: &Path, options: &str) -> Result<(), String> {
    let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|error| path_error(path, &error))
}

/// Hides a path, unless it is already covered.
fn hide_path(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(metadata) if metadata.is_dir() => mount_tmpfs(path, "mode=0755,size=65536"),
        Ok(_) => mount_bind("/dev/null", path).map_err(|error| path_error(path, &error)),
    }
}

/// Remounts everything read-only except the task's own directories.
fn remount_read_only(
    request: &LaunchRequest,
    overlays: &[(PathBuf, PathOverlay)],
) -> Result<(), String> {
    let private =
        fs::canonicalize(&request.private).map_err(|error| path_error(&request.private, &error))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(path), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = unescape_mount_path(path);
        // The last matching overlay is the innermost one.
        let mut innermost_first = overlays.iter().rev();
        let overlay = innermost_first.find(|(overlay_path, _)| path.starts_with(overlay_path));
        let is_writable =
            matches!(overlay, Some((_, PathOverlay::Temporary | PathOverlay::Writable(_))));
        let is_read_only = options.split(',').any(|option| option == "ro");
        if path == private || is_writable || is_read_only {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | preserved_flags(options);
        match mount_remount(&path, flags, c"") {
            // A mount that is covered by another one, or that the task may not enter, cannot be
            // written to.
            Ok(())
            | Err(
                rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS | rustix::io::Errno::INVAL,
            ) if path != Path::new("/") => {}
            Ok(()) => {}
            Err(error) => return Err(path_error(&path, &error)),
        }
    }
    Ok(())
}

/// Mount flags that must be kept: a process that did not create a mount may not remove them.
fn preserved_flags(options: &str) -> MountFlags {
    let flag = |option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.split(',').map(flag).fold(MountFlags::empty(), |flags, flag| flags | flag)
}

/// Decodes `\040` and other octal escapes.
fn unescape_mount_path(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let (b'\\', Some(code)) = (first, code) {
            bytes.push(code);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_escaped_mount_names() {
        assert_eq!(unescape_mount_path(r"/a\040b\134c"), PathBuf::from(r"/a b\c"));
        assert_eq!(unescape_mount_path(r"/plain\"), PathBuf::from(r"/plain\"));
        let flags = preserved_flags("rw,nosuid,relatime");
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::RELATIME);
    }
}
