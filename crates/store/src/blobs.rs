//! Large results as files.
//!
//! A file is named by the digest of its content and lies in a folder of the first two digits. It is
//! on the disk, name and all, before any row names it. What no row names is garbage: a sweep moves
//! it aside, looks at the rows once more, and only then removes it, so that whoever puts the same
//! content meanwhile either finds that it has gone and writes it again, or has its row seen.
//!
//! Must not: know about databases, or read a clock. Files have the time of the call that wrote them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, Millis, Text, Timestamp, sha256};

use crate::error::StoreError;
use crate::model::{BLOB_BYTES, StoredResult};
use crate::row::KeptResult;

/// How old a file is at least before it counts as garbage: its row may be on its way.
const GRACE: Millis = Millis::from_secs(3_600);

/// The folder for what is on its way, in or out.
const ASIDE: &str = "aside";

/// A folder of files.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Names of files that are being written differ in this number.
    written: AtomicU64,
    /// Where the last sweep stopped looking.
    swept: Mutex<Option<String>>,
}

/// A file that is not what its name says.
#[derive(Debug, thiserror::Error)]
#[error("the file of the result with digest {0} is damaged")]
struct Damaged(Digest);

/// A result in a file, and no folder to look for it.
#[derive(Debug, thiserror::Error)]
#[error("the result with digest {0} is in a file, and the store was opened without its folder")]
struct NoFolder(Digest);

/// A result that is not what its digest says.
#[derive(Debug, thiserror::Error)]
#[error("the result does not have the digest {0}")]
struct WrongDigest(Digest);

impl Blobs {
    /// Uses a folder, which is made if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder.join(ASIDE)).map_err(StoreError::fatal)?;
        sync_folder(folder).map_err(StoreError::fatal)?;
        Ok(Self {
            inner: Arc::new(Inner {
                folder: folder.to_owned(),
                written: AtomicU64::new(0),
                swept: Mutex::new(None),
            }),
        })
    }

    /// Writes a file, unless it is there already, and gives the name of it for a row.
    pub(crate) async fn put(
        &self,
        bytes: Arc<[u8]>,
        digest: Digest,
        now: Timestamp,
    ) -> Result<Text, StoreError> {
        self.run(move |inner| {
            if sha256(&bytes) != digest {
                return Err(StoreError::fatal(WrongDigest(digest)));
            }
            let key = digest.to_string();
            inner.put(&key, &bytes, now).map_err(StoreError::retry)?;
            Ok(Text::from(key))
        })
        .await
    }

    /// Whether a file is where its name says.
    pub(crate) async fn has(&self, object_key: Text) -> Result<bool, StoreError> {
        self.run(move |inner| {
            let place = inner.place(&object_key);
            place.try_exists().map_err(StoreError::retry)
        })
        .await
    }

    /// Reads a file, and compares it with its digest.
    pub(crate) async fn read(
        &self,
        object_key: Text,
        digest: Digest,
    ) -> Result<Arc<[u8]>, StoreError> {
        self.run(move |inner| {
            let bytes = inner.read(&object_key).map_err(StoreError::retry)?;
            if sha256(&bytes) != digest {
                return Err(StoreError::fatal(Damaged(digest)));
            }
            Ok(bytes.into())
        })
        .await
    }

    /// Removes old files that no row names, of as many as are looked at: the next ones after those of
    /// the last time. Says how many it removed.
    pub(crate) async fn sweep<F>(
        &self,
        now: Timestamp,
        look_at: PageLimit,
        is_named: impl Fn(String) -> F,
    ) -> Result<u64, StoreError>
    where
        F: Future<Output = Result<bool, StoreError>>,
    {
        let look_at = usize::try_from(look_at.get()).unwrap_or(usize::MAX);
        let old = self
            .run(move |inner| inner.old_files(now, look_at).map_err(StoreError::retry))
            .await?;
        let mut removed = 0;
        for key in old {
            if is_named(key.clone()).await? {
                continue;
            }
            let aside = key.clone();
            self.run(move |inner| inner.set_aside(&aside).map_err(StoreError::retry))
                .await?;
            let is_named = is_named(key.clone()).await?;
            self.run(move |inner| inner.settle(&key, is_named).map_err(StoreError::retry))
                .await?;
            removed += u64::from(!is_named);
        }
        Ok(removed)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || work(&inner));
        task.await.map_err(StoreError::fatal)?
    }
}

/// A result as its row is to have it: a large one is a file by then, where there is a folder.
pub(crate) async fn keep(
    blobs: Option<&Blobs>,
    result: StoredResult,
) -> Result<KeptResult, StoreError> {
    let object_key = match blobs {
        Some(blobs) if result.bytes.len() > BLOB_BYTES => {
            let bytes = Arc::clone(&result.bytes);
            Some(blobs.put(bytes, result.sha256, result.created_at).await?)
        }
        Some(_) | None => None,
    };
    Ok(KeptResult { result, object_key })
}

/// Writes a file once more that was swept before its row was there.
pub(crate) async fn make_sure(
    blobs: Option<&Blobs>,
    object_key: Option<Text>,
    (bytes, digest, now): (Arc<[u8]>, Digest, Timestamp),
) -> Result<(), StoreError> {
    if let (Some(blobs), Some(object_key)) = (blobs, object_key)
        && !blobs.has(object_key).await?
    {
        blobs.put(bytes, digest, now).await?;
    }
    Ok(())
}

