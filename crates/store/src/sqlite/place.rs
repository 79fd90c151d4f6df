//! Where a file may lie, and who has it.
//!
//! Owns the lock against a second writer and the refusal of file systems on which neither locks nor
//! syncs can be trusted.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Why a file cannot be used where it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error(
        "another process ({holder}) writes to {path}: stop it first, or let it do the work by \
         sending requests to its server"
    )]
    InUse { path: PathBuf, holder: Holder },
    #[error(
        "{path} is on a network file system ({kind}), where locks and syncs cannot be trusted: \
         put the file on a local disk, or use PostgreSQL"
    )]
    Network { path: PathBuf, kind: &'static str },
    #[error("{path} cannot be used")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// The process that has a file, as far as it has said.
#[derive(Debug)]
pub(super) enum Holder {
    Process(u32),
    Unknown,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(id) => write!(f, "process {id}"),
            Self::Unknown => f.write_str("of an unknown number"),
        }
    }
}

/// Takes a file for this process, until the lock is dropped.
///
/// A file beside the database is locked, since SQLite's own locks are only held while it works. Who
/// has it writes its number there, for the error of whoever comes second.
pub(super) fn take(database: &Path) -> Result<File, PlaceError> {
    refuse_network(database)?;
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let io = |source| PlaceError::Io {
        path: path.clone(),
        source,
    };
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // A holder that has not said who it is yet is unknown.
            let _ = file.read_to_string(&mut text);
            let holder = text.trim().parse().map_or(Holder::Unknown, Holder::Process);
            return Err(PlaceError::InUse {
                path: database.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    write!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

fn refuse_network(database: &Path) -> Result<(), PlaceError> {
    // The file may not be there yet; its folder is on the same file system.
    let folder = database.parent().filter(|it| !it.as_os_str().is_empty());
    let asked = if database.exists() {
        database
    } else {
        folder.unwrap_or(Path::new("."))
    };
    let found = rustix::fs::statfs(asked).map_err(|error| PlaceError::Io {
        path: asked.to_owned(),
        source: error.into(),
    })?;
    // The kinds are 32 bits wide, in a field whose type depends on the platform.
    let magic = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
    match network_kind(magic) {
        None => Ok(()),
        Some(kind) => Err(PlaceError::Network {
            path: database.to_owned(),
            kind,
        }),
    }
}

/// The name of a kind of file system that is reached over a network.
fn network_kind(magic: u64) -> Option<&'static str> {
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
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (magic, kind) in [(0x6969, Some("NFS")), (0xff53_4d42, Some("CIFS"))] {
            assert_eq!(network_kind(magic), kind);
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
        for local in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
        ] {
            assert_eq!(network_kind(local), None);
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let path = PathBuf::from("noetl.db");
        let network = PlaceError::Network {
            path: path.clone(),
            kind: "NFS",
        };
        assert_eq!(
            network.to_string(),
            "noetl.db is on a network file system (NFS), where locks and syncs cannot be trusted: \
             put the file on a local disk, or use PostgreSQL"
        );
        let unknown = PlaceError::InUse {
            path,
            holder: Holder::Unknown,
        };
        assert!(
            unknown
                .to_string()
                .starts_with("another process (of an unknown number) writes to")
        );
    }
}
