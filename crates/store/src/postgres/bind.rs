//! Cells and errors in the terms of PostgreSQL.

use std::error::Error;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::row::{Cell, CellRef, Cells, Corrupt, Row};

/// Microseconds from the epoch of Unix to that of PostgreSQL, 2000-01-01.
const EPOCH_OFFSET: i64 = 946_684_800_000_000;

/// A value of a type that no cell is for.
#[derive(Debug, thiserror::Error)]
#[error("a cell cannot be a {0}")]
struct OddType(Type);

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
            // Transactions are counted from the beginning of a cluster: there are none that many.
            Type::XID8 => Self::Int(i64::from_be_bytes(raw.try_into()?)),
            Type::FLOAT8 => Self::Float(f64::from_sql(ty, raw)?),
            // JSON travels as its text, which is stored as it came.
            Type::TEXT | Type::JSON => Self::Text(std::str::from_utf8(raw)?),
            Type::BYTEA => Self::Bytes(raw),
            Type::TIMESTAMPTZ => {
                let micros = i64::from_be_bytes(raw.try_into()?);
                Self::Time(micros.saturating_add(EPOCH_OFFSET))
            }
            _ => return Err(OddType(ty.clone()).into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    /// Told by the reading itself, which looks at the type anyway: this is asked for every cell.
    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Row for tokio_postgres::Row {
    fn cell(&self, place: usize) -> CellRef<'_> {
        self.try_get(place).unwrap_or(CellRef::Null)
    }
}

/// Some of the cells of a row.
pub(super) fn cells(row: &tokio_postgres::Row, first: usize, count: usize) -> Cells<'_> {
    Cells::new(row, first..first + count)
}

/// Puts every row together by a function.
pub(super) fn read_all<T>(
    rows: &[tokio_postgres::Row],
    read: impl Fn(Cells<'_>) -> Result<T, Corrupt>,
) -> Result<Vec<T>, StoreError> {
    rows.iter()
        .map(|row| Ok(read(cells(row, 0, row.len()))?))
        .collect()
}

/// What may be over by the next try, and what may not. An error that the server tells has rolled
/// everything back; without one, nobody knows.
pub(super) fn failure(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        None if error.is_closed() || is_io(&error) => StoreError::unknown(error),
        Some(state) if is_passing(state) => StoreError::retry(error),
        Some(_) | None => StoreError::fatal(error),
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error
        .source()
        .is_some_and(<dyn Error>::is::<std::io::Error>)
}

/// Classes of states: rolled back because of others, out of resources, not ready, operator's act.
fn is_passing(state: &SqlState) -> bool {
    let class = state.code().get(..2);
    matches!(class, Some("08" | "40" | "53" | "55" | "57" | "58"))
}

/// What the server said was wrong, where it was that.
pub(super) fn state_of(error: &StoreError) -> Option<&SqlState> {
    let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = error;
    let told = cause.downcast_ref::<tokio_postgres::Error>();
    told.and_then(tokio_postgres::Error::code)
}

/// Whether a row of the same key was there already.
pub(super) fn is_taken(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Whether the log has no partition for an execution.
pub(super) fn lacks_partition(error: &tokio_postgres::Error) -> bool {
    // The state is that of a check, and no append breaks one of the tables.
    error.code() == Some(&SqlState::CHECK_VIOLATION)
}