/// A result with its bytes, wherever they are.
pub(crate) async fn fetch(
    blobs: Option<&Blobs>,
    kept: Option<KeptResult>,
) -> Result<Option<StoredResult>, StoreError> {
    let Some(KeptResult { result, object_key }) = kept else {
        return Ok(None);
    };
    let Some(object_key) = object_key else {
        return Ok(Some(result));
    };
    let Some(blobs) = blobs else {
        return Err(StoreError::fatal(NoFolder(result.sha256)));
    };
    let bytes = blobs.read(object_key, result.sha256).await?;
    Ok(Some(StoredResult { bytes, ..result }))
}

impl Inner {
    fn shelf(&self, key: &str) -> PathBuf {
        self.folder.join(key.get(..2).unwrap_or_default())
    }

    fn place(&self, key: &str) -> PathBuf {
        self.shelf(key).join(key)
    }

    fn put(&self, key: &str, bytes: &[u8], now: Timestamp) -> io::Result<()> {
        let place = self.place(key);
        if has_length(&place, bytes.len())? {
            // It is young again, so that no sweep takes it for garbage.
            return File::options()
                .append(true)
                .open(&place)?
                .set_modified(system_time(now));
        }
        let shelf = self.shelf(key);
        if !shelf.try_exists()? {
            fs::create_dir_all(&shelf)?;
            sync_folder(&self.folder)?;
        }
        let temporary = self.write_temporary(key, bytes, now)?;
        fs::rename(&temporary, &place)?;
        sync_folder(&shelf)
    }

    fn write_temporary(&self, key: &str, bytes: &[u8], now: Timestamp) -> io::Result<PathBuf> {
        loop {
            let number = self.written.fetch_add(1, Ordering::Relaxed);
            let name = format!("{key}.{}.{number}", std::process::id());
            let path = self.folder.join(ASIDE).join(name);
            let mut file = match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                // Left behind by a process of the same number, or written by one elsewhere.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            file.write_all(bytes)?;
            file.set_modified(system_time(now))?;
            file.sync_all()?;
            return Ok(path);
        }
    }

    fn set_aside(&self, key: &str) -> io::Result<()> {
        rename(&self.place(key), &self.folder.join(ASIDE).join(key))
    }

    /// Removes what was moved aside, or puts it back where a row names it after all.
    fn settle(&self, key: &str, is_named: bool) -> io::Result<()> {
        let aside = self.folder.join(ASIDE).join(key);
        if is_named {
            rename(&aside, &self.place(key))
        } else {
            remove(&aside)
        }
    }

    /// A sweep may have the file aside for a moment.
    fn read(&self, key: &str) -> io::Result<Vec<u8>> {
        let aside = self.folder.join(ASIDE).join(key);
        let place = self.place(key);
        let mut found = fs::read(&place);
        for path in [&aside, &place] {
            match found {
                Err(error) if error.kind() == io::ErrorKind::NotFound => found = fs::read(path),
                found => return found,
            }
        }
        found
    }

    fn old_files(&self, now: Timestamp, look_at: usize) -> io::Result<Vec<String>> {
        let before = system_time(now.saturating_sub(GRACE));
        self.remove_leftovers(before)?;
        let mut last = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = self.names_after(last.as_deref(), look_at)?;
        if names.len() < look_at {
            *last = None;
        } else {
            *last = names.last().cloned();
        }
        names.retain(|name| is_older(&self.place(name), before).unwrap_or(false));
        Ok(names)
    }

    fn names_after(&self, last: Option<&str>, look_at: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for shelf in names_in(&self.folder)? {
            let begins_before = |last: &str| last.get(..2).is_some_and(|of| shelf.as_str() < of);
            if shelf.len() != 2 || last.is_some_and(begins_before) {
                continue;
            }
            let on_shelf = names_in(&self.folder.join(&shelf))?;
            names.extend(on_shelf.into_iter().filter(|it| Some(it.as_str()) > last));
            if names.len() >= look_at {
                names.truncate(look_at);
                break;
            }
        }
        Ok(names)
    }

    /// Files that a process died over: half written ones have a dot in their names, and those that
    /// were moved aside go back to their places, where the next sweep finds them again.
    fn remove_leftovers(&self, before: SystemTime) -> io::Result<()> {
        let folder = self.folder.join(ASIDE);
        for name in names_in(&folder)? {
            let path = folder.join(&name);
            if !is_older(&path, before).unwrap_or(false) {
                continue;
            }
            if name.contains('.') {
                remove(&path)?;
            } else {
                rename(&path, &self.place(&name))?;
            }
        }
        Ok(())
    }
}

/// The names in a folder, in order.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn has_length(path: &Path, bytes: usize) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(usize::try_from(found.len()) == Ok(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_older(path: &Path, than: SystemTime) -> io::Result<bool> {
    Ok(fs::metadata(path)?.modified()? < than)
}

/// Another process may have been quicker.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn system_time(time: Timestamp) -> SystemTime {
    let micros = u64::try_from(time.as_micros()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}
