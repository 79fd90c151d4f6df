//! Which database a task means, and how it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use noetl_types::{ByteSize, Millis, TaskError, TaskErrorKind};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, ffi};

use super::fault;
use crate::config::{Config, missing};
use crate::roots;
use crate::settings::Settings;
use crate::walls::SandboxMode;

/// How long a statement waits for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait that the database can count.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// The bytes that a database in memory holds at most.
const LARGEST_IN_MEMORY: i64 = 256 * 1024 * 1024;

/// The name of a database in memory.
const MEMORY: &str = ":memory:";

/// Settings of a connection that say where files are made.
const FOLDERS: [&str; 2] = ["temp_store_directory", "data_store_directory"];

/// Settings of a database that say how large it may get.
const SIZES: [&str; 2] = ["max_page_count", "page_size"];

/// A database.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The file; `None` is memory.
    pub(super) file: Option<PathBuf>,
    readonly: bool,
    busy_timeout: Duration,
}

impl Place {
    pub(super) fn read(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let mut names = ["database", "db_path", "path"].into_iter();
        let name = names.find_map(|key| config.text(key).transpose());
        let name = name.ok_or_else(|| missing("'database'"))??;
        let readonly = config.flag("readonly")?.unwrap_or(false);
        let file = match name {
            MEMORY | "" => None,
            path => {
                let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
                Some(roots::opened("database", path, settings)?)
            }
        };
        if let Some(file) = &file
            && readonly
            && !file.exists()
        {
            let message = format!("the database '{name}' does not exist");
            return Err(TaskError::new(TaskErrorKind::NotFound, message));
        }
        let wait = config
            .get("busy_timeout")
            .map(Millis::from_json)
            .transpose();
        let wait = wait.map_err(|error| {
            let message = format!("'busy_timeout': {error}");
            TaskError::new(TaskErrorKind::Schema, message)
        })?;
        Ok(Self {
            file,
            readonly,
            busy_timeout: wait.map_or(BUSY_TIMEOUT, Duration::from).min(LONGEST_WAIT),
        })
    }

    /// Opens it. This and all that follows blocks its thread.
    pub(super) fn open(&self, settings: &Arc<Settings>) -> Result<Connection, TaskError> {
        // Names are plain files and no URIs, so that a name cannot say how it is opened.
        let access = if self.readonly {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.file {
            Some(file) => Connection::open_with_flags(file, flags),
            None => Connection::open_in_memory(),
        };
        let mut connection = opened.map_err(fault::of)?;
        connection
            .busy_timeout(self.busy_timeout)
            .map_err(fault::of)?;
        if self.file.is_none() && self.readonly {
            connection
                .pragma_update(None, "query_only", true)
                .map_err(fault::of)?;
        }
        let is_memory = self.file.is_none();
        bound(&connection, is_memory, settings.payload_cap).map_err(fault::of)?;
        let settings = Arc::clone(settings);
        let allow = move |context: AuthContext<'_>| allowed(&context.action, is_memory, &settings);
        connection.authorizer(Some(allow)).map_err(fault::of)?;
        Ok(connection)
    }
}

/// Puts bounds around what a database may take of the worker's own memory.
fn bound(connection: &Connection, is_memory: bool, cap: ByteSize) -> rusqlite::Result<()> {
    // A value that is larger than any result could not be reported anyway.
    let usual = connection.limit(Limit::SQLITE_LIMIT_LENGTH)?;
    let longest = i32::try_from(cap.as_bytes()).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest.min(usual))?;
    if is_memory {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = LARGEST_IN_MEMORY / page.max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    // What a statement puts aside goes to a file once there is much of it, not to memory for ever.
    connection.pragma_update(None, "temp_store", "FILE")
}

/// A statement can open further files, which have to be in opened folders as well, and lift the
/// bounds of what is in memory, which stay.
fn allowed(action: &AuthAction<'_>, is_memory: bool, settings: &Settings) -> Authorization {
    // Where there is nothing to get around, a statement may do what its owner could do without it.
    let is_free = settings.file_roots.is_none() && settings.sandbox.mode == SandboxMode::Off;
    let is_allowed = match action {
        // It would have no bound.
        AuthAction::Attach { filename: MEMORY } => is_free,
        AuthAction::Attach { filename } => may_attach(filename, settings),
        // A file whose name is only known when the statement runs cannot be looked at.
        AuthAction::Unknown { code, .. } => is_free || *code != ffi::SQLITE_ATTACH,
        AuthAction::Pragma { pragma_name, .. } if is_one_of(pragma_name, &FOLDERS) => false,
        // How large something may get is a wish, and no reason to fail.
        AuthAction::Pragma {
            pragma_name,
            pragma_value: Some(_),
        } if is_one_of(pragma_name, &["temp_store"])
            || (is_memory && is_one_of(pragma_name, &SIZES)) =>
        {
            return Authorization::Ignore;
        }
        // All else stays within the databases that are open.
        _ => true,
    };
    if is_allowed {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Whether a statement may open a file; without a name it is one of its own, which goes away. A name
/// that begins like a URI is none to look at: the database finds escapes and options in it.
fn may_attach(name: &str, settings: &Settings) -> bool {
    let start = name.get(..5).unwrap_or_default();
    let is_plain = !start.eq_ignore_ascii_case("file:");
    is_plain && (name.is_empty() || roots::opened("database", Path::new(name), settings).is_ok())
}
