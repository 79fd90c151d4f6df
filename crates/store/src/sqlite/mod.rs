//! Embedded store backed by one SQLite file.
//!
//! One thread performs all writes and commits queued calls together. Reads use separate connections
//! and never wait for the writer. A commit of events is synced to disk before its calls are
//! answered.

mod append;
mod append_coordination;
mod bind;
mod file_lock;
mod log;
mod maintenance;
mod open;
mod outbox;
mod queue;
mod reader_pool;
mod retention;
mod session;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::path::PathBuf;

use self::reader_pool::Readers;
use self::writer::SqliteWriter;
use crate::blobs::BlobFolder;
use crate::error::StoreError;
use crate::migration::SchemaStatus;
use crate::store::Store;

pub use self::writer::CommitCounts;

/// Settings for opening a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Path of the database file. The file is created if it does not exist.
    pub path: PathBuf,
    /// Number of read connections.
    pub reader_count: usize,
    /// Capacity of the writer's queue. Further calls wait for free capacity.
    pub queue_capacity: usize,
    /// Folder for large results that are stored separately. `None` stores them in the database
    /// file.
    pub blob_folder: Option<PathBuf>,
}

impl SqliteOptions {
    /// Returns the default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reader_count: 4, queue_capacity: 1024, blob_folder: None }
    }
}

/// Store in one SQLite file, or in memory.
#[derive(Debug)]
pub struct SqliteStore {
    // Dropped before the writer, whose connection closes last and then empties the WAL.
    readers: Readers,
    writer: SqliteWriter,
    blobs: Option<BlobFolder>,
    /// The database file. `None` for a database in memory.
    path: Option<PathBuf>,
    /// Lock file, locked while the store is open so that no second process writes. `None` if this
    /// store is read-only or in memory.
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens a file and applies pending migrations. This call blocks.
    pub fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open_store(options)
    }

    /// Creates an empty store in memory, which is lost when it is dropped. Calls run on the
    /// caller's thread, one after the other.
    pub fn in_memory() -> Result<Self, StoreError> {
        open::open_in_memory()
    }

    /// Opens an existing file read-only, also while another process writes to it. Calls that would
    /// write fail, and so does opening a file with pending migrations.
    pub fn open_read_only(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open_read_only(options)
    }

    /// Returns the schema version of an existing file without changing it.
    pub fn schema_status(options: &SqliteOptions) -> Result<SchemaStatus, StoreError> {
        open::read_schema_status(options)
    }

    /// Returns the number of commits so far.
    pub fn commit_counts(&self) -> CommitCounts {
        self.writer.commit_counts()
    }
}

impl Store for SqliteStore {}
