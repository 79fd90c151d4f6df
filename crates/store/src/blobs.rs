//! Large results as files.
//!
//! A file is named by the digest of its content and lies in a folder named by the first two digits.
//! It is durable, including its directory entry, before any row references it. A file that no row
//! references is garbage. Garbage collection moves it aside, checks the rows once more, and only
//! then deletes it. A concurrent put of the same content therefore either finds the file gone and
//! writes it again, or its row is seen by the check.
//!
//! Must not: access databases, or read a clock. The modification time of a file is the time of the
//! call that wrote it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, Millis, Text, Timestamp, sha256};
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::model::{MIN_BLOB_BYTES, StoredResult};
use crate::row::ResultRow;

/// Minimum age of garbage. The row of a younger file may not be written yet.
const BLOB_GRACE_PERIOD: Millis = Millis::from_secs(3_600);

/// The folder for files that are being written or deleted.
const ASIDE_FOLDER: &str = "aside";

/// Mode of a file that only its owner can access.
pub(crate) const PRIVATE_FILE_MODE: u32 = 0o600;
/// Mode of a folder that only its owner can access.
const PRIVATE_FOLDER_MODE: u32 = 0o700;

/// Creates a folder, and the missing ones above it, that only its owner can access.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER_MODE).create(folder)
}

/// A folder of blob files.
#[derive(Debug, Clone)]
pub(crate) struct BlobFolder {
    inner: Arc<BlobFolderInner>,
}

#[derive(Debug)]
struct BlobFolderInner {
    folder: PathBuf,
    /// Makes the names of temporary files unique.
    temporary_counter: AtomicU64,
    /// The last file that garbage collection has checked.
    last_checked: Mutex<Option<String>>,
}

/// A file whose content does not match its name.
#[derive(Debug, thiserror::Error)]
#[error("the file of the result with digest {0} is damaged")]
struct DamagedBlob(Digest);

/// A result in a file of a store that was opened without its blob folder.
#[derive(Debug, thiserror::Error)]
#[error("the result with digest {0} is in a file, and the store was opened without its folder")]
struct MissingBlobFolder(Digest);

/// A result whose bytes do not match its digest.
#[derive(Debug, thiserror::Error)]
#[error("the result does not have the digest {0}")]
struct WrongDigest(Digest);

impl BlobFolder {
    /// Opens a folder and creates it if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        create_private_folder(&folder.join(ASIDE_FOLDER)).map_err(StoreError::fatal)?;
        sync_folder(folder).map_err(StoreError::fatal)?;
        Ok(Self {
            inner: Arc::new(BlobFolderInner {
                folder: folder.to_owned(),
                temporary_counter: AtomicU64::new(0),
                last_checked: Mutex::new(None),
            }),
        })
    }

    /// Writes a file, unless it exists, and returns its name for the row.
    pub(crate) async fn put_blob(
        &self,
        bytes: Arc<[u8]>,
        digest: Digest,
        now: Timestamp,
    ) -> Result<Text, StoreError> {
        self.run_blocking(move |inner| {
            if sha256(&bytes) != digest {
                return Err(StoreError::fatal(WrongDigest(digest)));
            }
            let key = digest.to_string();
            inner.put_file(&key, &bytes, now).map_err(StoreError::from_io)?;
            Ok(Text::from(key))
        })
        .await
    }

    /// True if the file exists under its name.
    pub(crate) async fn contains_blob(&self, object_key: Text) -> Result<bool, StoreError> {
        self.run_blocking(move |inner| {
            let path = inner.blob_path(&object_key);
            path.try_exists().map_err(StoreError::retry)
        })
        .await
    }

    /// Reads a file and verifies its digest.
    pub(crate) async fn read_blob(
        &self,
        object_key: Text,
        digest: Digest,
    ) -> Result<Arc<[u8]>, StoreError> {
        self.run_blocking(move |inner| {
            let bytes = inner.read_file(&object_key).map_err(StoreError::retry)?;
            if sha256(&bytes) != digest {
                return Err(StoreError::fatal(DamagedBlob(digest)));
            }
            Ok(bytes.into())
        })
        .await
    }

    /// Deletes old files that no row references. Checks `limit` files, after those checked by the
    /// previous call. Returns the number deleted.
    pub(crate) async fn delete_unreferenced<F>(
        &self,
        now: Timestamp,
        limit: PageLimit,
        is_referenced: impl Fn(String) -> F,
    ) -> Result<u64, StoreError>
    where
        F: Future<Output = Result<bool, StoreError>>,
    {
        let max_checked = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let old = self
            .run_blocking(move |inner| inner.old_files(now, max_checked).map_err(StoreError::retry))
            .await?;
        let mut deleted = 0;
        for key in old {
            if is_referenced(key.clone()).await? {
                continue;
            }
            let key_to_move = key.clone();
            self.run_blocking(move |inner| {
                inner.move_aside(&key_to_move).map_err(StoreError::retry)
            })
            .await?;
            let is_referenced = is_referenced(key.clone()).await?;
            self.run_blocking(move |inner| {
                inner.delete_or_restore(&key, is_referenced).map_err(StoreError::retry)
            })
            .await?;
            deleted += u64::from(!is_referenced);
        }
        Ok(deleted)
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&BlobFolderInner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || work(&inner));
        task.await.map_err(StoreError::fatal)?
    }
}

