//! Which files tools may touch from within the worker: never the platform's own, and of the others
//! those below the folders that the operator opened.

use std::io;
use std::path::{Path, PathBuf};

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rustix::fs::OFlags;
use tokio::io::AsyncReadExt as _;

use crate::settings::Settings;
use crate::walls::{SandboxMode, sockets};

/// What the kernel tells of the worker itself: its environment, its memory, its open files.
const OF_KERNEL: &str = "/proc";

/// Variables that lead a client of containers to the socket of its engine.
const ENGINE_VARIABLES: [&str; 2] = ["DOCKER_HOST", "CONTAINER_HOST"];

/// Where a file really is, links resolved, if the operator opened that place. The file itself may
/// be one that is still to be made; its folder has to be there.
pub(crate) fn opened(what: &str, path: &Path, settings: &Settings) -> Result<PathBuf, TaskError> {
    let what = format!("the {what} '{}'", path.display());
    let real = real(path).map_err(|error| unusable(&what, &error))?;
    check_root(&real, &what, settings)?;
    if real.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(not_ordinary(&what));
    }
    Ok(real)
}

/// What a file holds, as far as the operator opened its place and it is no larger than `most`.
pub(crate) async fn read(
    what: &str,
    path: &Path,
    most: ByteSize,
    settings: &Settings,
) -> Result<Vec<u8>, TaskError> {
    let real = opened(what, path, settings)?;
    let what = format!("the {what} '{}'", path.display());
    let failed = |error: io::Error| unusable(&what, &error);
    // A pipe that took the file's place is not waited for until somebody writes to it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = tokio::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(&real).await;
    let file = file.map_err(failed)?;
    if !file.metadata().await.map_err(failed)?.is_file() {
        return Err(not_ordinary(&what));
    }
    // The size that a file tells is no promise: it may grow while it is read.
    let mut bytes = Vec::new();
    let most_read = most.as_bytes().saturating_add(1);
    let read = file.take(most_read).read_to_end(&mut bytes).await;
    read.map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size < most_read) {
        return Ok(bytes);
    }
    let message = format!("{what} has more bytes than the {most} that are allowed");
    Err(TaskError::new(TaskErrorKind::Limit, message))
}

/// Refuses a path, with its links resolved, that is the platform's own, or outside of the operator's
/// folders where there are any.
pub(crate) fn check_root(real: &Path, what: &str, settings: &Settings) -> Result<(), TaskError> {
    check_own(real, what, settings)?;
    match &settings.file_roots {
        Some(roots) if !is_below(real, roots) => Err(refused(
            what,
            "is outside of the folders that the operator opened (NOETL_FILE_ROOTS)",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a path, with its links resolved, that no container may get: what [`check_root`] refuses
/// and what would lead it out of the walls.
pub(crate) fn check_mount(real: &Path, what: &str, settings: &Settings) -> Result<(), TaskError> {
    let sandbox = &settings.sandbox;
    if sandbox.mode != SandboxMode::Off {
        check_own(real, what, settings)?;
        let mut sockets = sockets().into_iter().chain(engine_sockets(settings));
        if sockets.any(|socket| touches(real, &place_of(&socket))) {
            let why = "leads to a socket of the worker's machine, which tasks behind walls \
                       (NOETL_SANDBOX) do not see";
            return Err(refused(what, why));
        }
        if is_below(real, &sandbox.writable) {
            return Ok(());
        }
    }
    check_root(real, what, settings)?;
    if sandbox.mode == SandboxMode::Strict && settings.file_roots.is_none() {
        let why = "is in no folder that NOETL_SANDBOX_WRITABLE or NOETL_FILE_ROOTS names, and \
                   NOETL_SANDBOX=strict lets no container have another";
        return Err(refused(what, why));
    }
    Ok(())
}

/// Refuses what is the platform's own. Behind walls this is also a folder that has such a place
/// somewhere below it; elsewhere that may be the home of whoever runs their own playbooks.
fn check_own(real: &Path, what: &str, settings: &Settings) -> Result<(), TaskError> {
    let sandbox = &settings.sandbox;
    let is_own = |place: PathBuf| match sandbox.mode {
        SandboxMode::Off => real.starts_with(place),
        SandboxMode::BestEffort | SandboxMode::Strict => touches(real, &place),
    };
    let mut hidden = sandbox.hidden.iter().map(|path| place_of(path));
    if hidden.any(is_own) || real.starts_with(OF_KERNEL) {
        let why = "is a place of the platform's own, which no task may touch";
        return Err(refused(what, why));
    }
    Ok(())
}

/// Whether one of two places is in the other.
fn touches(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn is_below(real: &Path, folders: &[PathBuf]) -> bool {
    let holds = |folder: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| real.starts_with(folder))
    };
    folders.iter().any(holds)
}

/// Where the client of containers was told that its engine listens.
fn engine_sockets(settings: &Settings) -> impl Iterator<Item = PathBuf> {
    let environment = &settings.container.environment;
    let told = ENGINE_VARIABLES
        .iter()
        .filter_map(|name| environment.get(*name));
    told.filter_map(|address| address.strip_prefix("unix://"))
        .map(PathBuf::from)
}

/// Where a place is or would be, links resolved as far as there is something.
fn place_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| {
        let real = above.canonicalize().ok()?;
        let rest = path.strip_prefix(above).ok()?;
        // Nothing is not a name, and would put a slash at the end.
        Some(if rest.as_os_str().is_empty() {
            real
        } else {
            real.join(rest)
        })
    });
    found.unwrap_or(path)
}

fn refused(what: &str, why: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, format!("{what} {why}"))
}

