//! Columns of results: of appends, and stored individually.

use noetl_types::Text;

use super::cell::Cell;
use super::table::{
    ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, columns, table,
};
use crate::model::{NewResult, StoredResult};
use crate::prepare_append::PreparedAppend;

table! {
    /// All columns of a result, including those of results stored individually.
    STORED_RESULT = "result_store": ResultRow {
        result(
            execution_id: Int,
            result_id: Int,
            name: Text,
            data: Bytes,
            sha256: Bytes,
            media_type: Text,
            created_at: Time,
            scope: Text,
            source_step: Text,
            expires_at: Time,
        ),
        object_key: Text,
    }
}

columns! {
    StoredResult {
        execution_id,
        result_id,
        name,
        bytes,
        sha256,
        media_type,
        created_at,
        scope,
        source_step,
        expires_at,
    }
}

/// The columns of a result that an append writes.
pub(crate) static RESULT: Table =
    Table { name: STORED_RESULT.name, columns: STORED_RESULT.columns.split_at(7).0 };

pub(crate) fn encode_new_result(prepared: &PreparedAppend, result: &NewResult) -> Vec<Cell> {
    cells![
        prepared.append.execution_id, result.result_id, result.name, result.bytes, result.sha256,
        result.media_type, prepared.head.ingest_time,
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
