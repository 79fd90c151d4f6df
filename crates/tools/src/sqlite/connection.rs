//! Database of a task: where it is, how it is opened, and how work with it runs on a blocking thread
//! and is stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use parking_lot::Mutex;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error, ErrorCode, InterruptHandle, OpenFlags, ffi};

use crate::file_access;
use crate::sandbox::SandboxMode;
use crate::settings::Settings;
use crate::sql::{DatabaseLocation, MEMORY_DATABASE_NAME, SqlError};
use crate::tool::run_blocking;

/// Maximum size of an in-memory database, in bytes.
const MAX_MEMORY_DATABASE_BYTES: i64 = 256 * 1024 * 1024;

/// Pragmas that select the directories in which files are created.
const DIRECTORY_PRAGMAS: [&str; 2] = ["temp_store_directory", "data_store_directory"];

/// Pragmas that change the maximum size of a database.
const SIZE_PRAGMAS: [&str; 2] = ["max_page_count", "page_size"];

impl DatabaseLocation {
    /// Opens the database. This and all later operations block the thread.
    pub(super) fn open(&self, settings: &Arc<Settings>) -> Result<Connection, SqlError> {
        // Names are plain paths, not URIs, so that a name cannot contain open options.
        let access = if self.readonly {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let mut flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if settings.sandbox.mode != SandboxMode::Off {
            // The name has no links, unless a task has put one on the path since it was checked.
            flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
        }
        let mut connection = match &self.file {
            Some(file) => Connection::open_with_flags(file, flags)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(self.busy_timeout)?;
        let is_memory = self.file.is_none();
        if is_memory && self.readonly {
            connection.pragma_update(None, "query_only", true)?;
        }
        set_memory_limits(&connection, is_memory, settings.payload_cap)?;
        let settings = Arc::clone(settings);
        let allow =
            move |context: AuthContext<'_>| authorize_action(&context.action, is_memory, &settings);
        connection.authorizer(Some(allow))?;
        Ok(connection)
    }
}

/// Limits the memory of the worker that a database may use.
fn set_memory_limits(
    connection: &Connection,
    is_memory: bool,
    cap: ByteSize,
) -> rusqlite::Result<()> {
    // A value that is larger than any result could not be returned anyway.
    let default_length = connection.limit(Limit::SQLITE_LIMIT_LENGTH)?;
    let max_length = i32::try_from(cap.as_bytes()).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, max_length.min(default_length))?;
    if is_memory {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = MAX_MEMORY_DATABASE_BYTES / page.max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    // Large temporary data goes to a file instead of to memory.
    connection.pragma_update(None, "temp_store", "FILE")
}

/// Authorizes an action of a statement. Further files must be in the allowed directories too, and
/// the limits of in-memory databases cannot be raised.
fn authorize_action(
    action: &AuthAction<'_>,
    is_memory: bool,
    settings: &Settings,
) -> Authorization {
    // Without restrictions, a statement may do anything that its owner could do without it.
    let is_unrestricted =
        settings.file_roots.is_none() && settings.sandbox.mode == SandboxMode::Off;
    let is_allowed = match action {
        // Another in-memory database would have no limit.
        AuthAction::Attach { filename: MEMORY_DATABASE_NAME } => is_unrestricted,
        AuthAction::Attach { filename } => can_attach(filename, settings),
        // A file name that is known only when the statement runs cannot be checked.
        AuthAction::Unknown { code, .. } => is_unrestricted || *code != ffi::SQLITE_ATTACH,
        AuthAction::Pragma { pragma_name, .. } if is_one_of(pragma_name, &DIRECTORY_PRAGMAS) => {
            false
        }
        // A size pragma is ignored instead of failing the statement.
        AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
            if is_one_of(pragma_name, &["temp_store"])
                || (is_memory && is_one_of(pragma_name, &SIZE_PRAGMAS)) =>
        {
            return Authorization::Ignore;
        }
        // All other actions stay within the open databases.
        _ => true,
    };
    if is_allowed { Authorization::Allow } else { Authorization::Deny }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|candidate| name.eq_ignore_ascii_case(candidate))
}

/// True if a statement may attach a file. An empty name is a private temporary database. A name
/// that begins like a URI is denied, since it may contain escapes and options that are not checked.
fn can_attach(name: &str, settings: &Settings) -> bool {
    let prefix = name.get(..5).unwrap_or_default();
    let is_plain = !prefix.eq_ignore_ascii_case("file:");
    is_plain
        && (name.is_empty()
            || file_access::resolve_database_path(Path::new(name), settings).is_ok_and(|real| {
                let is_sandboxed = settings.sandbox.mode != SandboxMode::Off;
                // The database opens the name itself, so it must not lead through replaceable links.
                !is_sandboxed
                    || (real == Path::new(name)
                        && file_access::is_writable_by_tasks(&real, settings))
            }))
}

/// Connection that one thread at a time uses.
#[derive(Clone)]
pub(crate) struct SharedConnection(pub(super) Arc<Mutex<Connection>>);

impl SharedConnection {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    /// Runs a function with the connection on a blocking thread. Stops it when the future is
    /// dropped. A transaction that it leaves open is rolled back, as it is when a connection is
    /// closed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &StopFlag) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let shared = self.clone();
        let stop = StopFlag::default();
        let _stop_guard = stop.stop_on_drop();
        run_blocking("database", move || {
            let mut connection = shared.0.lock();
            stop.attach_connection(&mut connection)?;
            let result = work(&connection, &stop);
            let detached = stop.detach_connection(&mut connection);
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").ok();
            }
            let value = result?;
            detached?;
            Ok(value)
        })
        .await?
    }
}

