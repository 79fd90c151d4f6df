//! [`KeychainStore`](crate::keychain::KeychainStore) in SQLite.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, KeychainId, TenantId, Text};
use rusqlite::{params, params_from_iter};

use super::SqliteStore;
use super::bind::{execute_cached, query_all, query_first, to_store_error};
use super::coordination_queries::{insert_sql, select_sql};
use super::writer::Durability;
use crate::error::StoreError;
use crate::keychain::KeychainStore;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::row::{self, KEYCHAIN, ToCell as _, encode_keychain_entry};

static INSERT_KEYCHAIN_ENTRY: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR IGNORE", &KEYCHAIN));

/// Replaces the content of an entry if it still has the expected version.
const REPLACE_KEYCHAIN_ENTRY: &str = "UPDATE keychain SET name = ?4, catalog_id = ?5, scope = ?6, execution_id = ?7, version = ?8, sealed = ?9, kid =
    ?10, auto_renew = ?11, created_at = ?12, updated_at = ?13, expires_at = ?14
    WHERE keychain_id = ?1 AND tenant_id = ?2 AND cache_key = ?3 AND version = ?15";

static KEYCHAIN_ENTRY_BY_KEY: LazyLock<String> =
    LazyLock::new(|| select_sql(&KEYCHAIN, "WHERE tenant_id = ?1 AND cache_key = ?2"));
static LIST_KEYCHAIN_ENTRIES: LazyLock<String> = LazyLock::new(|| {
    let condition = "WHERE keychain_id > ?1 AND (?2 IS NULL OR tenant_id = ?2)
        AND (?3 IS NULL OR catalog_id = ?3) AND (?4 IS NULL OR kid <> ?4)
        ORDER BY keychain_id LIMIT ?5";
    select_sql(&KEYCHAIN, condition)
});

const COUNT_CREDENTIALS_BY_KEY: &str = "SELECT kid, count(*) FROM credential GROUP BY kid";
const COUNT_KEYCHAIN_BY_KEY: &str = "SELECT kid, count(*) FROM keychain GROUP BY kid";

#[async_trait]
impl KeychainStore for SqliteStore {
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                let mut cells = encode_keychain_entry(&put.entry);
                let sql = match put.replaces {
                    None => INSERT_KEYCHAIN_ENTRY.as_str(),
                    Some(version) => {
                        cells.push(version.to_cell());
                        REPLACE_KEYCHAIN_ENTRY
                    }
                };
                let changed = execute_cached(connection, sql, params_from_iter(cells));
                Ok(changed.map_err(to_store_error)? > 0)
            })
            .await
    }

    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let (tenant_id, cache_key) = (tenant_id.clone(), cache_key.to_owned());
        self.readers
            .run_query(move |connection| {
                let key = (tenant_id.as_str(), cache_key.as_str());
                query_first(connection, &KEYCHAIN_ENTRY_BY_KEY, key, row::decode_keychain_entry)
            })
            .await
    }

    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        self.readers
            .run_query(move |connection| {
                let params = params![
                    filter.after.map_or(0, KeychainId::get),
                    filter.tenant_id.as_ref().map(TenantId::as_str),
                    filter.catalog_id.map(CatalogId::get),
                    filter.excluded_kid.as_ref().map(Text::as_str),
                    limit.get(),
                ];
                query_all(connection, &LIST_KEYCHAIN_ENTRIES, params, row::decode_keychain_entry)
            })
            .await
    }

    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let (tenant_id, cache_key) = (tenant_id.clone(), cache_key.to_owned());
        self.writer
            .run_write(Durability::Synced, move |connection| {
                let sql = "DELETE FROM keychain WHERE tenant_id = ?1 AND cache_key = ?2";
                let key = (tenant_id.as_str(), cache_key.as_str());
                Ok(execute_cached(connection, sql, key).map_err(to_store_error)? > 0)
            })
            .await
    }

    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError> {
        self.readers
            .run_query(move |connection| {
                let count = |sql| query_all(connection, sql, (), row::decode_count);
                Ok(KeyCounts {
                    credentials: count(COUNT_CREDENTIALS_BY_KEY)?.into_iter().collect(),
                    keychain: count(COUNT_KEYCHAIN_BY_KEY)?.into_iter().collect(),
                })
            })
            .await
    }
}
