//! Rows in bulk: out of a query piece by piece, and into a statement a piece a transaction.

use std::sync::Arc;

use noetl_types::{Json, TaskError, TaskErrorKind};
use rusqlite::Connection;
use rusqlite::types::Value;
use tokio::sync::mpsc;

use super::stop::{Stop, StopOnDrop};
use super::value::{Params, bytes, row, value};
use super::{Shared, blocking, fault, locked};
use crate::sql::{Piece, parts, quoted};

/// A query that is read as it comes; the thread that runs it waits for its reader.
pub(crate) struct Reading {
    columns: Vec<Arc<str>>,
    pieces: mpsc::Receiver<Result<Found, TaskError>>,
    _stops: StopOnDrop,
}

/// What the thread of a query sends.
enum Found {
    /// First the names of the columns.
    Columns(Vec<Arc<str>>),
    /// Then rows, piece by piece.
    Rows(Vec<Vec<Json>>),
}

impl Reading {
    /// Starts a query whose rows come in pieces of `size`.
    pub(crate) async fn start(
        shared: Shared,
        query: String,
        params: Params,
        size: usize,
    ) -> Result<Self, TaskError> {
        let stop = Stop::default();
        let stops = stop.on_drop();
        let (sender, mut pieces) = mpsc::channel(1);
        let work = move || {
            let mut connection = locked(&shared);
            let sent = stop.watch(&mut connection).map_err(fault::of);
            let sent = sent.and_then(|()| send(&connection, &query, &params, (size, &sender)));
            stop.leave(&mut connection).ok();
            if let Err(error) = sent {
                // Nobody to tell it to: the transfer has ended.
                sender.blocking_send(Err(error)).ok();
            }
        };
        // A thread of its own, for it waits for its reader, who needs one of the shared threads to
        // write: were they all taken by readers, none would ever get on.
        std::thread::Builder::new()
            .name("noetl-sqlite".to_owned())
            .spawn(work)
            .map_err(|error| {
                let message = format!("no thread for the database: {error}");
                TaskError::new(TaskErrorKind::Unknown, message)
            })?;
        let columns = match pieces.recv().await.transpose()? {
            Some(Found::Columns(columns)) => columns,
            Some(Found::Rows(_)) | None => return Err(gone()),
        };
        Ok(Self {
            columns,
            pieces,
            _stops: stops,
        })
    }

    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// The next piece; nothing after the last.
    pub(crate) async fn next(&mut self) -> Result<Vec<Vec<Json>>, TaskError> {
        match self.pieces.recv().await.transpose()? {
            Some(Found::Rows(rows)) => Ok(rows),
            Some(Found::Columns(_)) => Err(gone()),
            None => Ok(Vec::new()),
        }
    }
}

fn gone() -> TaskError {
    TaskError::new(TaskErrorKind::Unknown, "the database's thread ended")
}

fn send(
    connection: &Connection,
    query: &str,
    params: &Params,
    (size, sender): (usize, &mpsc::Sender<Result<Found, TaskError>>),
) -> Result<(), TaskError> {
    let mut statement = connection.prepare(query).map_err(fault::of)?;
    params.bind(&mut statement)?;
    let names = statement.column_names();
    let columns: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
    let count = columns.len();
    if sender.blocking_send(Ok(Found::Columns(columns))).is_err() {
        return Ok(());
    }
    let mut found = statement.raw_query();
    let mut piece = Piece::new(size);
    while let Some(next) = found.next().map_err(fault::of)? {
        if piece.push(row(next, count)?)
            && sender.blocking_send(Ok(Found::Rows(piece.take()))).is_err()
        {
            return Ok(());
        }
    }
    let rows = piece.take();
    if !rows.is_empty() {
        sender.blocking_send(Ok(Found::Rows(rows))).ok();
    }
    Ok(())
}

/// A connection that writes.
pub(crate) struct Writer {
    shared: Shared,
}

/// A statement that takes rows.
#[derive(Clone)]
pub(crate) struct Insert {
    text: Arc<str>,
    columns: Arc<[Column]>,
}

/// A column of a target.
#[derive(Debug, Clone)]
struct Column {
    name: Arc<str>,
    /// Whether it was declared to hold bytes.
    holds_bytes: bool,
}

impl Writer {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// The name of a table as it stands in a statement.
    pub(crate) fn table(name: &str) -> String {
        let parts = parts(name, str::to_owned);
        let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
        parts.join(".")
    }

    /// The columns of a table.
    pub(crate) async fn columns(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let probe = format!("SELECT * FROM {table} LIMIT 0");
        self.on_thread(move |connection| {
            let statement = connection.prepare(&probe).map_err(fault::of)?;
            Ok(statement.column_names().map(Into::into).collect())
        })
        .await
    }

