//! File access of tools from within the worker: never the platform's own files, and otherwise only
//! files below the directories that the operator allows.

use std::io;
use std::path::{Path, PathBuf};

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rustix::fs::OFlags;
use tokio::io::AsyncReadExt as _;

use crate::sandbox::{SandboxMode, host_sockets};
use crate::settings::Settings;
use crate::tool::run_blocking;

/// Directories of the system that sandboxed tasks can read, for example certificates.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr", "/etc/ssl/certs", "/etc/pki"];

/// Directory in which the kernel exposes the worker's environment, memory and open files.
const PROC_DIR: &str = "/proc";

/// Variables that hold the engine address of a container client.
const ENGINE_ADDRESS_VARIABLES: [&str; 2] = ["DOCKER_HOST", "CONTAINER_HOST"];

/// Resolves the links of a path and checks that the operator allows access to it. The file itself
/// need not exist yet, but its directory must.
pub(crate) fn resolve_allowed_path(
    description: &str,
    path: &Path,
    settings: &Settings,
) -> Result<PathBuf, TaskError> {
    let description = format!("the {description} '{}'", path.display());
    let real = real_path(path).map_err(|error| file_error(&description, &error))?;
    check_file_roots(&real, &description, settings)?;
    if real.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(not_regular_file(&description));
    }
    Ok(real)
}

/// Resolves the path of a database, which is opened by its name several times, such as for its
/// journal. A task must not be able to replace a folder on the way.
pub(crate) fn resolve_database_path(
    path: &Path,
    settings: &Settings,
) -> Result<PathBuf, TaskError> {
    let real = resolve_allowed_path("database", path, settings)?;
    let sandbox = &settings.sandbox;
    let writable = sandbox.writable.iter().filter_map(|folder| folder.canonicalize().ok());
    let mut writable = writable.filter(|folder| real.starts_with(folder)).peekable();
    let is_replaceable =
        writable.peek().is_some() && writable.all(|folder| real.parent() != Some(folder.as_path()));
    if sandbox.mode != SandboxMode::Off && is_replaceable {
        let reason = "is in a folder that a task could replace; name the folder itself in \
                      NOETL_SANDBOX_WRITABLE";
        return Err(access_denied(&format!("the database '{}'", path.display()), reason));
    }
    Ok(real)
}

/// True if tasks may write to a file, with its links resolved.
pub(crate) fn is_writable_by_tasks(real: &Path, settings: &Settings) -> bool {
    let sandbox = &settings.sandbox;
    sandbox.mode == SandboxMode::Off
        || is_below_any(real, &sandbox.writable)
        || settings.file_roots.as_ref().is_some_and(|roots| is_below_any(real, roots))
}

/// Opens a file by its path with links resolved. Fails if a link has been put on the path since.
fn open_resolved(real: &Path) -> io::Result<std::fs::File> {
    // A pipe that replaced the file must not block the open until it has a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::empty();
    #[cfg(target_os = "linux")]
    let file = {
        use rustix::fs::{CWD, ResolveFlags, openat, openat2};
        let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, mode)?;
        let path = real.strip_prefix("/").unwrap_or(real);
        openat2(root, path, flags, mode, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?
    };
    #[cfg(not(target_os = "linux"))]
    let file = rustix::fs::open(real, flags, mode)?;
    Ok(file.into())
}

/// Reads a file that the operator allows access to and that is no larger than `max_size`.
pub(crate) async fn read_allowed_file(
    description: &str,
    path: &Path,
    max_size: ByteSize,
    settings: &Settings,
) -> Result<Vec<u8>, TaskError> {
    let real = resolve_allowed_path(description, path, settings)?;
    let description = format!("the {description} '{}'", path.display());
    let failed = |error: io::Error| file_error(&description, &error);
    let file = run_blocking("file", move || open_resolved(&real)).await?.map_err(failed)?;
    let file = tokio::fs::File::from_std(file);
    if !file.metadata().await.map_err(failed)?.is_file() {
        return Err(not_regular_file(&description));
    }
    // The reported size is not reliable: the file may grow while it is read.
    let mut bytes = Vec::new();
    let read_limit = max_size.as_bytes().saturating_add(1);
    let read = file.take(read_limit).read_to_end(&mut bytes).await;
    read.map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size < read_limit) {
        return Ok(bytes);
    }
    let message = format!("{description} is larger than the allowed {max_size}");
    Err(TaskError::new(TaskErrorKind::Limit, message))
}

/// Rejects a path, with its links resolved, that belongs to the platform, is outside the operator's
/// directories, if any are set, or that tasks in a sandbox cannot see.
pub(crate) fn check_file_roots(
    real: &Path,
    description: &str,
    settings: &Settings,
) -> Result<(), TaskError> {
    check_platform_paths(real, description, settings)?;
    match &settings.file_roots {
        Some(roots) if !is_below_any(real, roots) => {
            Err(access_denied(description, "is outside the allowed folders (NOETL_FILE_ROOTS)"))
        }
        None if !is_visible_to_tasks(real, settings) => {
            let reason = "is outside the folders that sandboxed tasks can access \
                          (NOETL_SANDBOX_READABLE, NOETL_SANDBOX_WRITABLE, NOETL_FILE_ROOTS)";
            Err(access_denied(description, reason))
        }
        Some(_) | None => Ok(()),
    }
}

