//! Lock file of the database, and checks of its file system.
//!
//! Owns the lock against a second writer process. Rejects network file systems, on which neither
//! locks nor syncs are reliable.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::blobs::PRIVATE_FILE_MODE;

/// Error that prevents the use of a database file at its path.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileLockError {
    #[error(
        "another process ({holder}) has {path} open for writing; stop it, or send requests to its \
         server instead"
    )]
    InUse { path: PathBuf, holder: LockHolder },
    #[error(
        "{path} is on a network file system ({kind}), where locks and syncs are unreliable; put \
         the file on a local disk, or use PostgreSQL"
    )]
    Network { path: PathBuf, kind: &'static str },
    #[error("{path} cannot be used")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Process that holds the lock of a file, as recorded in the lock file.
#[derive(Debug)]
pub(super) enum LockHolder {
    Process(u32),
    Unknown,
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(id) => write!(f, "PID {id}"),
            Self::Unknown => f.write_str("PID unknown"),
        }
    }
}

/// Locks a database file for this process until the returned file is dropped.
///
/// The lock is on a separate `.lock` file, since SQLite holds its own locks only during a
/// statement. The holder writes its PID to that file, for the error message of a second process.
pub(super) fn lock_database_file(database: &Path) -> Result<File, FileLockError> {
    reject_network_filesystem(database)?;
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let io = |source| FileLockError::Io { path: path.clone(), source };
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(PRIVATE_FILE_MODE)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The holder may not have written its PID yet.
            let _ = file.read_to_string(&mut text);
            let holder = text.trim().parse().map_or(LockHolder::Unknown, LockHolder::Process);
            return Err(FileLockError::InUse { path: database.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    write!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

fn reject_network_filesystem(database: &Path) -> Result<(), FileLockError> {
    // The file may not exist yet. Its folder is on the same file system.
    let folder = database.parent().filter(|it| !it.as_os_str().is_empty());
    let checked = if database.exists() { database } else { folder.unwrap_or(Path::new(".")) };
    let filesystem = rustix::fs::statfs(checked)
        .map_err(|error| FileLockError::Io { path: checked.to_owned(), source: error.into() })?;
    // Magic numbers are 32 bits wide. The type of the field depends on the platform.
    let magic = u64::try_from(filesystem.f_type).unwrap_or_default() & 0xffff_ffff;
    match network_filesystem_name(magic) {
        None => Ok(()),
        Some(kind) => Err(FileLockError::Network { path: database.to_owned(), kind }),
    }
}

/// Returns the name of a network file system by its magic number, or `None` for a local one.
fn network_filesystem_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0102_1997 => "9P",
        0x0bd0_0bd0 => "Lustre",
        0x1983_0326 => "BeeGFS",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
