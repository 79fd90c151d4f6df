//! What a transfer is to do.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, missing, wrong};

/// Rows that are moved at once, where the task says nothing else.
const CHUNK: u64 = 1000;

/// The most rows that are moved at once.
const LARGEST_CHUNK: u64 = 100_000;

/// A transfer.
#[derive(Debug)]
pub(super) struct Plan<'p> {
    pub(super) source: Side<'p>,
    pub(super) target: Side<'p>,
    pub(super) into: Into,
    pub(super) mapping: Option<&'p JsonMap>,
    /// The order in which a statement of the author's takes its columns.
    pub(super) columns: Option<Vec<Arc<str>>>,
    pub(super) mode: Mode,
    pub(super) keys: Option<Vec<Arc<str>>>,
    pub(super) chunk_size: usize,
}

/// An end of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'p> {
    pub(super) system: System,
    pub(super) config: Config<'p>,
}

/// What rows come from or go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Http,
    Postgres,
    Sqlite,
}

/// Where in a target rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Into {
    Table(String),
    /// A statement that takes a row as its parameters.
    Query(String),
    /// The address of the target itself.
    Itself,
}

/// What happens to rows that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They stay.
    Append,
    /// They go.
    Replace,
    /// Those with the same key are written over.
    Upsert,
}

impl System {
    fn read(side: &str, config: Config<'_>) -> Result<Self, TaskError> {
        let kind = config.text("type")?.or(config.text("kind")?);
        match kind {
            Some("http") => Ok(Self::Http),
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("sqlite") => Ok(Self::Sqlite),
            Some(feature @ ("duckdb" | "snowflake")) => Err(TaskError::new(
                TaskErrorKind::Unsupported,
                format!("a {side} of type '{feature}' needs a build with feature '{feature}'"),
            )),
            Some(other) => {
                let message = format!(
                    "'{side}.type' is '{other}'; rows can be moved between http, postgres and sqlite"
                );
                Err(TaskError::new(TaskErrorKind::Schema, message))
            }
            None => Err(missing(&format!("'{side}.type'"))),
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

impl Mode {
    fn read(config: Config<'_>) -> Result<Self, TaskError> {
        match config.text("mode")? {
            Some("append") | None => Ok(Self::Append),
            Some("replace") => Ok(Self::Replace),
            Some("upsert") => Ok(Self::Upsert),
            Some(other) => Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'mode' is '{other}'; it must be append, replace or upsert"),
            )),
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Replace => "replace",
            Self::Upsert => "upsert",
        }
    }
}

impl<'p> Plan<'p> {
    pub(super) fn read(config: Config<'p>) -> Result<Self, TaskError> {
        let side = |name: &str| {
            let map = config.map(name)?;
            let config = Config(map.ok_or_else(|| missing(&format!("'{name}'")))?);
            let system = System::read(name, config)?;
            Ok::<_, TaskError>(Side { system, config })
        };
        let (source, target) = (side("source")?, side("target")?);
        let mode = Mode::read(config)?;
        let into = into(target, mode)?;
        let either = |key: &str| target.config.get(key).or(config.get(key));
        let mapping = match either("mapping") {
            Some(Json::Map(mapping)) if !mapping.is_empty() => Some(&**mapping),
            Some(Json::Map(_)) | None => None,
            Some(other) => return Err(wrong("mapping", "a map", other)),
        };
        let keys = either("keys")
            .or(either("key"))
            .map(|keys| names("keys", keys));
        let columns = either("columns").map(|columns| names("columns", columns));
        Ok(Self {
            source,
            target,
            into,
            mapping,
            columns: columns.transpose()?,
            mode,
            keys: keys.transpose()?,
            chunk_size: chunk_size(config)?,
        })
    }
}

fn into(target: Side<'_>, mode: Mode) -> Result<Into, TaskError> {
    let schema = |message: &str| Err(TaskError::new(TaskErrorKind::Schema, message));
    let (table, query) = (target.config.text("table")?, target.config.text("query")?);
    match (target.system, table, query) {
        (System::Http, ..) if mode != Mode::Append => schema("rows can only be appended over http"),
        (System::Http, ..) => Ok(Into::Itself),
        (_, Some(table), None) => Ok(Into::Table(table.to_owned())),
        (_, None, Some(_)) if mode == Mode::Replace => {
            schema("mode 'replace' needs 'target.table', to know what to empty")
        }
        (_, None, Some(query)) => Ok(Into::Query(query.to_owned())),
        (_, Some(_), Some(_)) => schema("'target' has both 'table' and 'query'"),
        (_, None, None) => Err(missing("'target.table' or 'target.query'")),
    }
}

/// A name, or a list of names.
fn names(key: &str, value: &Json) -> Result<Vec<Arc<str>>, TaskError> {
    let name = |value: &Json| match value {
        Json::Str(name) => Ok(Arc::clone(name)),
        other => Err(wrong(key, "a name or a list of names", other)),
    };
    match value {
        Json::List(list) => list.iter().map(name).collect(),
        one => Ok(vec![name(one)?]),
    }
}

fn chunk_size(config: Config<'_>) -> Result<usize, TaskError> {
    let Some(value) = config.get("chunk_size") else {
        return Ok(usize::try_from(CHUNK).unwrap_or(usize::MAX));
    };
    let number = match value {
        // A template may have given it as text.
        Json::Str(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    };
    let number = number.filter(|number| *number > 0);
    let number = number.ok_or_else(|| wrong("chunk_size", "a number above 0", value))?;
    Ok(usize::try_from(number.min(LARGEST_CHUNK)).unwrap_or(usize::MAX))
}
