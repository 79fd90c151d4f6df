//! Lock file next to the database that identifies the server that uses it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Server that uses a database. Other processes that find the database locked use this to reach the
/// server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerLockFile {
    /// Address of the server.
    pub(crate) url: String,
    /// Process id of the server.
    pub(crate) pid: u32,
}

/// Removes the lock file when dropped.
#[derive(Debug)]
pub(crate) struct LockFileGuard(PathBuf);

impl Drop for LockFileGuard {
    fn drop(&mut self) {
        // If the removal fails, the next process that locks the database removes the stale file.
        let _ = fs::remove_file(&self.0);
    }
}

impl ServerLockFile {
    /// Lock file of a server in this process.
    pub(crate) fn new(url: String) -> Self {
        let pid = std::process::id();
        Self { url, pid }
    }

    /// Writes the file atomically next to a locked database.
    pub(crate) fn write_beside(&self, database: &Path) -> io::Result<LockFileGuard> {
        let path = lock_file_path(database);
        let temp_path = path.with_extension(format!("{}.tmp", self.pid));
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&temp_path)?.write_all(&text)?;
        fs::rename(&temp_path, &path)?;
        Ok(LockFileGuard(path))
    }

    /// Reads the lock file next to a database. It is valid only while the database is locked.
    pub(crate) fn read_beside(database: &Path) -> Option<Self> {
        let text = fs::read(lock_file_path(database)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Removes a stale lock file. The caller must hold the database lock.
    pub(crate) fn remove_stale(database: &Path) {
        let _ = fs::remove_file(lock_file_path(database));
    }
}

fn lock_file_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".server.json");
    PathBuf::from(path)
}

#[cfg(test)]
mod tests;
