//! Bulk transfer of rows: reads a query in chunks, and writes each chunk in one transaction.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use noetl_types::{Json, TaskError, TaskErrorKind};
use tokio_postgres::{RowStream, Statement};

use super::bind::bind_value;
use super::connection::ServerConnection;
use super::error;
use super::pool::DatabaseSession;
use super::statements::{bind_params, column_names, row_values};
use super::target::PostgresTarget;
use crate::config::Config;
use crate::settings::Settings;
use crate::sql::{quote_name, split_name};

/// Number of rows that are sent before the response to the first is awaited.
const PIPELINE_ROWS: usize = 256;

/// Opens a dedicated connection: source and target may be the same database, whose pool may be
/// small.
async fn connect_dedicated(
    config: Config<'_>,
    settings: &Settings,
) -> Result<DatabaseSession, TaskError> {
    let target = PostgresTarget::from_config(config)?;
    Ok(DatabaseSession::dedicated(ServerConnection::open(&target, settings).await?))
}

/// A query that is read row by row. The server waits for the reader.
pub(crate) struct RowReader {
    session: DatabaseSession,
    columns: Vec<Arc<str>>,
    /// `None` after the last row: the stream must not be polled again.
    rows: Option<Pin<Box<RowStream>>>,
}

impl RowReader {
    pub(crate) async fn start(
        config: Config<'_>,
        query: &str,
        params: &[Json],
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let session = connect_dedicated(config, settings).await?;
        let statement = session.client().prepare(query).await.map_err(error::statement_error)?;
        let params = bind_params(params, statement.params())?;
        let rows = session.client().query_raw(&statement, params).await;
        Ok(Self {
            columns: column_names(&statement),
            rows: Some(Box::pin(rows.map_err(error::statement_error)?)),
            session,
        })
    }

    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// Returns the next row, if there is one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Json>>, TaskError> {
        let Some(rows) = &mut self.rows else {
            return Ok(None);
        };
        let Some(row) = rows.try_next().await.map_err(error::statement_error)? else {
            self.rows = None;
            return Ok(None);
        };
        row_values(&row).map(Some)
    }

    /// Closes the connection after the last row.
    pub(crate) fn close(self) {
        self.session.close();
    }
}

/// Writes rows to a table.
pub(crate) struct TableWriter {
    session: DatabaseSession,
}

/// Prepared statement that inserts a row.
pub(crate) struct InsertStatement {
    statement: Statement,
    columns: Vec<Arc<str>>,
}

impl TableWriter {
    pub(crate) async fn start(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let session = connect_dedicated(config, settings).await?;
        Ok(Self { session })
    }

    /// Quotes the name of a table for use in a statement.
    pub(crate) fn quote_table_name(name: &str) -> String {
        let parts = split_name(name, str::to_lowercase);
        let parts: Vec<String> = parts.iter().map(|part| quote_name(part)).collect();
        parts.join(".")
    }

    /// Returns the columns of a table.
    pub(crate) async fn table_columns(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        let statement =
            self.session.client().prepare(&probe).await.map_err(error::statement_error)?;
        Ok(column_names(&statement))
    }

    /// Returns the primary key columns of a table.
    pub(crate) async fn primary_key(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let query = "SELECT a.attname::text FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
             WHERE i.indisprimary AND i.indrelid = to_regclass($1) \
             ORDER BY array_position(i.indkey::int2[], a.attnum)";
        let rows = self.session.client().query(query, &[&table]).await;
        let names = rows.map_err(error::statement_error)?;
        names
            .iter()
            .map(|row| row.try_get::<_, &str>(0).map(Arc::from).map_err(error::statement_error))
            .collect()
    }

    /// Prepares a statement that takes rows with these columns.
    pub(crate) async fn prepare_insert(
        &self,
        text: &str,
        columns: &[Arc<str>],
    ) -> Result<InsertStatement, TaskError> {
        let statement =
            self.session.client().prepare(text).await.map_err(error::statement_error)?;
        let (expected, actual) = (statement.params().len(), columns.len());
        if expected != actual {
            let message = format!(
                "the target's query has {expected} parameters, but a row has {actual} columns"
            );
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(InsertStatement { statement, columns: columns.to_vec() })
    }

    /// Writes rows in one transaction. `before` runs first, in the same transaction.
    pub(crate) async fn write_rows(
        &self,
        insert: &InsertStatement,
        rows: &[Vec<Json>],
        before: Option<&str>,
    ) -> Result<(), TaskError> {
        let client = self.session.client();
        client.batch_execute("BEGIN").await.map_err(error::statement_error)?;
        let result = async {
            if let Some(before) = before {
                client.batch_execute(before).await.map_err(error::statement_error)?;
            }
            let mut inserts: Vec<BoxFuture<'_, Result<(), TaskError>>> = Vec::new();
            for row in rows {
                inserts.push(self.send_row(insert, row).boxed());
            }
            stream::iter(inserts)
                .buffered(PIPELINE_ROWS)
                .try_for_each(|()| std::future::ready(Ok(())))
                .await?;
            client.batch_execute("COMMIT").await.map_err(error::statement_error)
        };
        let result = result.await;
        if result.is_err() {
            // The connection is closed next, which would also roll back, but later.
            client.batch_execute("ROLLBACK").await.ok();
        }
        result
    }

    async fn send_row(&self, insert: &InsertStatement, row: &[Json]) -> Result<(), TaskError> {
        let types = insert.statement.params().iter();
        let cells = insert.columns.iter().zip(row).zip(types);
        let params = cells
            .map(|((column, value), ty)| bind_value(column, value, ty))
            .collect::<Result<Vec<_>, _>>()?;
        let client = self.session.client();
        let result = client.execute_raw(&insert.statement, params).await;
        result.map(|_| ()).map_err(error::statement_error)
    }

    /// Closes the connection after the last row.
    pub(crate) fn close(self) {
        self.session.close();
    }
}