/// Number of virtual machine steps of a statement between two checks of the flag.
const STEPS_PER_CHECK: i32 = 1000;

/// Flag that running statements check. An interrupt alone could arrive just before a statement
/// starts and be lost.
#[derive(Clone, Default)]
pub(super) struct StopFlag(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    running: Mutex<Option<InterruptHandle>>,
}

/// Guard that stops the work when it is dropped.
pub(super) struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let inner = &self.0.0;
        inner.stopped.store(true, Ordering::SeqCst);
        if let Some(handle) = &*inner.running.lock() {
            handle.interrupt();
        }
    }
}

impl StopFlag {
    /// Returns a guard that stops the work when it is dropped.
    pub(super) fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Makes a connection stoppable. A stopped connection does not commit, even if it was waiting
    /// for a lock.
    pub(super) fn attach_connection(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let (running, committing) = (self.clone(), self.clone());
        connection.progress_handler(STEPS_PER_CHECK, Some(move || running.is_stopped()))?;
        connection.commit_hook(Some(move || committing.is_stopped()))?;
        self.set_interrupt_handle(Some(connection.get_interrupt_handle()));
        Ok(())
    }

    /// Detaches from a connection that other tasks will use.
    pub(super) fn detach_connection(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        self.set_interrupt_handle(None);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        connection.commit_hook(None::<fn() -> bool>)
    }

    fn set_interrupt_handle(&self, handle: Option<InterruptHandle>) {
        *self.0.running.lock() = handle;
    }
}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let (failure, message) = match &error {
            Error::SqliteFailure(failure, message) => (failure, message.clone()),
            Error::SqlInputError { error, msg, .. } => (error, Some(msg.clone())),
            other => return Self(TaskError::new(TaskErrorKind::DbError, other.to_string())),
        };
        let code = failure.extended_code;
        let message = message.unwrap_or_else(|| failure.to_string());
        let message = format!("{message} (SQLite code {code})");
        Self(TaskError {
            code: Some(Json::from(code)),
            ..TaskError::new(error_code_kind(failure.code), message)
        })
    }
}

fn error_code_kind(code: ErrorCode) -> TaskErrorKind {
    match code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => TaskErrorKind::DbTimeout,
        ErrorCode::ConstraintViolation => TaskErrorKind::DbConstraint,
        ErrorCode::CannotOpen => TaskErrorKind::DbConnection,
        ErrorCode::DiskFull => TaskErrorKind::StorageQuota,
        ErrorCode::TooBig => TaskErrorKind::Limit,
        ErrorCode::PermissionDenied => TaskErrorKind::StorageAccess,
        ErrorCode::AuthorizationForStatementDenied => TaskErrorKind::Auth,
        ErrorCode::OperationInterrupted => TaskErrorKind::Timeout,
        // The list of codes is open. All others are faults of the statement.
        _ => TaskErrorKind::DbError,
    }
}
