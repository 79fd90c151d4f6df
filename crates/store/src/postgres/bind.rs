//! Conversion of cells and errors from and to PostgreSQL.

use std::error::Error;

use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::row::{Cell, CellRef, FromRow, Row, RowCells};

/// Microseconds from the Unix epoch to the PostgreSQL epoch, 2000-01-01.
const EPOCH_OFFSET: i64 = 946_684_800_000_000;

/// Error for a value of a type that has no cell.
#[derive(Debug, thiserror::Error)]
#[error("unsupported column type {0}")]
struct UnsupportedType(Type);

impl ToSql for Cell {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Bool(value) => value.to_sql(ty, out),
            Self::Int(number) => int_to_sql(*number, ty, out),
            Self::Float(number) => number.to_sql(ty, out),
            Self::Text(text) => (&**text).to_sql(ty, out),
            Self::Bytes(bytes) => (&**bytes).to_sql(ty, out),
            Self::Time(micros) => {
                out.extend_from_slice(&(micros - EPOCH_OFFSET).to_be_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(ty: &Type) -> bool {
        [
            Type::BOOL,
            Type::INT4,
            Type::INT8,
            Type::FLOAT8,
            Type::TEXT,
            Type::BYTEA,
            Type::TIMESTAMPTZ,
        ]
        .contains(ty)
    }

    to_sql_checked!();
}

fn int_to_sql(
    number: i64,
    ty: &Type,
    out: &mut BytesMut,
) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
    if *ty == Type::INT4 {
        return i32::try_from(number)?.to_sql(ty, out);
    }
    number.to_sql(ty, out)
}

impl<'r> FromSql<'r> for CellRef<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            // Transaction ids count from the creation of a cluster and do not reach 2^63.
            Type::XID8 => Self::Int(i64::from_be_bytes(raw.try_into()?)),
            Type::FLOAT8 => Self::Float(f64::from_sql(ty, raw)?),
            // The `json` type stores the text unchanged and sends it as text.
            Type::TEXT | Type::JSON => Self::Text(std::str::from_utf8(raw)?),
            Type::BYTEA => Self::Bytes(raw),
            Type::TIMESTAMPTZ => {
                let micros = i64::from_be_bytes(raw.try_into()?);
                Self::Time(micros.saturating_add(EPOCH_OFFSET))
            }
            _ => return Err(UnsupportedType(ty.clone()).into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    /// Accepts every type. `from_sql` checks the type anyway, and this is called for every cell.
    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Row for tokio_postgres::Row {
    fn cell(&self, index: usize) -> CellRef<'_> {
        self.try_get(index).unwrap_or(CellRef::Null)
    }
}

/// Returns a range of the cells of a row.
pub(super) fn row_cells(row: &tokio_postgres::Row, first: usize, count: usize) -> RowCells<'_> {
    RowCells::new(row, first..first + count)
}

/// Decodes all rows.
pub(super) fn decode_rows<T: FromRow>(rows: &[tokio_postgres::Row]) -> Result<Vec<T>, StoreError> {
    rows.iter().map(|row| Ok(T::from_row(row_cells(row, 0, row.len()))?)).collect()
}

/// Decodes the first row, if there is one.
pub(super) fn decode_first<T: FromRow>(
    rows: &[tokio_postgres::Row],
) -> Result<Option<T>, StoreError> {
    Ok(decode_rows(rows.get(..1).unwrap_or_default())?.into_iter().next())
}

/// A parameter of a statement.
pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

pub(super) fn to_params(cells: &[Cell]) -> Vec<Param<'_>> {
    cells.iter().map(|cell| cell as Param<'_>).collect()
}

/// Runs a statement that is not cached.
pub(super) async fn query_rows(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<tokio_postgres::Row>, StoreError> {
    transaction.query(sql, params).await.map_err(to_store_error)
}

/// Converts an error. Conditions that may pass by the next attempt become retryable errors. An
/// error from the server means that everything was rolled back. If the connection was lost, the
/// outcome is unknown.
pub(super) fn to_store_error(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        None if error.is_closed() || is_io_error(&error) => StoreError::unknown_outcome(error),
        Some(&SqlState::DISK_FULL) => StoreError::disk_full(error),
        Some(state) if is_transient(state) => StoreError::retry(error),
        Some(_) | None => StoreError::fatal(error),
    }
}

fn is_io_error(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<std::io::Error>)
}

/// True for the SQLSTATE classes of conditions that pass: connection lost (08), rolled back because
/// of another transaction (40), insufficient resources (53), not in the required state (55),
/// operator intervention (57), system error (58).
fn is_transient(state: &SqlState) -> bool {
    let class = state.code().get(..2);
    matches!(class, Some("08" | "40" | "53" | "55" | "57" | "58"))
}

/// Returns the SQLSTATE of an error that the server reported.
pub(super) fn sql_state(error: &StoreError) -> Option<&SqlState> {
    let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = error;
    let reported = cause.downcast_ref::<tokio_postgres::Error>();
    reported.and_then(tokio_postgres::Error::code)
}

/// True if a statement violated a unique key.
pub(super) fn is_key_conflict(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// True if the log has no partition for an execution.
pub(super) fn is_missing_partition(error: &tokio_postgres::Error) -> bool {
    // PostgreSQL reports this as a check violation. Appends violate no other check of the tables.
    error.code() == Some(&SqlState::CHECK_VIOLATION)
}