/// Prepares a result for its row. If there is a blob folder, a large result is written to a file.
pub(crate) async fn store_large_result(
    blobs: Option<&BlobFolder>,
    mut result: StoredResult,
) -> Result<ResultRow, StoreError> {
    let object_key = match blobs {
        Some(blobs) if result.bytes.len() > MIN_BLOB_BYTES => {
            let bytes = std::mem::take(&mut result.bytes);
            Some(blobs.put_blob(bytes, result.sha256, result.created_at).await?)
        }
        Some(_) | None => None,
    };
    Ok(ResultRow { result, object_key })
}

/// Writes a file again if garbage collection deleted it before its row was committed.
pub(crate) async fn rewrite_missing_blob(
    blobs: Option<&BlobFolder>,
    object_key: Option<Text>,
    bytes: Arc<[u8]>,
    digest: Digest,
    now: Timestamp,
) -> Result<(), StoreError> {
    if let (Some(blobs), Some(object_key)) = (blobs, object_key)
        && !blobs.contains_blob(object_key).await?
    {
        blobs.put_blob(bytes, digest, now).await?;
    }
    Ok(())
}

/// Returns a result with its bytes, read from its file if it has one.
pub(crate) async fn load_result_bytes(
    blobs: Option<&BlobFolder>,
    row: Option<ResultRow>,
) -> Result<Option<StoredResult>, StoreError> {
    let Some(ResultRow { result, object_key }) = row else {
        return Ok(None);
    };
    let Some(object_key) = object_key else {
        return Ok(Some(result));
    };
    let Some(blobs) = blobs else {
        return Err(StoreError::fatal(MissingBlobFolder(result.sha256)));
    };
    let bytes = blobs.read_blob(object_key, result.sha256).await?;
    Ok(Some(StoredResult { bytes, ..result }))
}

impl BlobFolderInner {
    fn shard_folder(&self, key: &str) -> PathBuf {
        self.folder.join(key.get(..2).unwrap_or_default())
    }

    fn blob_path(&self, key: &str) -> PathBuf {
        self.shard_folder(key).join(key)
    }

    fn put_file(&self, key: &str, bytes: &[u8], now: Timestamp) -> io::Result<()> {
        let path = self.blob_path(key);
        if has_length(&path, bytes.len())? {
            // A new modification time protects the file from garbage collection.
            return File::options().append(true).open(&path)?.set_modified(system_time(now));
        }
        let shard = self.shard_folder(key);
        if !shard.try_exists()? {
            create_private_folder(&shard)?;
            sync_folder(&self.folder)?;
        }
        let temporary = self.write_temporary(key, bytes, now)?;
        fs::rename(&temporary, &path)?;
        sync_folder(&shard)
    }

