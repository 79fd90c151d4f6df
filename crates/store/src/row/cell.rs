//! Values of single columns.

use std::sync::Arc;

use noetl_types::id::HighWaterMark;
use noetl_types::limits::{MaxAttempts, PageLimit, Priority};
use noetl_types::record::{ElapsedTime, SchemaVersion};
use noetl_types::{
    AuditId, CatalogId, ChainHash, CommandId, CommandStatus, CredentialId, Digest, EventId,
    EventName, ExecutionId, ExecutionStatus, ExecutionVersion, Json, KeychainId, LeaseToken,
    MachineId, Millis, OrganizationId, OutboxId, PlaybookPath, PoolName, QuarantineId, ResultId,
    RuntimeId, SecretOperation, Seq, SignalId, StatusName, StepName, TenantId, Text, Timestamp,
    TokenId, WorkerId, json,
};

use crate::model::{
    ExecutionOrigin, KeychainScope, LogEpoch, MatchKey, OutboxStatus, RuntimeKind, VarKind,
    WaitKind,
};

/// An owned column value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Text or canonical JSON.
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Microseconds since the Unix epoch.
    Time(i64),
}

/// A column value borrowed from a row, since most reads need no copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CellRef<'r> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Text or JSON.
    Text(&'r str),
    Bytes(&'r [u8]),
    /// Microseconds since the Unix epoch.
    Time(i64),
}

/// A cell whose value does not have the requested type.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CellProblem {
    #[error("{found} where {wanted} was expected")]
    Kind { wanted: &'static str, found: &'static str },
    #[error(transparent)]
    Value(Box<dyn std::error::Error + Send + Sync>),
}

impl CellProblem {
    pub(super) fn value(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Value(error.into())
    }
}

/// A type that can be written to a column.
pub(crate) trait ToCell {
    fn to_cell(&self) -> Cell;
}

/// A type that can be read from a column.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem>;
}

impl Cell {
    /// Borrows the value.
    pub(crate) fn as_cell_ref(&self) -> CellRef<'_> {
        match self {
            Self::Null => CellRef::Null,
            Self::Bool(value) => CellRef::Bool(*value),
            Self::Int(number) => CellRef::Int(*number),
            Self::Float(number) => CellRef::Float(*number),
            Self::Text(text) => CellRef::Text(text),
            Self::Bytes(bytes) => CellRef::Bytes(bytes),
            Self::Time(micros) => CellRef::Time(*micros),
        }
    }

    /// Approximate size in transit.
    pub(crate) fn approximate_bytes(&self) -> usize {
        self.as_cell_ref().approximate_bytes()
    }
}

impl<'r> CellRef<'r> {
    /// Approximate size in transit.
    pub(crate) fn approximate_bytes(self) -> usize {
        match self {
            Self::Null => 1,
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Time(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn kind_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::Bytes(_) => "bytes",
            Self::Time(_) => "a time",
        }
    }

    fn wrong_kind(self, wanted: &'static str) -> CellProblem {
        CellProblem::Kind { wanted, found: self.kind_name() }
    }

    pub(super) fn text(self) -> Result<&'r str, CellProblem> {
        match self {
            Self::Text(text) => Ok(text),
            other => Err(other.wrong_kind("a text")),
        }
    }

    fn bytes(self) -> Result<&'r [u8], CellProblem> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong_kind("bytes")),
        }
    }
}

