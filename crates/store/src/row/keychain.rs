//! The cache of the keychain, column by column.

use super::cell::{Cell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::KeychainEntry;

/// An entry of the cache of the keychain.
pub(crate) static KEYCHAIN: Table = Table {
    name: "keychain",
    columns: &[
        ("keychain_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("cache_key", Kind::Text),
        ("name", Kind::Text),
        ("catalog_id", Kind::Int),
        ("scope", Kind::Text),
        ("execution_id", Kind::Int),
        ("version", Kind::Int),
        ("sealed", Kind::Json),
        ("kid", Kind::Text),
        ("auto_renew", Kind::Bool),
        ("created_at", Kind::Time),
        ("updated_at", Kind::Time),
        ("expires_at", Kind::Time),
    ],
};

pub(crate) fn keychain_row(entry: &KeychainEntry) -> Vec<Cell> {
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

pub(crate) fn keychain(cells: Cells<'_>) -> Result<KeychainEntry, Corrupt> {
    let mut row = Reader::new(&KEYCHAIN, cells);
    Ok(KeychainEntry {
        keychain_id: row.take()?,
        tenant_id: row.take()?,
        cache_key: row.take()?,
        name: row.take()?,
        catalog_id: row.take()?,
        scope: row.take()?,
        execution_id: row.take()?,
        version: row.take()?,
        sealed: row.take()?,
        kid: row.take()?,
        auto_renew: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
        expires_at: row.take()?,
    })
}
