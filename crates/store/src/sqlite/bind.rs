//! Conversion of cells and errors from and to SQLite, and helpers to run statements.

use noetl_types::Timestamp;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Params};

use crate::error::StoreError;
use crate::row::{Cell, CellRef, CorruptRow, FromRow, Row, RowCells};

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

/// Row of a statement that counts the bytes read from it.
struct MeasuredRow<'r> {
    row: &'r rusqlite::Row<'r>,
    bytes_read: std::cell::Cell<usize>,
}

impl<'r> MeasuredRow<'r> {
    fn new(row: &'r rusqlite::Row<'r>) -> Self {
        let bytes_read = std::cell::Cell::new(0);
        Self { row, bytes_read }
    }

    fn cells(&self) -> RowCells<'_> {
        RowCells::new(self, 0..self.row.as_ref().column_count())
    }
}

impl Row for MeasuredRow<'_> {
    fn cell(&self, index: usize) -> CellRef<'_> {
        let cell = match self.row.get_ref(index) {
            Err(_) | Ok(ValueRef::Null) => CellRef::Null,
            Ok(ValueRef::Integer(number)) => CellRef::Int(number),
            Ok(ValueRef::Real(number)) => CellRef::Float(number),
            // Invalid UTF-8 becomes a null cell, which the decoder rejects.
            Ok(ValueRef::Text(bytes)) => {
                std::str::from_utf8(bytes).map_or(CellRef::Null, CellRef::Text)
            }
            Ok(ValueRef::Blob(bytes)) => CellRef::Bytes(bytes),
        };
        self.bytes_read.set(self.bytes_read.get() + cell.approximate_bytes());
        cell
    }
}

/// Converts an error. Conditions that may pass by the next attempt become retryable errors.
pub(super) fn to_store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::disk_full(error),
        // The index of the WAL is a file too.
        Some(ErrorCode::SystemIoFailure)
            if error.sqlite_error().is_some_and(|error| {
                error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
            }) =>
        {
            StoreError::disk_full(error)
        }
        // A file of a database that is open cannot be created.
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::retry(error),
        Some(_) | None => StoreError::fatal(error),
    }
}

/// True if a statement violated a constraint, such as a key that is already in use.
pub(super) fn is_key_conflict(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

pub(super) fn execute_cached(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, rusqlite::Error> {
    connection.prepare_cached(sql)?.execute(params)
}

/// Returns all rows of a statement.
pub(super) fn query_all<T: FromRow>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<T>, StoreError> {
    let mut decoded = Vec::new();
    query_each(connection, sql, params, |cells| {
        decoded.push(T::from_row(cells)?);
        Ok(true)
    })?;
    Ok(decoded)
}

/// Passes the rows of a statement to `visit` until it returns false.
pub(super) fn query_each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut visit: impl FnMut(RowCells<'_>) -> Result<bool, CorruptRow>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(to_store_error)?;
    let mut rows = statement.query(params).map_err(to_store_error)?;
    while let Some(row) = rows.next().map_err(to_store_error)? {
        if !visit(MeasuredRow::new(row).cells())? {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns rows of a statement until they reach `max_bytes`, and true if there are more.
pub(super) fn query_within_bytes<T: FromRow>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    max_bytes: usize,
) -> Result<(Vec<T>, bool), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(to_store_error)?;
    let mut rows = statement.query(params).map_err(to_store_error)?;
    let mut decoded = Vec::new();
    let mut total_bytes = 0;
    while let Some(row) = rows.next().map_err(to_store_error)? {
        if total_bytes >= max_bytes {
            return Ok((decoded, true));
        }
        let measured = MeasuredRow::new(row);
        decoded.push(T::from_row(measured.cells())?);
        total_bytes += measured.bytes_read.get();
    }
    Ok((decoded, false))
}

/// Returns the first row of a statement.
pub(super) fn query_first<T: FromRow>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<T>, StoreError> {
    Ok(query_all(connection, sql, params)?.into_iter().next())
}

pub(super) fn to_micros(time: Timestamp) -> i64 {
    time.as_micros()
}

/// Returns placeholders for parameters: `?1, ?2, ?3`.
pub(super) fn placeholder_list(count: usize) -> String {
    let placeholders: Vec<_> = (1..=count).map(|index| format!("?{index}")).collect();
    placeholders.join(", ")
}
