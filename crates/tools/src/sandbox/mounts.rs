//! The root of a task: a file system of its own that contains only what the task needs.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind, mount_change, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::pivot_root;

use super::visible_paths::SYSTEM_PATHS;
use super::{
    LaunchPurpose, LaunchRequest, PROC_OPTIONS, TEMPORARY_DIR_OPTIONS, TEMPORARY_DIRS, host_sockets,
};

/// Devices that tasks have. All others are absent.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Links in `/dev` that programs expect.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Mount options of the root itself, which holds only mount points and links.
const ROOT_OPTIONS: &str = "mode=0755,size=4194304";

/// Entry of the root. If several apply to the same path, the later one covers the earlier one.
#[derive(Debug)]
enum RootEntry {
    /// A file or directory of the machine.
    ReadOnly(OwnedFd),
    Device(OwnedFd),
    /// An empty directory that the task can write to.
    Temporary,
    /// A directory of the machine that the task can write to.
    Writable(OwnedFd),
    /// Hides a path inside another entry.
    Hidden,
}

impl RootEntry {
    fn mount_order(&self) -> u8 {
        match self {
            Self::ReadOnly(_) => 0,
            Self::Temporary => 1,
            Self::Device(_) | Self::Writable(_) => 2,
            Self::Hidden => 3,
        }
    }
}

/// Contents of a root.
#[derive(Debug, Default)]
struct RootPlan {
    /// Outer paths first: a writable directory does not reveal hidden paths inside it, and a
    /// writable directory inside a hidden path is available.
    entries: Vec<(PathBuf, RootEntry)>,
    /// Links, with their targets.
    links: Vec<(PathBuf, PathBuf)>,
}

impl RootPlan {
    fn new(request: &LaunchRequest) -> Result<Self, String> {
        let mut plan = Self::default();
        let system_paths = SYSTEM_PATHS.iter().map(Path::new);
        for path in system_paths.chain(request.readable.iter().map(PathBuf::as_path)) {
            // A path that does not exist, or that the user of tasks may not read, is absent.
            if let Some(real) = plan.resolve(path)
                && let Ok(tree) = clone_mount_tree(&real)
            {
                plan.entries.push((real, RootEntry::ReadOnly(tree)));
            }
        }
        for path in DEVICES.map(Path::new) {
            if let Ok(tree) = clone_mount_tree(path) {
                plan.entries.push((path.to_owned(), RootEntry::Device(tree)));
            }
        }
        for path in TEMPORARY_DIRS.map(Path::new) {
            plan.entries.push((path.to_owned(), RootEntry::Temporary));
        }
        for path in &request.writable {
            let real = plan.resolve(path);
            let real = real.ok_or_else(|| path_error(path, &"it cannot be found"))?;
            let tree = clone_mount_tree(&real)?;
            plan.entries.push((real, RootEntry::Writable(tree)));
        }
        // The private directory has the name under which the worker knows it.
        let private = clone_mount_tree(&request.private)?;
        plan.entries.push((request.private.clone(), RootEntry::Writable(private)));
        for path in host_sockets().iter().chain(&request.hidden) {
            // A path that does not exist need not be hidden.
            if let Ok(real) = fs::canonicalize(path) {
                plan.entries.push((real, RootEntry::Hidden));
            }
        }
        plan.entries.sort_by_key(|(path, entry)| (path.components().count(), entry.mount_order()));
        plan.remove_duplicates();
        Ok(plan)
    }

    /// Removes entries that are part of an outer entry.
    fn remove_duplicates(&mut self) {
        let mut trees: Vec<PathBuf> = Vec::new();
        self.entries.retain(|(path, entry)| {
            let is_read_only = matches!(entry, RootEntry::ReadOnly(_));
            let is_part = trees.iter().any(|tree| path.starts_with(tree));
            if is_read_only && !is_part {
                trees.push(path.clone());
            }
            !(is_read_only && is_part)
        });
    }

    /// Returns the target of a path. If the path is a link, or inside one, plans the link too.
    fn resolve(&mut self, path: &Path) -> Option<PathBuf> {
        let real = fs::canonicalize(path).ok()?;
        if real != path {
            self.links.push((path.to_owned(), real.clone()));
        }
        Some(real)
    }

    /// True if the innermost entry of a path can be written to.
    fn is_writable(&self, path: &Path) -> bool {
        let mut innermost_first = self.entries.iter().rev();
        let entry = innermost_first.find(|(entry_path, _)| path.starts_with(entry_path));
        matches!(entry, Some((_, RootEntry::Temporary | RootEntry::Writable(_))))
    }
}

