//! Columns of results: of appends, and stored individually.

use noetl_types::Text;

use super::cell::Cell;
use super::table::{ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow};
use crate::model::{NewResult, StoredResult};
use crate::prepare_append::PreparedAppend;

/// All columns of a result, including those of results stored individually.
pub(crate) static STORED_RESULT: Table = Table { name: "result_store", columns: RESULT_COLUMNS };

/// The columns of a result that an append writes.
pub(crate) static RESULT: Table =
    Table { name: "result_store", columns: RESULT_COLUMNS.split_at(7).0 };

const RESULT_COLUMNS: &[(&str, ColumnKind)] = &[
    ("execution_id", ColumnKind::Int),
    ("result_id", ColumnKind::Int),
    ("name", ColumnKind::Text),
    ("data", ColumnKind::Bytes),
    ("sha256", ColumnKind::Bytes),
    ("media_type", ColumnKind::Text),
    ("created_at", ColumnKind::Time),
    ("scope", ColumnKind::Text),
    ("source_step", ColumnKind::Text),
    ("expires_at", ColumnKind::Time),
    ("object_key", ColumnKind::Text),
];

pub(crate) fn encode_new_result(prepared: &PreparedAppend, result: &NewResult) -> Vec<Cell> {
    cells![
        prepared.append.execution_id,
        result.result_id,
        result.name,
        result.bytes,
        result.sha256,
        result.media_type,
        prepared.head.ingest_time,
    ]
}

/// A result and the reference to its file.
#[derive(Debug)]
pub(crate) struct ResultRow {
    /// The result. Its bytes are empty if they are in a file.
    pub(crate) result: StoredResult,
    /// Name of the file.
    pub(crate) object_key: Option<Text>,
}

/// Encodes a result that is stored individually.
impl ToRow for ResultRow {
    fn to_row(&self) -> Vec<Cell> {
        let result = &self.result;
        let bytes: &[u8] = match self.object_key {
            None => &result.bytes,
            Some(_) => &[],
        };
        cells![
            result.execution_id,
            result.result_id,
            result.name,
            *bytes,
            result.sha256,
            result.media_type,
            result.created_at,
            result.scope,
            result.source_step,
            result.expires_at,
            self.object_key,
        ]
    }
}

impl FromRow for ResultRow {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&STORED_RESULT, cells);
        let result = StoredResult {
            execution_id: row.read_next()?,
            result_id: row.read_next()?,
            name: row.read_next()?,
            bytes: row.read_next()?,
            sha256: row.read_next()?,
            media_type: row.read_next()?,
            created_at: row.read_next()?,
            scope: row.read_next()?,
            source_step: row.read_next()?,
            expires_at: row.read_next()?,
        };
        Ok(Self { result, object_key: row.read_next()? })
    }
}
