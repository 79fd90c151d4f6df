//! Bulk transfer of rows: reads a query in chunks, and writes each chunk in one transaction.

use std::sync::Arc;

use noetl_types::{Json, TaskError, TaskErrorKind};
use rusqlite::Connection;
use rusqlite::types::Value;
use tokio::sync::mpsc;

use super::stop::{StopFlag, StopOnDrop};
use super::value::{QueryParams, decode_blob, json_to_value, row_to_json};
use super::{SharedConnection, error, lock_connection, run_blocking};
use crate::sql::{RowChunk, quote_name, split_name};

/// A query that is read in chunks. The thread that runs it waits for the reader.
pub(crate) struct RowReader {
    columns: Vec<Arc<str>>,
    chunks: mpsc::Receiver<Result<ReaderMessage, TaskError>>,
    _stop_guard: StopOnDrop,
}

/// Message from the thread of a query.
enum ReaderMessage {
    /// Names of the columns, sent first.
    Columns(Vec<Arc<str>>),
    /// A chunk of rows.
    Rows(Vec<Vec<Json>>),
}

impl RowReader {
    /// Starts a query whose rows arrive in chunks of `chunk_size`.
    pub(crate) async fn start(
        shared: SharedConnection,
        query: String,
        params: QueryParams,
        chunk_size: usize,
    ) -> Result<Self, TaskError> {
        let stop = StopFlag::default();
        let stop_guard = stop.stop_on_drop();
        let (sender, mut chunks) = mpsc::channel(1);
        let work = move || {
            let mut connection = lock_connection(&shared);
            let result = stop.attach_connection(&mut connection).map_err(error::sqlite_error);
            let result =
                result.and_then(|()| send_rows(&connection, &query, &params, chunk_size, &sender));
            stop.detach_connection(&mut connection).ok();
            if let Err(error) = result {
                // The send fails if the transfer has ended, and then the error is not needed.
                sender.blocking_send(Err(error)).ok();
            }
        };
        // A dedicated thread, since it waits for its reader, which needs one of the shared threads
        // to write. If readers occupied all shared threads, none could proceed.
        std::thread::Builder::new().name("noetl-sqlite".to_owned()).spawn(work).map_err(
            |error| {
                let message = format!("the database thread cannot be started: {error}");
                TaskError::new(TaskErrorKind::Unknown, message)
            },
        )?;
        let columns = match chunks.recv().await.transpose()? {
            Some(ReaderMessage::Columns(columns)) => columns,
            Some(ReaderMessage::Rows(_)) | None => return Err(thread_ended_error()),
        };
        Ok(Self { columns, chunks, _stop_guard: stop_guard })
    }

    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// Returns the next chunk. It is empty after the last one.
    pub(crate) async fn next(&mut self) -> Result<Vec<Vec<Json>>, TaskError> {
        match self.chunks.recv().await.transpose()? {
            Some(ReaderMessage::Rows(rows)) => Ok(rows),
            Some(ReaderMessage::Columns(_)) => Err(thread_ended_error()),
            None => Ok(Vec::new()),
        }
    }
}

fn thread_ended_error() -> TaskError {
    TaskError::new(TaskErrorKind::Unknown, "the database thread ended unexpectedly")
}

fn send_rows(
    connection: &Connection,
    query: &str,
    params: &QueryParams,
    chunk_size: usize,
    sender: &mpsc::Sender<Result<ReaderMessage, TaskError>>,
) -> Result<(), TaskError> {
    let mut statement = connection.prepare(query).map_err(error::sqlite_error)?;
    params.bind_statement(&mut statement)?;
    let names = statement.column_names();
    let columns: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
    let count = columns.len();
    if sender.blocking_send(Ok(ReaderMessage::Columns(columns))).is_err() {
        return Ok(());
    }
    let mut result_rows = statement.raw_query();
    let mut chunk = RowChunk::new(chunk_size);
    while let Some(row) = result_rows.next().map_err(error::sqlite_error)? {
        if chunk.push(row_to_json(row, count)?)
            && sender.blocking_send(Ok(ReaderMessage::Rows(chunk.take_rows()))).is_err()
        {
            return Ok(());
        }
    }
    let rows = chunk.take_rows();
    if !rows.is_empty() {
        sender.blocking_send(Ok(ReaderMessage::Rows(rows))).ok();
    }
    Ok(())
}

/// Writes rows to a table.
pub(crate) struct TableWriter {
    shared: SharedConnection,
}

/// Statement that inserts a row.
#[derive(Clone)]
pub(crate) struct InsertStatement {
    text: Arc<str>,
    columns: Arc<[TargetColumn]>,
}

/// Column of a target.
#[derive(Debug, Clone)]
struct TargetColumn {
    name: Arc<str>,
    /// True if the column is declared as a blob.
    holds_bytes: bool,
}

