//! Where the rows of a transfer come from.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError};

use super::Transfer;
use super::plan::{Plan, System};
use crate::call::Call;
use crate::config::{missing, wrong};
use crate::sql::Piece;
use crate::sqlite::Params;
use crate::tool::{Scope, Tool as _};
use crate::{postgres, sqlite};

/// The column of rows that are no maps.
const ONLY_COLUMN: &str = "value";

/// A source that is read piece by piece.
pub(super) enum Source {
    Http(Body),
    Postgres(Box<postgres::table::Reading>),
    Sqlite(sqlite::table::Reading),
}

/// The rows of an answer, which came in one.
pub(super) struct Body {
    columns: Vec<Arc<str>>,
    rows: std::vec::IntoIter<Json>,
}

impl Source {
    pub(super) async fn open(
        transfer: &Transfer,
        call: &Call,
        plan: &Plan<'_>,
    ) -> Result<Self, TaskError> {
        let config = plan.source.config;
        if plan.source.system == System::Http {
            return Body::fetch(transfer, call, plan).await.map(Self::Http);
        }
        let query = match (config.text("query")?, config.text("table")?) {
            (Some(query), _) => query.to_owned(),
            (None, Some(table)) => {
                let table = match plan.source.system {
                    System::Sqlite => sqlite::table::Writer::table(table),
                    System::Http | System::Postgres => postgres::table::Writer::table(table),
                };
                format!("SELECT * FROM {table}")
            }
            (None, None) => return Err(missing("'source.query'")),
        };
        let params = config.get("params");
        Ok(match plan.source.system {
            System::Sqlite => {
                let shared = transfer.sqlite.connect(config, &call.command).await?;
                let params = Params::read(params)?;
                let size = plan.chunk_size;
                Self::Sqlite(sqlite::table::Reading::start(shared, query, params, size).await?)
            }
            System::Http | System::Postgres => {
                let params = match params {
                    Some(Json::List(params)) => params.as_slice(),
                    Some(other) => return Err(wrong("source.params", "a list", other)),
                    None => &[],
                };
                let settings = &transfer.settings;
                let reading =
                    postgres::table::Reading::start(config, &query, params, settings).await?;
                Self::Postgres(Box::new(reading))
            }
        })
    }

    pub(super) fn columns(&self) -> &[Arc<str>] {
        match self {
            Self::Http(body) => &body.columns,
            Self::Postgres(reading) => reading.columns(),
            Self::Sqlite(reading) => reading.columns(),
        }
    }

    /// The next rows; none after the last.
    pub(super) async fn next(&mut self, size: usize) -> Result<Vec<Vec<Json>>, TaskError> {
        let mut piece = Piece::new(size);
        match self {
            Self::Http(body) => {
                for row in body.rows.by_ref() {
                    if piece.push(cells(&body.columns, &row)) {
                        break;
                    }
                }
            }
            Self::Postgres(reading) => {
                while let Some(row) = reading.next().await? {
                    if piece.push(row) {
                        break;
                    }
                }
            }
            Self::Sqlite(reading) => return reading.next().await,
        }
        Ok(piece.take())
    }

    /// Ends a source that was read to its end.
    pub(super) fn close(self) {
        match self {
            Self::Postgres(reading) => reading.close(),
            Self::Http(_) | Self::Sqlite(_) => {}
        }
    }
}

impl Body {
    async fn fetch(transfer: &Transfer, call: &Call, plan: &Plan<'_>) -> Result<Self, TaskError> {
        let request = Call {
            config: plan.source.config.0.clone(),
            ..call.clone()
        };
        let outcome = transfer.http.run(&request, &Scope::default()).await;
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let body = outcome.data.get("data").cloned().unwrap_or_default();
        let path = plan.source.config.text("data_path")?.unwrap_or("");
        let path = path.strip_prefix('$').unwrap_or(path);
        let found = at(&body, path.trim_start_matches('.'));
        let rows = match found {
            Some(Json::List(rows)) => rows.to_vec(),
            Some(Json::Map(_)) => found.into_iter().cloned().collect(),
            Some(Json::Null) => Vec::new(),
            Some(other) => return Err(wrong("the body of the answer", "a list of rows", other)),
            None => return Err(missing(&format!("'{path}' in the body of the answer"))),
        };
        Ok(Self {
            columns: columns(&rows, plan.mapping),
            rows: rows.into_iter(),
        })
    }
}

/// The names in any of the rows, and the paths that the mapping asks for.
fn columns(rows: &[Json], mapping: Option<&JsonMap>) -> Vec<Arc<str>> {
    let maps = rows.iter().filter_map(Json::as_map);
    let mut names: BTreeSet<Arc<str>> = maps.flat_map(JsonMap::keys).cloned().collect();
    if rows.iter().any(|row| row.as_map().is_none()) {
        names.insert(ONLY_COLUMN.into());
    }
    for (key, value) in mapping.into_iter().flatten() {
        for path in [Some(&**key), value.as_str()].into_iter().flatten() {
            if path.contains('.') && rows.iter().any(|row| at(row, path).is_some()) {
                names.insert(path.into());
            }
        }
    }
    // Without rows there is nothing to tell the direction of a mapping by; both do.
    if rows.is_empty() {
        names.extend(mapping.into_iter().flat_map(JsonMap::keys).cloned());
    }
    names.into_iter().collect()
}

fn cells(columns: &[Arc<str>], row: &Json) -> Vec<Json> {
    let cell = |name: &Arc<str>| match row {
        Json::Map(fields) => fields.get(name).or_else(|| at(row, name)).cloned(),
        other => (&**name == ONLY_COLUMN).then(|| other.clone()),
    };
    columns
        .iter()
        .map(|name| cell(name).unwrap_or_default())
        .collect()
}

/// What is at a path of names and numbers, such as `data.rates` or `pages.0.rows`.
fn at<'v>(value: &'v Json, path: &str) -> Option<&'v Json> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |value, name| match value {
        Json::List(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}
