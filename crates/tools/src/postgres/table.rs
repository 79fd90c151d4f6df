//! Rows in bulk: out of a query piece by piece, and into a statement a piece a transaction.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use noetl_types::{Json, TaskError, TaskErrorKind};
use tokio_postgres::{RowStream, Statement};

use super::bind::bound;
use super::fault;
use super::link::Link;
use super::pool::Session;
use super::run::{bind_all, columns, values};
use super::target::Target;
use crate::config::Config;
use crate::settings::Settings;
use crate::sql::{parts, quoted};

/// Rows that are sent before the answer to the first of them is awaited.
const PIPELINE: usize = 256;

/// A connection of one's own: source and target may be one database, whose pool may be small.
async fn connected(config: Config<'_>, settings: &Settings) -> Result<Session, TaskError> {
    let target = Target::read(config)?;
    Ok(Session::own(Link::open(&target, settings).await?))
}

/// A query that is read as it comes; the server waits for its reader.
pub(crate) struct Reading {
    session: Session,
    columns: Vec<Arc<str>>,
    /// Nothing once the last row was read: a stream does not end twice.
    rows: Option<Pin<Box<RowStream>>>,
}

impl Reading {
    pub(crate) async fn start(
        config: Config<'_>,
        query: &str,
        params: &[Json],
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let session = connected(config, settings).await?;
        let statement = session
            .client()
            .prepare(query)
            .await
            .map_err(fault::of_statement)?;
        let params = bind_all(params, statement.params())?;
        let rows = session.client().query_raw(&statement, params).await;
        Ok(Self {
            columns: columns(&statement),
            rows: Some(Box::pin(rows.map_err(fault::of_statement)?)),
            session,
        })
    }

    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// The next row, if there is one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Json>>, TaskError> {
        let Some(rows) = &mut self.rows else {
            return Ok(None);
        };
        let Some(row) = rows.try_next().await.map_err(fault::of_statement)? else {
            self.rows = None;
            return Ok(None);
        };
        values(&row).map(Some)
    }

    /// Closes the connection after the last row.
    pub(crate) fn close(self) {
        self.session.close();
    }
}

/// A connection that writes.
pub(crate) struct Writer {
    session: Session,
}

/// A statement that takes rows.
pub(crate) struct Insert {
    statement: Statement,
    columns: Vec<Arc<str>>,
}

impl Writer {
    pub(crate) async fn start(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let session = connected(config, settings).await?;
        Ok(Self { session })
    }

    /// The name of a table as it stands in a statement.
    pub(crate) fn table(name: &str) -> String {
        let parts = parts(name, str::to_lowercase);
        let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
        parts.join(".")
    }

    /// The columns of a table.
    pub(crate) async fn columns(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        let statement = self
            .session
            .client()
            .prepare(&probe)
            .await
            .map_err(fault::of_statement)?;
        Ok(columns(&statement))
    }

    /// The primary key of a table.
    pub(crate) async fn key(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let query = "SELECT a.attname::text FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
             WHERE i.indisprimary AND i.indrelid = to_regclass($1) \
             ORDER BY array_position(i.indkey::int2[], a.attnum)";
        let rows = self.session.client().query(query, &[&table]).await;
        let names = rows.map_err(fault::of_statement)?;
        names
            .iter()
            .map(|row| {
                row.try_get::<_, &str>(0)
                    .map(Arc::from)
                    .map_err(fault::of_statement)
            })
            .collect()
    }

    /// Prepares what takes rows of these columns.
    pub(crate) async fn prepare(
        &self,
        text: &str,
        columns: &[Arc<str>],
    ) -> Result<Insert, TaskError> {
        let statement = self
            .session
            .client()
            .prepare(text)
            .await
            .map_err(fault::of_statement)?;
        let (wanted, given) = (statement.params().len(), columns.len());
        if wanted != given {
            let message = format!(
                "the target's query has {wanted} parameters, but a row has {given} columns"
            );
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(Insert {
            statement,
            columns: columns.to_vec(),
        })
    }

    /// Writes rows, all or none of them; `before` runs first, in the same transaction.
    pub(crate) async fn write(
        &self,
        insert: &Insert,
        rows: &[Vec<Json>],
        before: Option<&str>,
    ) -> Result<(), TaskError> {
        let client = self.session.client();
        client
            .batch_execute("BEGIN")
            .await
            .map_err(fault::of_statement)?;
        let written = async {
            if let Some(before) = before {
                client
                    .batch_execute(before)
                    .await
                    .map_err(fault::of_statement)?;
            }
            let mut sent: Vec<BoxFuture<'_, Result<(), TaskError>>> = Vec::new();
            for row in rows {
                sent.push(self.send(insert, row).boxed());
            }
            stream::iter(sent)
                .buffered(PIPELINE)
                .try_for_each(|()| std::future::ready(Ok(())))
                .await?;
            client
                .batch_execute("COMMIT")
                .await
                .map_err(fault::of_statement)
        };
        let written = written.await;
        if written.is_err() {
            // The connection is closed next, which would do the same a little later.
            client.batch_execute("ROLLBACK").await.ok();
        }
        written
    }

    async fn send(&self, insert: &Insert, row: &[Json]) -> Result<(), TaskError> {
        let types = insert.statement.params().iter();
        let cells = insert.columns.iter().zip(row).zip(types);
        let params = cells
            .map(|((column, value), ty)| bound(column, value, ty))
            .collect::<Result<Vec<_>, _>>()?;
        let client = self.session.client();
        let sent = client.execute_raw(&insert.statement, params).await;
        sent.map(|_| ()).map_err(fault::of_statement)
    }

    /// Closes the connection after the last row.
    pub(crate) fn close(self) {
        self.session.close();
    }
}
