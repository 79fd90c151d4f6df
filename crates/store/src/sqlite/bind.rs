//! Cells and errors in the terms of SQLite.

use noetl_types::Timestamp;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Params};

use crate::error::StoreError;
use crate::row::{Cell, CellRef, Cells, Corrupt, Row};

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Self::Int(number) | Self::Time(number) => ValueRef::Integer(*number),
            Self::Float(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A row that is being read, and how many bytes of it were.
struct Reading<'r> {
    row: &'r rusqlite::Row<'r>,
    bytes: std::cell::Cell<usize>,
}

impl<'r> Reading<'r> {
    fn new(row: &'r rusqlite::Row<'r>) -> Self {
        let bytes = std::cell::Cell::new(0);
        Self { row, bytes }
    }

    fn cells(&self) -> Cells<'_> {
        Cells::new(self, 0..self.row.as_ref().column_count())
    }
}

impl Row for Reading<'_> {
    fn cell(&self, place: usize) -> CellRef<'_> {
        let cell = match self.row.get_ref(place) {
            Err(_) | Ok(ValueRef::Null) => CellRef::Null,
            Ok(ValueRef::Integer(number)) => CellRef::Int(number),
            Ok(ValueRef::Real(number)) => CellRef::Float(number),
            // What is no text is an empty cell, which its reader refuses.
            Ok(ValueRef::Text(bytes)) => {
                std::str::from_utf8(bytes).map_or(CellRef::Null, CellRef::Text)
            }
            Ok(ValueRef::Blob(bytes)) => CellRef::Bytes(bytes),
        };
        self.bytes.set(self.bytes.get() + cell.bytes_about());
        cell
    }
}

/// What may be over by the next try, and what may not.
pub(super) fn failure(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::retry(error),
        Some(_) | None => StoreError::fatal(error),
    }
}

/// Whether a row of the same key was there already.
pub(super) fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, rusqlite::Error> {
    connection.prepare_cached(sql)?.execute(params)
}

/// All rows of a statement, put together by a function.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(Cells<'_>) -> Result<T, Corrupt>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params).map_err(failure)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        found.push(read(Reading::new(row).cells())?);
    }
    Ok(found)
}

/// Shows the rows of a statement as long as whoever looks at them goes on.
pub(super) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut look: impl FnMut(Cells<'_>) -> Result<bool, Corrupt>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        if !look(Reading::new(row).cells())? {
            return Ok(());
        }
    }
    Ok(())
}

/// Rows of a statement until they have so many bytes, and whether there are more.
pub(super) fn within<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    bytes: usize,
    read: impl Fn(Cells<'_>) -> Result<T, Corrupt>,
) -> Result<(Vec<T>, bool), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params).map_err(failure)?;
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(row) = rows.next().map_err(failure)? {
        if seen >= bytes {
            return Ok((found, true));
        }
        let reading = Reading::new(row);
        found.push(read(reading.cells())?);
        seen += reading.bytes.get();
    }
    Ok((found, false))
}

/// The only row of a statement, if there is one.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(Cells<'_>) -> Result<T, Corrupt>,
) -> Result<Option<T>, StoreError> {
    Ok(all(connection, sql, params, read)?.into_iter().next())
}

pub(super) fn micros(time: Timestamp) -> i64 {
    time.as_micros()
}

/// Places for parameters: `?1, ?2, ?3`.
pub(super) fn places(count: usize) -> String {
    let places: Vec<_> = (1..=count).map(|place| format!("?{place}")).collect();
    places.join(", ")
}