impl<T: ToCell> ToCell for Option<T> {
    fn to_cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, T::to_cell)
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        match cell {
            CellRef::Null => Ok(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

impl<T: ToCell + ?Sized> ToCell for &T {
    fn to_cell(&self) -> Cell {
        (**self).to_cell()
    }
}

/// Conversions of types to a column and back.
macro_rules! column_types {
    ($($name:ty: |$value:ident| $write:expr, |$cell:ident| $read:expr;)+) => {
        $(
            impl ToCell for $name {
                fn to_cell(&self) -> Cell {
                    let $value = self;
                    $write
                }
            }

            impl FromCell for $name {
                fn from_cell($cell: CellRef<'_>) -> Result<Self, CellProblem> {
                    $read
                }
            }
        )+
    };
}

pub(super) use column_types;

column_types! {
    i64: |number| Cell::Int(*number), |cell| match cell {
        CellRef::Int(number) => Ok(number),
        other => Err(other.wrong_kind("an integer")),
    };
    bool: |value| Cell::Bool(*value), |cell| match cell {
        CellRef::Bool(value) => Ok(value),
        CellRef::Int(0) => Ok(false),
        CellRef::Int(1) => Ok(true),
        other => Err(other.wrong_kind("a boolean")),
    };
    Timestamp: |time| Cell::Time(time.as_micros()), |cell| match cell {
        CellRef::Time(micros) | CellRef::Int(micros) => {
            Self::from_micros(micros).map_err(CellProblem::value)
        }
        other => Err(other.wrong_kind("a time")),
    };
    ElapsedTime: |time| Cell::Float(time.as_ms()), |cell| match cell {
        CellRef::Float(ms) => Self::from_ms(ms).map_err(CellProblem::value),
        other => Err(other.wrong_kind("a number")),
    };
    Text: |text| Cell::Text(text.clone().into_shared()),
        |cell| Self::new(cell.text()?).map_err(CellProblem::value);
    Arc<[u8]>: |bytes| Cell::Bytes(Self::clone(bytes)), |cell| Ok(cell.bytes()?.into());
    Vec<u8>: |bytes| bytes.as_slice().to_cell(), |cell| Ok(cell.bytes()?.to_vec());
    Digest: |digest| digest.as_bytes().to_cell(),
        |cell| Self::try_from(cell.bytes()?).map_err(CellProblem::value);
    ChainHash: |hash| hash.as_bytes().to_cell(),
        |cell| Self::try_from(cell.bytes()?).map_err(CellProblem::value);
    LeaseToken: |token| token.as_bytes().to_cell(),
        |cell| cell.bytes()?.try_into().map(Self::from_bytes).map_err(CellProblem::value);
    MatchKey: |key| key.as_str().to_cell(), |cell| Text::from_cell(cell).map(Self::from_stored);
    Millis: |duration| duration.as_ms().to_cell(), |cell| u64::from_cell(cell).map(Self::from_ms);
    HighWaterMark: |mark| mark.get().to_cell(), |cell| i64::from_cell(cell).map(Self::new);
    LogEpoch: |epoch| epoch.get().to_cell(), |cell| u64::from_cell(cell).map(Self::new);
    MachineId: |id| id.get().to_cell(),
        |cell| Self::new(u16::from_cell(cell)?).map_err(CellProblem::value);
    SchemaVersion: |version| version.get().to_cell(), |cell| {
        let number = i64::from_cell(cell)?;
        Self::new(number).ok_or_else(|| CellProblem::value(format!("schema version {number}")))
    };
}

impl ToCell for str {
    fn to_cell(&self) -> Cell {
        Cell::Text(self.into())
    }
}

impl ToCell for [u8] {
    fn to_cell(&self) -> Cell {
        Cell::Bytes(self.into())
    }
}

impl ToCell for PageLimit {
    fn to_cell(&self) -> Cell {
        self.get().to_cell()
    }
}

/// JSON null is stored as SQL NULL.
impl ToCell for Json {
    fn to_cell(&self) -> Cell {
        if self.is_null() {
            Cell::Null
        } else {
            // Canonical JSON is UTF-8, so the fallback never runs.
            let text = String::from_utf8(json::to_canonical(self));
            Cell::Text(text.map_or_else(|_| self.to_string().into(), Arc::from))
        }
    }
}

impl FromCell for Json {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        match cell {
            CellRef::Null => Ok(Self::Null),
            cell => json::parse_str(cell.text()?).map_err(CellProblem::value),
        }
    }
}

/// Numbers that fit into an integer column. Unsigned values beyond its range do not occur, because
/// all of them are counts.
macro_rules! small_number {
    ($($number:ty),+) => {
        $(
            impl ToCell for $number {
                fn to_cell(&self) -> Cell {
                    Cell::Int(i64::try_from(*self).unwrap_or(i64::MAX))
                }
            }

            impl FromCell for $number {
                fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
                    Self::try_from(i64::from_cell(cell)?).map_err(CellProblem::value)
                }
            }
        )+
    };
}

small_number!(u16, u32, u64);

/// Integer types with a `get` and a checked `new`.
macro_rules! numbers {
    ($($name:ty),+) => {
        $(
            impl ToCell for $name {
                fn to_cell(&self) -> Cell {
                    Cell::Int(i64::from(self.get()))
                }
            }

            impl FromCell for $name {
                fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
                    Self::new(i64::from_cell(cell)?).map_err(CellProblem::value)
                }
            }
        )+
    };
}

numbers!(
    AuditId, CatalogId, CommandId, CredentialId, EventId, ExecutionId, KeychainId, OutboxId,
    QuarantineId, ResultId, RuntimeId, Seq, SignalId, TokenId, ExecutionVersion, MaxAttempts,
    Priority
);

/// Text types with an `as_str` and a parse function.
macro_rules! texts {
    ($($name:ty: $read:expr),+ $(,)?) => {
        $(
            impl ToCell for $name {
                fn to_cell(&self) -> Cell {
                    self.as_str().to_cell()
                }
            }

            impl FromCell for $name {
                fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
                    let read = $read;
                    read(cell.text()?).map_err(CellProblem::value)
                }
            }
        )+
    };
}

texts!(
    OutboxStatus: Self::parse,
    StepName: Self::new,
    TenantId: Self::new,
    OrganizationId: Self::new,
    PoolName: Self::parse_queue,
    PlaybookPath: Self::new,
    WorkerId: Self::new,
    CommandStatus: Self::parse,
    ExecutionStatus: Self::parse,
    StatusName: Self::parse,
    EventName: |text| Self::parse_lenient(Some(text)),
    ExecutionOrigin: Self::parse,
    RuntimeKind: Self::parse,
    KeychainScope: Self::parse,
    VarKind: Self::parse,
    WaitKind: Self::parse,
    SecretOperation: Self::parse,
);
