//! Location of the database file of a task.

use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_types::{TaskError, TaskErrorKind};

use crate::config::{Config, missing_key};
use crate::file_access;
use crate::settings::Settings;

const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum lock wait time that the databases support.
const MAX_BUSY_TIMEOUT: Duration = Duration::from_hours(24);

/// Name of a database in memory.
pub(crate) const MEMORY_DATABASE_NAME: &str = ":memory:";

/// Database of a task: its file, and how it is opened.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseLocation {
    /// File; `None` is in memory.
    pub(crate) file: Option<PathBuf>,
    pub(crate) readonly: bool,
    pub(crate) busy_timeout: Duration,
}

impl DatabaseLocation {
    /// Reads the location from a config. `default` is its name if the config has none.
    pub(crate) fn from_config(
        config: Config<'_>,
        default: Option<&str>,
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let name = config.first_text(&["database", "db_path", "path"])?.or(default);
        let name = name.ok_or_else(|| missing_key("'database'"))?;
        let readonly = config.flag("readonly")?.unwrap_or(false);
        let file = match name {
            MEMORY_DATABASE_NAME | "" => None,
            path => {
                let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
                Some(file_access::resolve_database_path(path, settings)?)
            }
        };
        if let Some(file) = &file
            && readonly
            && !file.exists()
        {
            let message = format!("the database '{name}' does not exist");
            return Err(TaskError::new(TaskErrorKind::NotFound, message));
        }
        // The worker could write to files that the task itself could not.
        let is_writable =
            file.as_ref().is_none_or(|file| file_access::is_writable_by_tasks(file, settings));
        if !is_writable && file.as_ref().is_some_and(|file| !file.exists()) {
            let message = format!(
                "the database '{name}' does not exist, and tasks cannot create it; add its folder to \
                 NOETL_SANDBOX_WRITABLE or NOETL_FILE_ROOTS"
            );
            return Err(TaskError::new(TaskErrorKind::Auth, message));
        }
        let readonly = readonly || !is_writable;
        let busy_timeout = config.duration("busy_timeout")?.unwrap_or(DEFAULT_BUSY_TIMEOUT);
        Ok(Self { file, readonly, busy_timeout: busy_timeout.min(MAX_BUSY_TIMEOUT) })
    }
}