/// Replaces the root of this process by one that contains only what the task needs, and detaches the
/// root of the machine, so that no path leads to it.
pub(super) fn enter_private_root(
    request: &LaunchRequest,
    has_pid_namespace: bool,
) -> Result<(), String> {
    // Later mounts must not be visible outside.
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| path_error(Path::new("/"), &error))?;
    let mut plan = RootPlan::new(request)?;
    if !has_pid_namespace {
        let path = PathBuf::from("/proc");
        let tree = clone_mount_tree(&path)?;
        plan.entries.insert(0, (path, RootEntry::ReadOnly(tree)));
    }
    // Any directory serves as the mount point of the root until it becomes the root.
    let root = &request.private;
    mount_tmpfs(root, ROOT_OPTIONS)?;
    let entered = build_root(root, &plan, has_pid_namespace)
        .and_then(|()| std::env::set_current_dir(root).map_err(|error| path_error(root, &error)))
        .and_then(|()| pivot_root(".", ".").map_err(|error| path_error(root, &error)));
    if let Err(reason) = entered {
        // A task without this layer still has to work.
        unmount(root, UnmountFlags::DETACH).map_err(|error| path_error(root, &error))?;
        return Err(reason);
    }
    unmount(".", UnmountFlags::DETACH).map_err(|error| path_error(Path::new("/"), &error))?;
    std::env::set_current_dir("/").map_err(|error| path_error(Path::new("/"), &error))?;
    restrict_mounts(&plan, request.purpose == LaunchPurpose::Zygote)
}

fn build_root(root: &Path, plan: &RootPlan, has_pid_namespace: bool) -> Result<(), String> {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    for (path, entry) in &plan.entries {
        let target = inside(path);
        match entry {
            RootEntry::Temporary => {
                create_dir(&target)?;
                mount_tmpfs(&target, TEMPORARY_DIR_OPTIONS)?;
            }
            RootEntry::ReadOnly(tree) | RootEntry::Writable(tree) | RootEntry::Device(tree) => {
                attach_mount(tree, path, &target)?;
            }
            RootEntry::Hidden => hide_path(&target)?,
        }
    }
    if has_pid_namespace {
        let target = inside(Path::new("/proc"));
        create_dir(&target)?;
        let options = std::ffi::CString::new(PROC_OPTIONS).map_err(|error| error.to_string())?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", &target, "proc", flags, Some(options.as_c_str()))
            .map_err(|error| path_error(Path::new("/proc"), &error))?;
    }
    let device_links = DEVICE_LINKS.map(|(path, target)| (path.into(), target.into()));
    for (path, target) in plan.links.iter().chain(&device_links) {
        let path = inside(path);
        // The path is inside of another entry, which has the link.
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        path.parent().map_or(Ok(()), create_dir)?;
        std::os::unix::fs::symlink(target, &path).map_err(|error| path_error(&path, &error))?;
    }
    // Programs expect the home directory to exist.
    if let Some(home) = super::inner_stage::task_home() {
        let home = inside(&home);
        if fs::symlink_metadata(&home).is_err() {
            create_dir(&home)?;
        }
    }
    Ok(())
}

fn create_dir(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| path_error(path, &error))
}

/// Clones the mounts of a path, so that they can be attached elsewhere.
fn clone_mount_tree(path: &Path) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| path_error(path, &error))
}

/// Attaches the cloned mounts of a path at a target.
fn attach_mount(tree: &OwnedFd, path: &Path, target: &Path) -> Result<(), String> {
    let metadata = rustix::fs::fstat(tree).map_err(|error| path_error(path, &error))?;
    let is_dir = rustix::fs::FileType::from_raw_mode(metadata.st_mode).is_dir();
    if is_dir {
        create_dir(target)?;
    } else if fs::symlink_metadata(target).is_err() {
        target.parent().map_or(Ok(()), create_dir)?;
        fs::File::create(target).map_err(|error| path_error(path, &error))?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, target, flags).map_err(|error| path_error(path, &error))
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

/// Hides a path of the new root, unless it is absent anyway.
fn hide_path(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(metadata) if metadata.is_dir() => mount_tmpfs(path, "mode=0755,size=65536"),
        Ok(_) => mount_bind("/dev/null", path).map_err(|error| path_error(path, &error)),
    }
}

/// Remounts everything without devices and setuid programs, and read-only except for the
/// directories that the task can write to. A zygote needs a writable `/proc`, over which each of its
/// calls mounts a read-only one.
fn restrict_mounts(plan: &RootPlan, is_zygote: bool) -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(path), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = unescape_mount_path(path);
        if DEVICES.iter().any(|device| path == Path::new(device)) {
            continue;
        }
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | preserved_flags(options);
        // A hidden file is covered by a device.
        if path.is_dir() {
            flags |= MountFlags::NODEV;
        }
        let is_proc_of_zygote = is_zygote && path == Path::new("/proc");
        if !plan.is_writable(&path) && !is_proc_of_zygote {
            flags |= MountFlags::RDONLY;
        }
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
        "ro" => MountFlags::RDONLY,
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
mod tests;