    fn write_temporary(&self, key: &str, bytes: &[u8], now: Timestamp) -> io::Result<PathBuf> {
        loop {
            let number = self.temporary_counter.fetch_add(1, Ordering::Relaxed);
            let name = format!("{key}.{}.{number}", std::process::id());
            let path = self.folder.join(ASIDE_FOLDER).join(name);
            let mut file = match File::options()
                .write(true)
                .create_new(true)
                .mode(PRIVATE_FILE_MODE)
                .open(&path)
            {
                Ok(file) => file,
                // Left by a process with the same process id, or written by a process on another
                // host.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            file.write_all(bytes)?;
            file.set_modified(system_time(now))?;
            file.sync_all()?;
            return Ok(path);
        }
    }

    fn move_aside(&self, key: &str) -> io::Result<()> {
        rename_if_exists(&self.blob_path(key), &self.folder.join(ASIDE_FOLDER).join(key))
    }

    /// Deletes a file that was moved aside, or restores it if a row references it.
    fn delete_or_restore(&self, key: &str, is_referenced: bool) -> io::Result<()> {
        let aside = self.folder.join(ASIDE_FOLDER).join(key);
        if is_referenced {
            rename_if_exists(&aside, &self.blob_path(key))
        } else {
            remove_if_exists(&aside)
        }
    }

    /// Reads a file, which garbage collection may have moved aside for a moment.
    fn read_file(&self, key: &str) -> io::Result<Vec<u8>> {
        let aside = self.folder.join(ASIDE_FOLDER).join(key);
        let blob = self.blob_path(key);
        let mut content = fs::read(&blob);
        for path in [&aside, &blob] {
            match content {
                Err(error) if error.kind() == io::ErrorKind::NotFound => content = fs::read(path),
                content => return content,
            }
        }
        content
    }

    fn old_files(&self, now: Timestamp, max_checked: usize) -> io::Result<Vec<String>> {
        let before = system_time(now.saturating_sub(BLOB_GRACE_PERIOD));
        self.remove_leftovers(before)?;
        let mut last = self.last_checked.lock();
        let mut names = self.names_after(last.as_deref(), max_checked)?;
        if names.len() < max_checked {
            *last = None;
        } else {
            *last = names.last().cloned();
        }
        names.retain(|name| is_older(&self.blob_path(name), before).unwrap_or(false));
        Ok(names)
    }

    fn names_after(&self, last: Option<&str>, max_checked: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for shard in sorted_file_names(&self.folder)? {
            let is_before_last =
                |last: &str| last.get(..2).is_some_and(|last_shard| shard.as_str() < last_shard);
            if shard.len() != 2 || last.is_some_and(is_before_last) {
                continue;
            }
            let in_shard = sorted_file_names(&self.folder.join(&shard))?;
            names.extend(in_shard.into_iter().filter(|it| Some(it.as_str()) > last));
            if names.len() >= max_checked {
                names.truncate(max_checked);
                break;
            }
        }
        Ok(names)
    }

    /// Cleans up after crashed processes. Partial files have a dot in their names and are deleted.
    /// Files that were moved aside are moved back, so that the next garbage collection checks them
    /// again.
    fn remove_leftovers(&self, before: SystemTime) -> io::Result<()> {
        let folder = self.folder.join(ASIDE_FOLDER);
        for name in sorted_file_names(&folder)? {
            let path = folder.join(&name);
            if !is_older(&path, before).unwrap_or(false) {
                continue;
            }
            if name.contains('.') {
                remove_if_exists(&path)?;
            } else {
                rename_if_exists(&path, &self.blob_path(&name))?;
            }
        }
        Ok(())
    }
}

/// Returns the names in a folder in order.
fn sorted_file_names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn has_length(path: &Path, length: usize) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(usize::try_from(metadata.len()) == Ok(length)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_older(path: &Path, than: SystemTime) -> io::Result<bool> {
    Ok(fs::metadata(path)?.modified()? < than)
}

/// Renames a file. Another process may have renamed it first.
fn rename_if_exists(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
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
