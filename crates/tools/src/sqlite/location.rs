//! Database of a task, and how it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::config::{Config, missing_key};
use crate::file_access;
use crate::sandbox::SandboxMode;
use crate::settings::Settings;
use crate::sql::SqlError;

/// Default lock wait time of a statement.
const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum lock wait time that the database supports.
const MAX_BUSY_TIMEOUT: Duration = Duration::from_hours(24);

/// Maximum size of an in-memory database, in bytes.
const MAX_MEMORY_DATABASE_BYTES: i64 = 256 * 1024 * 1024;

/// Name of an in-memory database.
const MEMORY_DATABASE_NAME: &str = ":memory:";

/// Pragmas that select the directories in which files are created.
const DIRECTORY_PRAGMAS: [&str; 2] = ["temp_store_directory", "data_store_directory"];

/// Pragmas that change the maximum size of a database.
const SIZE_PRAGMAS: [&str; 2] = ["max_page_count", "page_size"];

/// Location and access mode of a database.
#[derive(Debug, Clone)]
pub(super) struct DatabaseLocation {
    /// File; `None` is in memory.
    pub(super) file: Option<PathBuf>,
    readonly: bool,
    busy_timeout: Duration,
}

impl DatabaseLocation {
    pub(super) fn from_config(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let name = config.first_text(&["database", "db_path", "path"])?;
        let name = name.ok_or_else(|| missing_key("'database'"))?;
        let readonly = config.flag("readonly")?.unwrap_or(false);
        let file = match name {
            MEMORY_DATABASE_NAME | "" => None,
            path => {
                let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
                Some(file_access::resolve_allowed_path("database", path, settings)?)
            }
        };
        if let Some(file) = &file
            && readonly
            && !file.exists()
        {
            let message = format!("the database '{name}' does not exist");
            return Err(TaskError::new(TaskErrorKind::NotFound, message));
        }
        let busy_timeout = config.duration("busy_timeout")?.unwrap_or(DEFAULT_BUSY_TIMEOUT);
        Ok(Self { file, readonly, busy_timeout: busy_timeout.min(MAX_BUSY_TIMEOUT) })
    }

    /// Opens the database. This and all later operations block the thread.
    pub(super) fn open(&self, settings: &Arc<Settings>) -> Result<Connection, SqlError> {
        // Names are plain paths, not URIs, so that a name cannot contain open options.
        let access = if self.readonly {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
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
            || file_access::resolve_allowed_path("database", Path::new(name), settings).is_ok())
}