fn is_visible_to_tasks(real: &Path, settings: &Settings) -> bool {
    let sandbox = &settings.sandbox;
    sandbox.mode == SandboxMode::Off
        || is_below_any(real, &sandbox.writable)
        || is_below_any(real, &sandbox.readable)
        || is_below_any(real, &SYSTEM_FOLDERS.map(PathBuf::from))
}

/// Rejects a path, with its links resolved, that no container may mount: one that
/// [`check_file_roots`] rejects, or one through which the container could escape the sandbox.
pub(crate) fn check_mount_source(
    real: &Path,
    description: &str,
    settings: &Settings,
) -> Result<(), TaskError> {
    let sandbox = &settings.sandbox;
    if sandbox.mode != SandboxMode::Off {
        check_platform_paths(real, description, settings)?;
        let mut sockets = host_sockets().into_iter().chain(engine_sockets(settings));
        if sockets.any(|socket| paths_overlap(real, &resolve_existing_prefix(&socket))) {
            let reason = "contains a socket of the worker's host, which sandboxed tasks \
                          (NOETL_SANDBOX) may not access";
            return Err(access_denied(description, reason));
        }
        // The engine follows links when it mounts, so no task may be able to replace the path, as
        // it may a root inside another root.
        let roots: Vec<&PathBuf> =
            sandbox.writable.iter().chain(settings.file_roots.iter().flatten()).collect();
        let is_nested =
            |root: &PathBuf| roots.iter().any(|outer| *outer != root && root.starts_with(outer));
        let mut fixed = roots.iter().filter(|root| !is_nested(root));
        if fixed.any(|root| root.canonicalize().is_ok_and(|root| root == real)) {
            return Ok(());
        }
        let reason = "cannot be mounted in a sandbox (NOETL_SANDBOX); name this path itself in \
                      NOETL_SANDBOX_WRITABLE or NOETL_FILE_ROOTS";
        return Err(access_denied(description, reason));
    }
    check_platform_paths(real, description, settings)?;
    match &settings.file_roots {
        Some(_) => check_file_roots(real, description, settings),
        None => Ok(()),
    }
}

/// Rejects paths of the platform. With the sandbox enabled this includes every directory above such
/// a path. Without it, that may be the home directory of users who run their own playbooks.
fn check_platform_paths(
    real: &Path,
    description: &str,
    settings: &Settings,
) -> Result<(), TaskError> {
    let sandbox = &settings.sandbox;
    let is_platform_path = |hidden: PathBuf| match sandbox.mode {
        SandboxMode::Off => real.starts_with(hidden),
        SandboxMode::BestEffort | SandboxMode::Strict => paths_overlap(real, &hidden),
    };
    let mut hidden = sandbox.hidden.iter().map(|path| resolve_existing_prefix(path));
    if hidden.any(is_platform_path) || real.starts_with(PROC_DIR) {
        let reason = "belongs to the platform and is not accessible to tasks";
        return Err(access_denied(description, reason));
    }
    Ok(())
}

/// True if one of two paths contains the other.
fn paths_overlap(first: &Path, second: &Path) -> bool {
    first.starts_with(second) || second.starts_with(first)
}

fn is_below_any(real: &Path, folders: &[PathBuf]) -> bool {
    let contains_path = |folder: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| real.starts_with(folder))
    };
    folders.iter().any(contains_path)
}

/// Unix sockets of the engine that the container client is configured with.
fn engine_sockets(settings: &Settings) -> impl Iterator<Item = PathBuf> {
    let environment = &settings.container.environment;
    let addresses = ENGINE_ADDRESS_VARIABLES.iter().filter_map(|name| environment.get(*name));
    addresses.filter_map(|address| address.strip_prefix("unix://")).map(PathBuf::from)
}

/// Absolute path with links resolved for the part that exists.
fn resolve_existing_prefix(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved = path.ancestors().find_map(|ancestor| {
        let real = ancestor.canonicalize().ok()?;
        let rest = path.strip_prefix(ancestor).ok()?;
        // Joining an empty path would append a slash.
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    });
    resolved.unwrap_or(path)
}

fn access_denied(description: &str, reason: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, format!("{description} {reason}"))
}

fn file_error(description: &str, error: &io::Error) -> TaskError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => TaskErrorKind::NotFound,
        _ => TaskErrorKind::StorageAccess,
    };
    TaskError::new(kind, format!("{description} cannot be used: {error}"))
}

/// Error for a device or a pipe, whose content may be endless.
fn not_regular_file(description: &str) -> TaskError {
    let message = format!("{description} cannot be used: it is not a regular file");
    TaskError::new(TaskErrorKind::StorageAccess, message)
}

fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link would be followed when the file is created.
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
mod tests;