fn unusable(what: &str, error: &io::Error) -> TaskError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => TaskErrorKind::NotFound,
        _ => TaskErrorKind::StorageAccess,
    };
    TaskError::new(kind, format!("{what} cannot be used: {error}"))
}

/// What a device or a pipe says may have no end.
fn not_ordinary(what: &str) -> TaskError {
    let message = format!("{what} cannot be used: it is no ordinary file");
    TaskError::new(TaskErrorKind::StorageAccess, message)
}

fn real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere yet would be followed when the file is made.
            if path.is_symlink() {
                return Err(error);
            }
            let name = path.file_name().ok_or(error)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                Some(_) | None => Path::new("."),
            };
            Ok(folder.canonicalize()?.join(name))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opened_folders_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let (open, shut) = (folder.path().join("open"), folder.path().join("shut"));
        for folder in [&open, &shut] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&shut, open.join("link")).unwrap();
        std::os::unix::fs::symlink(shut.join("gone.db"), open.join("nowhere.db")).unwrap();
        let settings = Settings {
            file_roots: Some(vec![open.clone()]),
            ..Settings::default()
        };
        let kind = |path: PathBuf| opened("database", &path, &settings).map_err(|error| error.kind);
        assert!(kind(open.join("new.db")).is_ok());
        assert_eq!(kind(shut.join("new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("../shut/new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("link/new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("nowhere.db")), Err(TaskErrorKind::NotFound));
        assert_eq!(
            kind(open.join("no/folder.db")),
            Err(TaskErrorKind::NotFound)
        );
    }

    /// Settings behind walls that hide a place.
    fn hiding(mode: SandboxMode, hidden: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.sandbox.mode = mode;
        settings.sandbox.hidden = vec![hidden.to_owned()];
        settings
    }

    #[test]
    fn what_is_the_platforms_own_is_shut_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        for folder in [&data, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&data, other.join("link")).unwrap();
        std::fs::write(data.join("noetl.db"), "x").unwrap();
        for mode in [SandboxMode::Off, SandboxMode::BestEffort] {
            let settings = hiding(mode, &other.join("link"));
            let kind =
                |path: PathBuf| opened("database", &path, &settings).map_err(|error| error.kind);
            assert!(kind(other.join("mine.db")).is_ok());
            for own in [
                data.join("noetl.db"),
                data.join("new.db"),
                other.join("link/noetl.db"),
                other.join("../data/noetl.db"),
                PathBuf::from("/proc/self/environ"),
                PathBuf::from("/proc/1/../self/environ"),
            ] {
                assert_eq!(kind(own.clone()), Err(TaskErrorKind::Auth), "{own:?}");
            }
        }
        // A place that is still to be made is shut already.
        let settings = hiding(SandboxMode::Off, &other.join("later.db"));
        let refused = opened("database", &other.join("later.db"), &settings).unwrap_err();
        assert!(
            refused.message.contains("the platform's own"),
            "{refused:?}"
        );
    }

    #[test]
    fn what_is_above_the_platforms_own_is_shut_behind_walls() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let hidden = real.join("no/such/data");
        let check = |mode| check_root(&real, "'it'", &hiding(mode, &hidden));
        assert!(check(SandboxMode::Off).is_ok());
        assert!(check(SandboxMode::BestEffort).is_err());
        assert!(check(SandboxMode::Strict).is_err());
    }

    #[test]
    fn an_opened_folder_opens_nothing_of_the_platform() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = folder.path().join("noetl.db");
        let settings = Settings {
            file_roots: Some(vec![folder.path().to_owned()]),
            ..hiding(SandboxMode::Off, &hidden)
        };
        assert!(opened("database", &folder.path().join("mine.db"), &settings).is_ok());
        assert!(opened("database", &hidden, &settings).is_err());
    }

    #[tokio::test]
    async fn only_ordinary_files_are_read_and_only_so_much_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        std::fs::write(&file, "12345").unwrap();
        let settings = Settings::default();
        let take = async |path: &Path, most| {
            let most = ByteSize::from_bytes(most);
            let read = read("script", path, most, &settings).await;
            read.map_err(|error| error.kind)
        };
        assert_eq!(take(&file, 5).await, Ok(b"12345".to_vec()));
        assert_eq!(take(&file, 4).await, Err(TaskErrorKind::Limit));
        for special in [&*pipe, Path::new("/dev/zero"), folder.path()] {
            let refused = take(special, 5).await;
            assert_eq!(refused, Err(TaskErrorKind::StorageAccess), "{special:?}");
        }
        let gone = take(&folder.path().join("gone"), 5).await;
        assert_eq!(gone, Err(TaskErrorKind::NotFound));
    }
}
