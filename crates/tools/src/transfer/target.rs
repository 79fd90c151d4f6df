//! Where the rows of a transfer go.

use std::sync::Arc;

use noetl_types::{Json, TaskError};

use super::Transfer;
use super::plan::{Into, Mode, Plan, System};
use super::route::{Route, insert};
use crate::call::Call;
use crate::config::Config;
use crate::sql::Shape;
use crate::tool::{Scope, Tool as _};
use crate::{postgres, sqlite};

/// A target that takes rows piece by piece.
pub(super) enum Target {
    Http(Box<Call>),
    Postgres {
        writer: Box<postgres::table::Writer>,
        insert: postgres::table::Insert,
    },
    Sqlite {
        writer: sqlite::table::Writer,
        insert: sqlite::table::Insert,
    },
}

/// A target together with the way of the rows into it.
pub(super) struct Opened {
    pub(super) target: Target,
    pub(super) route: Route,
    /// What empties the table, until it has run.
    pub(super) before: Option<String>,
}

impl Opened {
    pub(super) async fn open(
        transfer: &Transfer,
        call: &Call,
        plan: &Plan<'_>,
        source: &[Arc<str>],
    ) -> Result<Self, TaskError> {
        let config = plan.target.config;
        match plan.target.system {
            System::Http => Ok(Self {
                target: Target::Http(Box::new(request(call, config))),
                route: Route::find(plan, source, None)?,
                before: None,
            }),
            System::Postgres => {
                let writer = postgres::table::Writer::start(config, &transfer.settings).await?;
                postgres(Box::new(writer), plan, source).await
            }
            System::Sqlite => {
                let shared = transfer.sqlite.connect(config, &call.command).await?;
                sqlite(sqlite::table::Writer::new(shared), plan, source).await
            }
        }
    }

    /// Writes rows of the source, all or none of them.
    pub(super) async fn write(
        &mut self,
        transfer: &Transfer,
        rows: &[Vec<Json>],
        chunk: u64,
    ) -> Result<(), TaskError> {
        let rows: Vec<Vec<Json>> = rows.iter().map(|row| self.route.row(row)).collect();
        let before = self.before.clone();
        match &self.target {
            Target::Http(request) => {
                let names = &self.route.names;
                let rows = rows.into_iter().map(|row| Shape::Objects.row(names, row));
                send(transfer, request, Json::list(rows), chunk).await?;
            }
            Target::Postgres { writer, insert } => {
                writer.write(insert, &rows, before.as_deref()).await?;
            }
            Target::Sqlite { writer, insert } => writer.write(insert, rows, before).await?,
        }
        self.before = None;
        Ok(())
    }

    /// Ends a target that has all its rows.
    pub(super) fn close(self) {
        match self.target {
            Target::Postgres { writer, .. } => writer.close(),
            Target::Http(_) | Target::Sqlite { .. } => {}
        }
    }
}

async fn postgres(
    writer: Box<postgres::table::Writer>,
    plan: &Plan<'_>,
    source: &[Arc<str>],
) -> Result<Opened, TaskError> {
    let (route, text, before) = match &plan.into {
        Into::Table(name) => {
            let table = postgres::table::Writer::table(name);
            let columns = writer.columns(&table).await?;
            let route = Route::find(plan, source, Some(&columns))?;
            let keys = match (&plan.keys, plan.mode) {
                (Some(keys), _) => keys.clone(),
                (None, Mode::Upsert) => writer.key(&table).await?,
                (None, Mode::Append | Mode::Replace) => Vec::new(),
            };
            let text = insert(&table, &route.names, plan.mode, &keys, '$')?;
            (route, text, emptied(plan.mode, &table))
        }
        Into::Query(query) => (Route::find(plan, source, None)?, query.clone(), None),
        Into::Itself => return Err(crate::config::missing("'target.table'")),
    };
    let insert = writer.prepare(&text, &route.names).await?;
    Ok(Opened {
        target: Target::Postgres { writer, insert },
        route,
        before,
    })
}

async fn sqlite(
    writer: sqlite::table::Writer,
    plan: &Plan<'_>,
    source: &[Arc<str>],
) -> Result<Opened, TaskError> {
    let (route, text, table) = match &plan.into {
        Into::Table(name) => {
            let table = sqlite::table::Writer::table(name);
            let columns = writer.columns(&table).await?;
            let route = Route::find(plan, source, Some(&columns))?;
            let keys = match (&plan.keys, plan.mode) {
                (Some(keys), _) => keys.clone(),
                (None, Mode::Upsert) => writer.key(&table).await?,
                (None, Mode::Append | Mode::Replace) => Vec::new(),
            };
            let text = insert(&table, &route.names, plan.mode, &keys, '?')?;
            (route, text, Some(table))
        }
        Into::Query(query) => (Route::find(plan, source, None)?, query.clone(), None),
        Into::Itself => return Err(crate::config::missing("'target.table'")),
    };
    let before = table.as_ref().and_then(|table| emptied(plan.mode, table));
    let insert = writer.prepare(text, &route.names, table.as_deref()).await?;
    Ok(Opened {
        target: Target::Sqlite { writer, insert },
        route,
        before,
    })
}

fn emptied(mode: Mode, table: &str) -> Option<String> {
    match mode {
        Mode::Replace => Some(format!("DELETE FROM {table}")),
        Mode::Append | Mode::Upsert => None,
    }
}

/// The request that takes rows, but for the rows.
fn request(call: &Call, config: Config<'_>) -> Call {
    let mut request = call.clone();
    request.config = config.0.clone();
    let method = request.config.entry("method".into());
    method.or_insert_with(|| Json::from("POST"));
    request
}

async fn send(
    transfer: &Transfer,
    request: &Call,
    rows: Json,
    chunk: u64,
) -> Result<(), TaskError> {
    let mut request = request.clone();
    request.config.insert("json".into(), rows);
    // Each piece is an effect of its own.
    request.idempotency_key = format!("{}:{chunk}", request.idempotency_key);
    let outcome = transfer.http.run(&request, &Scope::default()).await;
    outcome.error.map_or(Ok(()), Err)
}
