//! Bulk transfer of rows: reads a query in chunks, and writes each chunk in one transaction.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use noetl_playbook::sql::SqlDialect;
use noetl_types::{Json, TaskError};
use tokio_postgres::{RowStream, Statement};

use super::bind::bind_value;
use super::connection::ServerConnection;
use super::target::PostgresTarget;
use super::{bind_params, column_names, row_values};
use crate::config::Config;
use crate::settings::Settings;
use crate::sql::{
    NumberedStatement, QueryParams, RowChunk, RowReader, RowWriter, SqlError, TableTarget,
    check_parameter_count,
};

/// Number of rows that are sent before the response to the first is awaited.
const PIPELINE_ROWS: usize = 256;

/// Opens a dedicated connection: source and target may be the same database, whose pool may be
/// small.
async fn connect_dedicated(
    config: Config<'_>,
    settings: &Settings,
) -> Result<ServerConnection, TaskError> {
    ServerConnection::open(&PostgresTarget::from_config(config)?, settings).await
}

/// A query that is read row by row. The server waits for the reader.
pub(crate) struct PostgresReader {
    connection: ServerConnection,
    columns: Vec<Arc<str>>,
    /// `None` after the last row: the stream must not be polled again.
    rows: Option<Pin<Box<RowStream>>>,
    chunk_size: usize,
}

impl PostgresReader {
    pub(crate) async fn start(
        config: Config<'_>,
        query: &str,
        params: &QueryParams,
        chunk_size: usize,
        settings: &Settings,
    ) -> Result<Self, SqlError> {
        let connection = connect_dedicated(config, settings).await?;
        params.check_statements([query], SqlDialect::Postgres)?;
        let NumberedStatement { text, values } =
            params.number_placeholders(query, SqlDialect::Postgres, &mut 0);
        let statement = connection.client.prepare(&text).await?;
        let params = bind_params(&values, statement.params())?;
        let rows = connection.client.query_raw(&statement, params).await?;
        let columns = column_names(&statement);
        Ok(Self { connection, columns, rows: Some(Box::pin(rows)), chunk_size })
    }
}

#[async_trait]
impl RowReader for PostgresReader {
    fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    async fn next_chunk(&mut self) -> Result<Vec<Vec<Json>>, SqlError> {
        let mut chunk = RowChunk::new(self.chunk_size);
        while let Some(rows) = &mut self.rows {
            let Some(row) = rows.try_next().await? else {
                self.rows = None;
                self.connection.busy = false;
                break;
            };
            if chunk.push(row_values(&row)?) {
                break;
            }
        }
        Ok(chunk.take_rows())
    }
}

pub(crate) struct PostgresTableTarget(ServerConnection);

struct PostgresWriter {
    connection: ServerConnection,
    insert: Statement,
    /// Names of the columns, for errors.
    columns: Vec<Arc<str>>,
}

impl PostgresTableTarget {
    pub(crate) async fn connect(
        config: Config<'_>,
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        Ok(Self(connect_dedicated(config, settings).await?))
    }
}

#[async_trait]
impl TableTarget for PostgresTableTarget {
    async fn table_columns(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        Ok(column_names(&self.0.client.prepare(&probe).await?))
    }

    async fn primary_key(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError> {
        let query = "SELECT a.attname::text FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
             WHERE i.indisprimary AND i.indrelid = to_regclass($1) \
             ORDER BY array_position(i.indkey::int2[], a.attnum)";
        let rows = self.0.client.query(query, &[&table]).await?;
        rows.iter().map(|row| Ok(Arc::from(row.try_get::<_, &str>(0)?))).collect()
    }

    async fn prepare_insert(
        self: Box<Self>,
        statement: String,
        columns: &[Arc<str>],
        _table: Option<&str>,
    ) -> Result<Box<dyn RowWriter>, SqlError> {
        let mut connection = self.0;
        let insert = connection.client.prepare(&statement).await?;
        check_parameter_count(insert.params().len(), columns.len())?;
        connection.busy = false;
        Ok(Box::new(PostgresWriter { connection, insert, columns: columns.to_vec() }))
    }
}

#[async_trait]
impl RowWriter for PostgresWriter {
    async fn write_rows(
        &mut self,
        rows: Vec<Vec<Json>>,
        before: Option<String>,
    ) -> Result<(), SqlError> {
        self.connection.busy = true;
        let result = self.write_transaction(&rows, before.as_deref()).await;
        if result.is_err() {
            // The connection is closed next, which would also roll back, but later.
            self.connection.client.batch_execute("ROLLBACK").await.ok();
        }
        self.connection.busy = result.is_err();
        result
    }
}

impl PostgresWriter {
    async fn write_transaction(
        &self,
        rows: &[Vec<Json>],
        before: Option<&str>,
    ) -> Result<(), SqlError> {
        let client = &self.connection.client;
        client.batch_execute("BEGIN").await?;
        if let Some(before) = before {
            client.batch_execute(before).await?;
        }
        let mut inserts: Vec<BoxFuture<'_, Result<(), SqlError>>> = Vec::new();
        for row in rows {
            inserts.push(self.send_row(row).boxed());
        }
        let mut inserts = stream::iter(inserts).buffered(PIPELINE_ROWS);
        while inserts.try_next().await?.is_some() {}
        Ok(client.batch_execute("COMMIT").await?)
    }

    async fn send_row(&self, row: &[Json]) -> Result<(), SqlError> {
        let cells = self.columns.iter().zip(row).zip(self.insert.params());
        let params = cells.map(|((column, value), ty)| bind_value(column, value, ty));
        let params = params.collect::<Result<Vec<_>, _>>()?;
        self.connection.client.execute_raw(&self.insert, params).await?;
        Ok(())
    }
}
