//! The table of the keychain cache.

use super::cell::{Cell, ToCell};
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::model::KeychainEntry;

pub(crate) static KEYCHAIN: Table = Table {
    name: "keychain",
    columns: &[
        ("keychain_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("cache_key", ColumnKind::Text),
        ("name", ColumnKind::Text),
        ("catalog_id", ColumnKind::Int),
        ("scope", ColumnKind::Text),
        ("execution_id", ColumnKind::Int),
        ("version", ColumnKind::Int),
        ("sealed", ColumnKind::Json),
        ("kid", ColumnKind::Text),
        ("auto_renew", ColumnKind::Bool),
        ("created_at", ColumnKind::Time),
        ("updated_at", ColumnKind::Time),
        ("expires_at", ColumnKind::Time),
    ],
};

pub(crate) fn encode_keychain_entry(entry: &KeychainEntry) -> Vec<Cell> {
    cells![
        entry.keychain_id,
        entry.tenant_id,
        entry.cache_key,
        entry.name,
        entry.catalog_id,
        entry.scope,
        entry.execution_id,
        entry.version,
        entry.sealed,
        entry.kid,
        entry.auto_renew,
        entry.created_at,
        entry.updated_at,
        entry.expires_at,
    ]
}

pub(crate) fn decode_keychain_entry(cells: RowCells<'_>) -> Result<KeychainEntry, CorruptRow> {
    let mut row = RowReader::new(&KEYCHAIN, cells);
    Ok(KeychainEntry {
        keychain_id: row.read_next()?,
        tenant_id: row.read_next()?,
        cache_key: row.read_next()?,
        name: row.read_next()?,
        catalog_id: row.read_next()?,
        scope: row.read_next()?,
        execution_id: row.read_next()?,
        version: row.read_next()?,
        sealed: row.read_next()?,
        kid: row.read_next()?,
        auto_renew: row.read_next()?,
        created_at: row.read_next()?,
        updated_at: row.read_next()?,
        expires_at: row.read_next()?,
    })
}
