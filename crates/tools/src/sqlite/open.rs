//! Which database a task means, and how it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use noetl_types::{Millis, TaskError, TaskErrorKind};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags, ffi};

use super::fault;
use crate::config::{Config, missing};
use crate::roots;
use crate::settings::Settings;

/// How long a statement waits for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait that the database can count.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

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
            ":memory:" | "" => None,
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
        if settings.file_roots.is_some() {
            let settings = Arc::clone(settings);
            let allow = move |context: AuthContext<'_>| allowed(&context.action, &settings);
            connection.authorizer(Some(allow)).map_err(fault::of)?;
        }
        Ok(connection)
    }
}

/// A statement can open further files, which have to be in opened folders as well.
fn allowed(action: &AuthAction<'_>, settings: &Settings) -> Authorization {
    let allowed = match action {
        AuthAction::Attach { filename } => {
            matches!(*filename, "" | ":memory:")
                || roots::opened("database", Path::new(filename), settings).is_ok()
        }
        // A file whose name is only known when the statement runs cannot be looked at.
        AuthAction::Unknown { code, .. } => *code != ffi::SQLITE_ATTACH,
        AuthAction::Pragma { pragma_name, .. } => !matches!(
            *pragma_name,
            "temp_store_directory" | "data_store_directory"
        ),
        // All else stays within the databases that are open.
        _ => true,
    };
    if allowed {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}
