//! What a task sees of the files: everything, but to read; temporary folders of its own; nothing of
//! the platform's.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
    mount_change, mount_remount, move_mount, open_tree,
};

use super::{Order, sockets};

/// Folders that everybody can write to: the task gets its own, in memory.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What a temporary folder holds at most.
const TEMPORARY_SIZE: &str = "mode=1777,size=1073741824";

/// Puts a `/proc` of the own pid namespace in the place of the old one.
pub(super) fn own_proc() -> Result<(), String> {
    private()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("proc", "/proc", "proc", flags, None).map_err(|error| error.to_string())
}

/// Nothing that is mounted from here on is seen outside.
fn private() -> Result<(), String> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| format!("/: {error}"))
}

/// What becomes of a place. Of several at the same place a later one goes over an earlier one.
#[derive(Debug)]
enum Layer {
    /// A folder of the task's own is in its place.
    Temporary,
    /// It can be written to. It was taken before anything covered it.
    Open(OwnedFd),
    /// It is not to be seen.
    Hidden,
}

impl Layer {
    fn rank(&self) -> u8 {
        match self {
            Self::Temporary => 0,
            Self::Open(_) => 1,
            Self::Hidden => 2,
        }
    }
}

/// Raises the wall around the files.
pub(super) fn raise(order: &Order) -> Result<(), String> {
    private()?;
    // The private folder is usually in a temporary one, which is about to be covered; so may be what
    // the operator names.
    let folder = taken(&order.private)?;
    let links: Vec<_> = order
        .writable
        .iter()
        .filter_map(|path| link(path))
        .collect();
    let (layers, mut done) = layers(order);
    // What fails here is told in the end: the folder has to come back in any case, since a task
    // without this wall still has to work.
    for (path, layer) in &layers {
        done = done.and(match layer {
            Layer::Temporary => cover(path, TEMPORARY_SIZE),
            Layer::Open(tree) => put(tree, path),
            Layer::Hidden => hide(path),
        });
    }
    for (path, real) in links {
        done = done.and(link_again(path, &real));
    }
    put(&folder, &order.private)?;
    done.and(close_all(order, &layers))
}

/// A folder that the operator named by a link, and where it is.
fn link(path: &Path) -> Option<(&Path, PathBuf)> {
    let real = fs::canonicalize(path).ok()?;
    (real != path).then_some((path, real))
}

/// Makes a link again that is gone because its own folder is covered.
fn link_again(path: &Path, real: &Path) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let made = made.and_then(|()| std::os::unix::fs::symlink(real, path));
    made.map_err(|error| told(path, &error))
}

/// What becomes of which place, a folder before what is in it: so a folder that can be written to
/// brings back nothing that is hidden in it, and one within a hidden place is there.
fn layers(order: &Order) -> (Vec<(PathBuf, Layer)>, Result<(), String>) {
    let mut done = Ok(());
    let mut layers = Vec::new();
    for path in TEMPORARY.map(Path::new) {
        // Where it is another name of a folder, it is that folder which counts.
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            layers.push((path.to_owned(), Layer::Temporary));
        }
    }
    for path in &order.writable {
        let real = fs::canonicalize(path).map_err(|error| told(path, &error));
        match real.and_then(|real| taken(&real).map(|tree| (real, tree))) {
            Ok((real, tree)) => layers.push((real, Layer::Open(tree))),
            Err(why) => done = done.and(Err(why)),
        }
    }
    for path in sockets().iter().chain(&order.hidden) {
        // What is not there need not be hidden.
        if let Ok(real) = fs::canonicalize(path) {
            layers.push((real, Layer::Hidden));
        }
    }
    layers.sort_by_key(|(path, layer)| (path.components().count(), layer.rank()));
    (layers, done)
}

/// A folder as it is, with what is mounted in it, whatever covers its place later.
fn taken(path: &Path) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| told(path, &error))
}

/// Puts it in its place again.
fn put(tree: &OwnedFd, path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| told(path, &error))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, path, flags).map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Puts an empty folder over one.
fn cover(path: &Path, options: &str) -> Result<(), String> {
    let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|error| told(path, &error))
}

/// Makes something invisible, where nothing covers it already.
fn hide(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => cover(path, "mode=0755,size=65536"),
        Ok(_) => mount_bind("/dev/null", path).map_err(|error| told(path, &error)),
    }
}

/// Lets nothing be written, the task's own folders excepted.
fn close_all(order: &Order, layers: &[(PathBuf, Layer)]) -> Result<(), String> {
    let private = fs::canonicalize(&order.private).map_err(|error| told(&order.private, &error))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(path), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = unescaped(path);
        // The last layer that has to do with it is the nearest one.
        let mut nearest = layers.iter().rev();
        let layer = nearest.find(|(place, _)| path.starts_with(place));
        let is_open = matches!(layer, Some((_, Layer::Temporary | Layer::Open(_))));
        let is_closed = options.split(',').any(|option| option == "ro");
        if path == private || is_open || is_closed {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | kept(options);
        match mount_remount(&path, flags, c"") {
            // Something that another mount covers, or that the task may not even enter, cannot be
            // written to.
            Ok(())
            | Err(
                rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS | rustix::io::Errno::INVAL,
            ) if path != Path::new("/") => {}
            Ok(()) => {}
            Err(error) => return Err(told(&path, &error)),
        }
    }
    Ok(())
}

/// Whoever did not mount something may not take any of these from it.
fn kept(options: &str) -> MountFlags {
    let flag = |option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options
        .split(',')
        .map(flag)
        .fold(MountFlags::empty(), |all, flag| all | flag)
}

/// Undoes `\040` and its like.
fn unescaped(text: &str) -> PathBuf {
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
    fn names_of_mounts_are_read_back() {
        assert_eq!(unescaped(r"/a\040b\134c"), PathBuf::from(r"/a b\c"));
        assert_eq!(unescaped(r"/plain\"), PathBuf::from(r"/plain\"));
        let flags = kept("rw,nosuid,relatime");
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::RELATIME);
    }
}
