//! Plan of a transfer, read from its config.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, missing_key, schema_error, wrong_type};
use crate::sql::quote_table_name;

const DEFAULT_CHUNK_ROWS: u64 = 1000;

const MAX_CHUNK_ROWS: u64 = 100_000;

#[derive(Debug)]
pub(super) struct TransferPlan<'p> {
    pub(super) source: TransferEnd<'p>,
    pub(super) target: TransferEnd<'p>,
    pub(super) destination: RowDestination,
    pub(super) mapping: Option<&'p JsonMap>,
    /// Column order of a custom target statement.
    pub(super) columns: Option<Vec<Arc<str>>>,
    pub(super) mode: WriteMode,
    pub(super) keys: Option<Vec<Arc<str>>>,
    pub(super) chunk_size: usize,
}

/// Source or target of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferEnd<'p> {
    pub(super) system: SystemKind,
    pub(super) config: Config<'p>,
}

/// System that rows come from or go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemKind {
    Http,
    Postgres,
    Sqlite,
}

/// Destination of rows within a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowDestination {
    Table(String),
    /// A statement that takes a row as its parameters.
    Query(String),
    /// The address of the target itself.
    Endpoint,
}

/// Handling of existing rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Existing rows are kept.
    Append,
    /// Existing rows are deleted.
    Replace,
    /// Rows with the same key are overwritten.
    Upsert,
}

impl SystemKind {
    fn from_config(end: &str, config: Config<'_>) -> Result<Self, TaskError> {
        let kind = config.text("type")?.or(config.text("kind")?);
        match kind {
            Some("http") => Ok(Self::Http),
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("sqlite") => Ok(Self::Sqlite),
            Some(other @ ("duckdb" | "snowflake")) => Err(TaskError::new(
                TaskErrorKind::Unsupported,
                format!("a {end} of type '{other}' is not supported; use http, postgres or sqlite"),
            )),
            Some(other) => {
                let problem = format!("is '{other}'; it must be http, postgres or sqlite");
                Err(schema_error(format!("'{end}.type' {problem}")))
            }
            None => Err(missing_key(&format!("'{end}.type'"))),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }

    /// First character of a numbered parameter.
    pub(super) fn param_prefix(self) -> char {
        if self == Self::Sqlite { '?' } else { '$' }
    }

    pub(super) fn quote_table_name(self, name: &str) -> String {
        quote_table_name(name, if self == Self::Sqlite { str::to_owned } else { str::to_lowercase })
    }
}

impl WriteMode {
    fn from_config(config: Config<'_>) -> Result<Self, TaskError> {
        match config.text("mode")? {
            Some("append") | None => Ok(Self::Append),
            Some("replace") => Ok(Self::Replace),
            Some("upsert") => Ok(Self::Upsert),
            Some(other) => Err(schema_error(format!(
                "'mode' is '{other}'; it must be append, replace or upsert"
            ))),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Replace => "replace",
            Self::Upsert => "upsert",
        }
    }
}

impl<'p> TransferPlan<'p> {
    pub(super) fn from_config(config: Config<'p>) -> Result<Self, TaskError> {
        let read_end = |name: &str| {
            let map = config.map(name)?;
            let config = Config(map.ok_or_else(|| missing_key(&format!("'{name}'")))?);
            let system = SystemKind::from_config(name, config)?;
            Ok::<_, TaskError>(TransferEnd { system, config })
        };
        let (source, target) = (read_end("source")?, read_end("target")?);
        let mode = WriteMode::from_config(config)?;
        let destination = read_destination(target, mode)?;
        let find_key = |key: &str| target.config.get(key).or(config.get(key));
        let mapping = match find_key("mapping") {
            Some(Json::Map(mapping)) if !mapping.is_empty() => Some(&**mapping),
            Some(Json::Map(_)) | None => None,
            Some(other) => return Err(wrong_type("mapping", "a map", other)),
        };
        let keys = find_key("keys").or(find_key("key")).map(|keys| read_names("keys", keys));
        let columns = find_key("columns").map(|columns| read_names("columns", columns));
        Ok(Self {
            source,
            target,
            destination,
            mapping,
            columns: columns.transpose()?,
            mode,
            keys: keys.transpose()?,
            chunk_size: read_chunk_size(config)?,
        })
    }
}

fn read_destination(target: TransferEnd<'_>, mode: WriteMode) -> Result<RowDestination, TaskError> {
    let schema = |message: &str| Err(schema_error(message));
    let (table, query) = (target.config.text("table")?, target.config.text("query")?);
    match (target.system, table, query) {
        (SystemKind::Http, ..) if mode != WriteMode::Append => {
            schema("http targets support only 'append'")
        }
        (SystemKind::Http, ..) => Ok(RowDestination::Endpoint),
        (_, Some(table), None) => Ok(RowDestination::Table(table.to_owned())),
        (_, None, Some(_)) if mode == WriteMode::Replace => {
            schema("mode 'replace' requires 'target.table', since it empties the table")
        }
        (_, None, Some(query)) => Ok(RowDestination::Query(query.to_owned())),
        (_, Some(_), Some(_)) => schema("'target' has both 'table' and 'query'; set one of them"),
        (_, None, None) => Err(missing_key("'target.table' or 'target.query'")),
    }
}

/// Reads a name or a list of names.
fn read_names(key: &str, value: &Json) -> Result<Vec<Arc<str>>, TaskError> {
    let name = |value: &Json| match value {
        Json::Str(name) => Ok(Arc::clone(name)),
        other => Err(wrong_type(key, "a name or a list of names", other)),
    };
    match value {
        Json::List(list) => list.iter().map(name).collect(),
        single => Ok(vec![name(single)?]),
    }
}

fn read_chunk_size(config: Config<'_>) -> Result<usize, TaskError> {
    let Some(value) = config.get("chunk_size") else {
        return Ok(usize::try_from(DEFAULT_CHUNK_ROWS).unwrap_or(usize::MAX));
    };
    let number = match value {
        // A template may have rendered it as text.
        Json::Str(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    };
    let number = number.filter(|number| *number > 0);
    let number = number.ok_or_else(|| wrong_type("chunk_size", "a number above 0", value))?;
    Ok(usize::try_from(number.min(MAX_CHUNK_ROWS)).unwrap_or(usize::MAX))
}
