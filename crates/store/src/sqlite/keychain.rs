//! The cache of the keychain, in the file.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, KeychainId, TenantId, Text};
use rusqlite::{params, params_from_iter};

use super::SqliteStore;
use super::bind::{all, execute, failure, first};
use super::shared::{insert, select};
use super::writer::Durability;
use crate::error::StoreError;
use crate::keychain::Keychain;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::row::{self, KEYCHAIN, ToCell as _, keychain_row};

static PUT: LazyLock<String> = LazyLock::new(|| insert("INSERT OR IGNORE", &KEYCHAIN));

/// The row of the entry with its whole content, where it stands at a version.
const REPLACE: &str = "UPDATE keychain SET name = ?4, catalog_id = ?5, scope = ?6, execution_id = ?7, version = ?8, sealed = ?9, kid =
    ?10, auto_renew = ?11, created_at = ?12, updated_at = ?13, expires_at = ?14
    WHERE keychain_id = ?1 AND tenant_id = ?2 AND cache_key = ?3 AND version = ?15";

static BY_KEY: LazyLock<String> =
    LazyLock::new(|| select(&KEYCHAIN, "WHERE tenant_id = ?1 AND cache_key = ?2"));
static LIST: LazyLock<String> = LazyLock::new(|| {
    let hits = "WHERE keychain_id > ?1 AND (?2 IS NULL OR tenant_id = ?2)
        AND (?3 IS NULL OR catalog_id = ?3) AND (?4 IS NULL OR kid <> ?4)
        ORDER BY keychain_id LIMIT ?5";
    select(&KEYCHAIN, hits)
});

const COUNT_CREDENTIALS: &str = "SELECT kid, count(*) FROM credential GROUP BY kid";
const COUNT_KEYCHAIN: &str = "SELECT kid, count(*) FROM keychain GROUP BY kid";

#[async_trait]
impl Keychain for SqliteStore {
    async fn put_keychain(&self, put: KeychainPut) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                let mut cells = keychain_row(&put.entry);
                let sql = match put.replaces {
                    None => PUT.as_str(),
                    Some(version) => {
                        cells.push(version.to_cell());
                        REPLACE
                    }
                };
                let changed = execute(connection, sql, params_from_iter(cells));
                Ok(changed.map_err(failure)? > 0)
            })
            .await
    }

    async fn keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let (tenant_id, cache_key) = (tenant_id.clone(), cache_key.to_owned());
        self.readers
            .run(move |connection| {
                let key = (tenant_id.as_str(), cache_key.as_str());
                first(connection, &BY_KEY, key, row::keychain)
            })
            .await
    }

    async fn keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        self.readers
            .run(move |connection| {
                let params = params![
                    filter.after.map_or(0, KeychainId::get),
                    filter.tenant_id.as_ref().map(TenantId::as_str),
                    filter.catalog_id.map(CatalogId::get),
                    filter.not_under.as_ref().map(Text::as_str),
                    limit.get(),
                ];
                all(connection, &LIST, params, row::keychain)
            })
            .await
    }

    async fn delete_keychain(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let (tenant_id, cache_key) = (tenant_id.clone(), cache_key.to_owned());
        self.writer
            .run(Durability::Synced, move |connection| {
                let sql = "DELETE FROM keychain WHERE tenant_id = ?1 AND cache_key = ?2";
                let key = (tenant_id.as_str(), cache_key.as_str());
                Ok(execute(connection, sql, key).map_err(failure)? > 0)
            })
            .await
    }

    async fn key_counts(&self) -> Result<KeyCounts, StoreError> {
        self.readers
            .run(move |connection| {
                let count = |sql| all(connection, sql, (), row::count_of);
                Ok(KeyCounts {
                    credentials: count(COUNT_CREDENTIALS)?.into_iter().collect(),
                    keychain: count(COUNT_KEYCHAIN)?.into_iter().collect(),
                })
            })
            .await
    }
}
