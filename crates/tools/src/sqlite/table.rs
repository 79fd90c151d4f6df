//! Bulk transfer of rows: reads a query in chunks, and writes each chunk in one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_playbook::sql::SqlDialect;
use noetl_types::{Json, TaskError, TaskErrorKind};
use rusqlite::Connection;
use rusqlite::types::Value;
use tokio::sync::mpsc;

use super::connection::{SharedConnection, StopFlag, StopOnDrop};
use super::value::{bind_params, json_to_value, row_to_json};
use crate::config::decode_base64_bytes;
use crate::sql::{
    QueryParams, RowChunk, RowReader, RowWriter, SqlError, TableTarget, check_parameter_count,
    split_name,
};

/// A query that is read in chunks. The thread that runs it waits for the reader.
pub(crate) struct SqliteReader {
    columns: Vec<Arc<str>>,
    chunks: mpsc::Receiver<Result<ReaderMessage, SqlError>>,
    _stop_guard: StopOnDrop,
}

enum ReaderMessage {
    /// Names of the columns, sent first.
    Columns(Vec<Arc<str>>),
    Rows(Vec<Vec<Json>>),
}

impl SqliteReader {
    /// Starts a query whose rows arrive in chunks of `chunk_size`.
    pub(crate) async fn start(
        shared: SharedConnection,
        query: String,
        params: QueryParams,
        chunk_size: usize,
    ) -> Result<Self, SqlError> {
        let stop = StopFlag::default();
        let stop_guard = stop.stop_on_drop();
        let (sender, mut chunks) = mpsc::channel(1);
        let work = move || {
            let mut connection = shared.0.lock();
            let result = stop.attach_connection(&mut connection).map_err(SqlError::from);
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
}

#[async_trait]
impl RowReader for SqliteReader {
    fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    async fn next_chunk(&mut self) -> Result<Vec<Vec<Json>>, SqlError> {
        match self.chunks.recv().await.transpose()? {
            Some(ReaderMessage::Rows(rows)) => Ok(rows),
            Some(ReaderMessage::Columns(_)) => Err(thread_ended_error()),
            None => Ok(Vec::new()),
        }
    }
}

fn thread_ended_error() -> SqlError {
    TaskError::new(TaskErrorKind::Unknown, "the database thread ended unexpectedly").into()
}

fn send_rows(
    connection: &Connection,
    query: &str,
    params: &QueryParams,
    chunk_size: usize,
    sender: &mpsc::Sender<Result<ReaderMessage, SqlError>>,
) -> Result<(), SqlError> {
    params.check_statements([query], SqlDialect::Sqlite)?;
    let mut statement = connection.prepare(query)?;
    bind_params(&mut statement, params, &mut 0)?;
    let columns: Vec<Arc<str>> = statement.column_names().map(Into::into).collect();
    let count = columns.len();
    if sender.blocking_send(Ok(ReaderMessage::Columns(columns))).is_err() {
        return Ok(());
    }
    let mut result_rows = statement.raw_query();
    let mut chunk = RowChunk::new(chunk_size);
    while let Some(row) = result_rows.next()? {
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

pub(crate) struct SqliteTableTarget(pub(crate) SharedConnection);

struct SqliteWriter {
    shared: SharedConnection,
    insert: Arc<InsertStatement>,
}

struct InsertStatement {
    text: String,
    columns: Vec<TargetColumn>,
}

struct TargetColumn {
    name: Arc<str>,
    /// True if the column is declared as a blob.
    holds_bytes: bool,
}

impl SqliteTableTarget {
    /// Returns the name, declared type and primary key position of each column.
    async fn describe_columns(
        &self,
        table: &str,
    ) -> Result<Vec<(Arc<str>, String, i64)>, SqlError> {
        let mut name = split_name(table, str::to_owned);
        let (table, schema) = (name.pop().unwrap_or_default(), name.pop());
        let describe = move |connection: &Connection, _: &StopFlag| {
            let query = "SELECT name, type, pk FROM pragma_table_info(?1, ?2)";
            let schema = schema.as_deref().unwrap_or("main");
            let mut statement = connection.prepare(query)?;
            let columns = statement.query_map((table, schema), |row| row.try_into())?;
            Ok(columns.collect::<Result<_, _>>()?)
        };
        self.0.run(describe).await
    }
}

#[async_trait]
impl TableTarget for SqliteTableTarget {
    async fn table_columns(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        let list_columns = move |connection: &Connection, _: &StopFlag| {
            let statement = connection.prepare(&probe)?;
            Ok(statement.column_names().map(Into::into).collect())
        };
        self.0.run(list_columns).await
    }

    async fn primary_key(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError> {
        let mut key = self.describe_columns(table).await?;
        key.retain(|(.., position)| *position > 0);
        key.sort_by_key(|(.., position)| *position);
        Ok(key.into_iter().map(|(name, ..)| name).collect())
    }

    /// Applies the declared types of the table, if it is known.
    async fn prepare_insert(
        self: Box<Self>,
        statement: String,
        columns: &[Arc<str>],
        table: Option<&str>,
    ) -> Result<Box<dyn RowWriter>, SqlError> {
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
        let columns = columns.iter().map(column).collect();
        let insert = Arc::new(InsertStatement { text: statement, columns });
        let probe = Arc::clone(&insert);
        let check = move |connection: &Connection, _: &StopFlag| {
            let expected = connection.prepare(&probe.text)?.parameter_count();
            Ok(check_parameter_count(expected, probe.columns.len())?)
        };
        self.0.run(check).await?;
        Ok(Box::new(SqliteWriter { shared: self.0, insert }))
    }
}

#[async_trait]
impl RowWriter for SqliteWriter {
    async fn write_rows(
        &mut self,
        rows: Vec<Vec<Json>>,
        before: Option<String>,
    ) -> Result<(), SqlError> {
        let insert = Arc::clone(&self.insert);
        let write = move |connection: &Connection, _: &StopFlag| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            if let Some(before) = before {
                connection.execute_batch(&before)?;
            }
            let mut statement = connection.prepare(&insert.text)?;
            for row in rows {
                for (index, (column, value)) in insert.columns.iter().zip(&row).enumerate() {
                    statement.raw_bind_parameter(index + 1, column.to_sql_value(value)?)?;
                }
                // A custom statement may return rows, which are discarded.
                let mut returned = statement.raw_query();
                while returned.next()?.is_some() {}
            }
            drop(statement);
            Ok(connection.execute_batch("COMMIT")?)
        };
        self.shared.run(write).await
    }
}

impl TargetColumn {
    /// Converts a value for this column. SQLite converts between texts and numbers by column type.
    /// Only bytes need a conversion here.
    fn to_sql_value(&self, value: &Json) -> Result<Value, TaskError> {
        if self.holds_bytes && matches!(value, Json::Str(_)) {
            return decode_base64_bytes(&self.name, value).map(Value::Blob);
        }
        json_to_value(&self.name, value)
    }
}