    /// The primary key of a table.
    pub(crate) async fn key(&self, table: &str) -> Result<Vec<Arc<str>>, TaskError> {
        let described = self.described(table).await?;
        let mut key: Vec<_> = described
            .into_iter()
            .filter(|(.., place)| *place > 0)
            .collect();
        key.sort_by_key(|(.., place)| *place);
        Ok(key.into_iter().map(|(name, ..)| name).collect())
    }

    /// Names, declared types and places in the primary key.
    async fn described(&self, table: &str) -> Result<Vec<(Arc<str>, String, i64)>, TaskError> {
        let mut name = parts(table, str::to_owned);
        let (table, schema) = (name.pop().unwrap_or_default(), name.pop());
        self.on_thread(move |connection| {
            let query = "SELECT name, type, pk FROM pragma_table_info(?1, ?2)";
            let mut statement = connection.prepare(query).map_err(fault::of)?;
            let found = statement.query_map((table, schema.as_deref().unwrap_or("main")), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            });
            found
                .map_err(fault::of)?
                .collect::<Result<_, _>>()
                .map_err(fault::of)
        })
        .await
    }

    /// Prepares what takes rows of these columns. With a table, its declared types count.
    pub(crate) async fn prepare(
        &self,
        text: String,
        columns: &[Arc<str>],
        table: Option<&str>,
    ) -> Result<Insert, TaskError> {
        let described = match table {
            Some(table) => self.described(table).await?,
            None => Vec::new(),
        };
        let column = |name: &Arc<str>| Column {
            name: Arc::clone(name),
            holds_bytes: described.iter().any(|(other, declared, _)| {
                other == name && declared.to_ascii_uppercase().contains("BLOB")
            }),
        };
        let columns: Arc<[Column]> = columns.iter().map(column).collect();
        let insert = Insert {
            text: text.into(),
            columns,
        };
        let probe = insert.clone();
        self.on_thread(move |connection| {
            let statement = connection.prepare(&probe.text).map_err(fault::of)?;
            let (wanted, given) = (statement.parameter_count(), probe.columns.len());
            if wanted == given {
                return Ok(());
            }
            let message = format!(
                "the target's query has {wanted} parameters, but a row has {given} columns"
            );
            Err(TaskError::new(TaskErrorKind::Schema, message))
        })
        .await?;
        Ok(insert)
    }

    /// Writes rows, all or none of them; `before` runs first, in the same transaction.
    pub(crate) async fn write(
        &self,
        insert: &Insert,
        rows: Vec<Vec<Json>>,
        before: Option<String>,
    ) -> Result<(), TaskError> {
        let insert = insert.clone();
        self.on_thread(move |connection| {
            connection
                .execute_batch("BEGIN IMMEDIATE")
                .map_err(fault::of)?;
            let written = insert.all(connection, &rows, before.as_deref());
            if written.is_err() && !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").ok();
            }
            written
        })
        .await
    }

    /// Works with the connection on a thread that may block, and stops that work when the future is
    /// dropped.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let shared = Arc::clone(&self.shared);
        let stop = Stop::default();
        let _stops = stop.on_drop();
        blocking(move || {
            let mut connection = locked(&shared);
            stop.watch(&mut connection).map_err(fault::of)?;
            let done = work(&connection);
            stop.leave(&mut connection).map_err(fault::of)?;
            done
        })
        .await?
    }
}

impl Insert {
    fn all(
        &self,
        connection: &Connection,
        rows: &[Vec<Json>],
        before: Option<&str>,
    ) -> Result<(), TaskError> {
        if let Some(before) = before {
            connection.execute_batch(before).map_err(fault::of)?;
        }
        let mut statement = connection.prepare(&self.text).map_err(fault::of)?;
        for row in rows {
            for (index, (column, cell)) in self.columns.iter().zip(row).enumerate() {
                let cell = column.cell(cell)?;
                statement
                    .raw_bind_parameter(index + 1, cell)
                    .map_err(fault::of)?;
            }
            // A statement of the author's may give rows, which nobody asked for.
            let mut given = statement.raw_query();
            while given.next().map_err(fault::of)?.is_some() {}
        }
        drop(statement);
        connection.execute_batch("COMMIT").map_err(fault::of)
    }
}

impl Column {
    /// A value for this column. The database turns texts into numbers and back by the column's
    /// type; only bytes need help.
    fn cell(&self, cell: &Json) -> Result<Value, TaskError> {
        if self.holds_bytes && matches!(cell, Json::Str(_)) {
            return bytes(&self.name, cell).map(Value::Blob);
        }
        value(&self.name, cell)
    }
}
