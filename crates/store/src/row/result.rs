//! Results, column by column: those of appends, and those that come by themselves.

use noetl_types::Text;

use super::cell::{Cell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{NewResult, StoredResult};
use crate::seal::Sealed;

/// A result.
pub(crate) static RESULT: Table = Table {
    name: "result_store",
    columns: &[
        ("execution_id", Kind::Int),
        ("result_id", Kind::Int),
        ("name", Kind::Text),
        ("data", Kind::Bytes),
        ("sha256", Kind::Bytes),
        ("media_type", Kind::Text),
        ("created_at", Kind::Time),
    ],
};

/// A result with what only those have that came by themselves.
pub(crate) static STORED_RESULT: Table = Table {
    name: "result_store",
    columns: &[
        ("execution_id", Kind::Int),
        ("result_id", Kind::Int),
        ("name", Kind::Text),
        ("data", Kind::Bytes),
        ("sha256", Kind::Bytes),
        ("media_type", Kind::Text),
        ("created_at", Kind::Time),
        ("scope", Kind::Text),
        ("source_step", Kind::Text),
        ("expires_at", Kind::Time),
        ("object_key", Kind::Text),
    ],
};

/// Takes a result of an append apart.
pub(crate) fn result_row(sealed: &Sealed, result: &NewResult) -> Vec<Cell> {
    cells![
        sealed.append.execution_id,
        result.result_id,
        result.name,
        result.bytes,
        result.sha256,
        result.media_type,
        sealed.head.ingest_time,
    ]
}

/// A result as its row has it.
#[derive(Debug)]
pub(crate) struct KeptResult {
    /// The result; without its bytes where they are in a file.
    pub(crate) result: StoredResult,
    /// The file.
    pub(crate) object_key: Option<Text>,
}

/// Takes a result apart that came by itself.
pub(crate) fn stored_result_row(kept: &KeptResult) -> Vec<Cell> {
    let result = &kept.result;
    let bytes: &[u8] = match kept.object_key {
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
        kept.object_key,
    ]
}

/// Puts a result together.
pub(crate) fn result(cells: Cells<'_>) -> Result<KeptResult, Corrupt> {
    let mut row = Reader::new(&STORED_RESULT, cells);
    let result = StoredResult {
        execution_id: row.take()?,
        result_id: row.take()?,
        name: row.take()?,
        bytes: row.take()?,
        sha256: row.take()?,
        media_type: row.take()?,
        created_at: row.take()?,
        scope: row.take()?,
        source_step: row.take()?,
        expires_at: row.take()?,
    };
    Ok(KeptResult {
        result,
        object_key: row.take()?,
    })
}
