//! A file beside the database that says which server has it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who serves a database. Whoever finds it locked finds the server by this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beacon {
    /// The address of the server.
    pub(crate) url: String,
    /// Its process.
    pub(crate) pid: u32,
}

/// A beacon that is lit as long as this lives.
#[derive(Debug)]
pub(crate) struct Lit(PathBuf);

impl Drop for Lit {
    fn drop(&mut self) {
        // Whoever locks the database next knows that what is left of it is stale.
        let _ = fs::remove_file(&self.0);
    }
}

impl Beacon {
    /// A server of this process.
    pub(crate) fn new(url: String) -> Self {
        let pid = std::process::id();
        Self { url, pid }
    }

    /// Lights it beside a database that is locked. It is there as a whole or not at all.
    pub(crate) fn light(&self, database: &Path) -> io::Result<Lit> {
        let path = path(database);
        let draft = path.with_extension(format!("{}.tmp", self.pid));
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        fs::write(&draft, text)?;
        fs::rename(&draft, &path)?;
        Ok(Lit(path))
    }

    /// The beacon beside a database. It tells nothing unless the database is locked.
    pub(crate) fn seen(database: &Path) -> Option<Self> {
        let text = fs::read(path(database)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Removes one that was left behind; for whoever holds the lock.
    pub(crate) fn put_out(database: &Path) {
        let _ = fs::remove_file(path(database));
    }
}

fn path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".server.json");
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seen_while_it_is_lit() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        assert_eq!(Beacon::seen(&database), None);
        let beacon = Beacon::new("http://127.0.0.1:1".to_owned());
        let lit = beacon.light(&database).unwrap();
        assert_eq!(Beacon::seen(&database), Some(beacon));
        drop(lit);
        assert_eq!(Beacon::seen(&database), None);
    }
}