impl TableWriter {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared }
    }

    /// Quotes the name of a table for use in a statement.
    pub(crate) fn quote_table_name(name: &str) -> String {
        let parts = split_name(name, str::to_owned);
        let parts: Vec<String> = parts.iter().map(|part| quote_name(part)).collect();
        parts.join(".")
    }

    /// Returns the columns of a table.
    pub(crate) async fn table_columns(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        self.with_connection(move |connection| {
            let statement = connection.prepare(&probe).map_err(error::sqlite_error)?;
            Ok(statement.column_names().map(Into::into).collect())
        })
        .await
    }

    /// Returns the primary key columns of a table.
    pub(crate) async fn primary_key(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let described = self.describe_columns(table).await?;
        let mut key: Vec<_> =
            described.into_iter().filter(|(.., position)| *position > 0).collect();
        key.sort_by_key(|(.., position)| *position);
        Ok(key.into_iter().map(|(name, ..)| name).collect())
    }

    /// Returns the name, declared type and primary key position of each column.
    async fn describe_columns(
        &self,
        table: &str,
    ) -> Result<Vec<(Arc<str>, String, i64)>, TaskError> {
        let mut name = split_name(table, str::to_owned);
        let (table, schema) = (name.pop().unwrap_or_default(), name.pop());
        self.with_connection(move |connection| {
            let query = "SELECT name, type, pk FROM pragma_table_info(?1, ?2)";
            let mut statement = connection.prepare(query).map_err(error::sqlite_error)?;
            let columns = statement
                .query_map((table, schema.as_deref().unwrap_or("main")), |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                });
            columns
                .map_err(error::sqlite_error)?
                .collect::<Result<_, _>>()
                .map_err(error::sqlite_error)
        })
        .await
    }

    /// Prepares a statement that takes rows with these columns. If `table` is given, its declared
    /// types are applied.
    pub(crate) async fn prepare_insert(
        &self,
        text: String,
        columns: &[Arc<str>],
        table: Option<&str>,
    ) -> Result<InsertStatement, TaskError> {
        let described = match table {
            Some(table) => self.describe_columns(table).await?,
            None => Vec::new(),
        };
        let column = |name: &Arc<str>| TargetColumn {
            name: Arc::clone(name),
            holds_bytes: described.iter().any(|(other, declared, _)| {
                other == name && declared.to_ascii_uppercase().contains("BLOB")
            }),
        };
        let columns: Arc<[TargetColumn]> = columns.iter().map(column).collect();
        let insert = InsertStatement { text: text.into(), columns };
        let probe = insert.clone();
        self.with_connection(move |connection| {
            let statement = connection.prepare(&probe.text).map_err(error::sqlite_error)?;
            let (expected, actual) = (statement.parameter_count(), probe.columns.len());
            if expected == actual {
                return Ok(());
            }
            let message = format!(
                "the target's query has {expected} parameters, but a row has {actual} columns"
            );
            Err(TaskError::new(TaskErrorKind::Schema, message))
        })
        .await?;
        Ok(insert)
    }

    /// Writes rows in one transaction. `before` runs first, in the same transaction.
    pub(crate) async fn write_rows(
        &self,
        insert: &InsertStatement,
        rows: Vec<Vec<Json>>,
        before: Option<String>,
    ) -> Result<(), TaskError> {
        let insert = insert.clone();
        self.with_connection(move |connection| {
            connection.execute_batch("BEGIN IMMEDIATE").map_err(error::sqlite_error)?;
            let result = insert.insert_rows(connection, &rows, before.as_deref());
            if result.is_err() && !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").ok();
            }
            result
        })
        .await
    }

    /// Runs a function with the connection on a blocking thread. Stops it when the future is
    /// dropped.
    async fn with_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let shared = Arc::clone(&self.shared);
        let stop = StopFlag::default();
        let _stop_guard = stop.stop_on_drop();
        run_blocking(move || {
            let mut connection = lock_connection(&shared);
            stop.attach_connection(&mut connection).map_err(error::sqlite_error)?;
            let result = work(&connection);
            stop.detach_connection(&mut connection).map_err(error::sqlite_error)?;
            result
        })
        .await?
    }
}

impl InsertStatement {
    fn insert_rows(
        &self,
        connection: &Connection,
        rows: &[Vec<Json>],
        before: Option<&str>,
    ) -> Result<(), TaskError> {
        if let Some(before) = before {
            connection.execute_batch(before).map_err(error::sqlite_error)?;
        }
        let mut statement = connection.prepare(&self.text).map_err(error::sqlite_error)?;
        for row in rows {
            for (index, (column, value)) in self.columns.iter().zip(row).enumerate() {
                let value = column.to_sql_value(value)?;
                statement.raw_bind_parameter(index + 1, value).map_err(error::sqlite_error)?;
            }
            // A custom statement may return rows, which are discarded.
            let mut returned = statement.raw_query();
            while returned.next().map_err(error::sqlite_error)?.is_some() {}
        }
        drop(statement);
        connection.execute_batch("COMMIT").map_err(error::sqlite_error)
    }
}

impl TargetColumn {
    /// Converts a value for this column. SQLite converts between texts and numbers by column type.
    /// Only bytes need a conversion here.
    fn to_sql_value(&self, value: &Json) -> Result<Value, TaskError> {
        if self.holds_bytes && matches!(value, Json::Str(_)) {
            return decode_blob(&self.name, value).map(Value::Blob);
        }
        json_to_value(&self.name, value)
    }
}
