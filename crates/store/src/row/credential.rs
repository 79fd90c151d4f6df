//! Credentials, column by column.

use super::cell::{Cell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::Credential;

/// A credential.
pub(crate) static CREDENTIAL: Table = Table {
    name: "credential",
    columns: &[
        ("credential_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("name", Kind::Text),
        ("kind", Kind::Text),
        ("version", Kind::Int),
        ("sealed", Kind::Json),
        ("kid", Kind::Text),
        ("meta", Kind::Json),
        ("tags", Kind::Json),
        ("description", Kind::Text),
        ("created_at", Kind::Time),
        ("updated_at", Kind::Time),
    ],
};

pub(crate) fn credential_row(credential: &Credential) -> Vec<Cell> {
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

pub(crate) fn credential(cells: Cells<'_>) -> Result<Credential, Corrupt> {
    let mut row = Reader::new(&CREDENTIAL, cells);
    Ok(Credential {
        credential_id: row.take()?,
        tenant_id: row.take()?,
        name: row.take()?,
        kind: row.take()?,
        version: row.take()?,
        sealed: row.take()?,
        kid: row.take()?,
        meta: row.take()?,
        tags: row.take()?,
        description: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}
