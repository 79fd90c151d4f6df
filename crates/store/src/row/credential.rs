//! The table of credentials.

use super::cell::{Cell, ToCell};
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::model::Credential;

pub(crate) static CREDENTIAL: Table = Table {
    name: "credential",
    columns: &[
        ("credential_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("name", ColumnKind::Text),
        ("kind", ColumnKind::Text),
        ("version", ColumnKind::Int),
        ("sealed", ColumnKind::Json),
        ("kid", ColumnKind::Text),
        ("meta", ColumnKind::Json),
        ("tags", ColumnKind::Json),
        ("description", ColumnKind::Text),
        ("created_at", ColumnKind::Time),
        ("updated_at", ColumnKind::Time),
    ],
};

pub(crate) fn encode_credential(credential: &Credential) -> Vec<Cell> {
    cells![
        credential.credential_id,
        credential.tenant_id,
        credential.name,
        credential.kind,
        credential.version,
        credential.sealed,
        credential.kid,
        credential.meta,
        credential.tags,
        credential.description,
        credential.created_at,
        credential.updated_at,
    ]
}

pub(crate) fn decode_credential(cells: RowCells<'_>) -> Result<Credential, CorruptRow> {
    let mut row = RowReader::new(&CREDENTIAL, cells);
    Ok(Credential {
        credential_id: row.read_next()?,
        tenant_id: row.read_next()?,
        name: row.read_next()?,
        kind: row.read_next()?,
        version: row.read_next()?,
        sealed: row.read_next()?,
        kid: row.read_next()?,
        meta: row.read_next()?,
        tags: row.read_next()?,
        description: row.read_next()?,
        created_at: row.read_next()?,
        updated_at: row.read_next()?,
    })
}
