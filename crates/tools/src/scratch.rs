//! The directory of all private directories of a worker process, which the next worker deletes if the
//! process is killed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Prefix of the name of a directory whose process holds its lock.
const PREFIX: &str = "noetl-tasks-";

/// Directory that is locked while its process lives.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    path: PathBuf,
    _lock: File,
}

impl ScratchDir {
    /// Creates a directory inside another, and deletes those of processes that have been killed.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        delete_abandoned(parent);
        // The name is given when the lock is held. Otherwise another process could delete it before.
        let dir = tempfile::Builder::new().prefix("noetl-new-").tempdir_in(parent)?;
        // Tasks that run as another user must be able to enter it, but not to list it.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711))?;
        let lock = File::open(dir.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let name = dir.path().file_name().unwrap_or_default().to_string_lossy();
        let path = parent.join(name.replacen("noetl-new-", PREFIX, 1));
        std::fs::rename(dir.path(), &path)?;
        // Nothing is left at the first name.
        drop(dir.keep());
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn delete_abandoned(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let is_own =
            entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        // The kernel releases the lock when its process ends.
        if is_own
            && let Ok(lock) = File::open(entry.path())
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, "files that a killed worker has left could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests;
