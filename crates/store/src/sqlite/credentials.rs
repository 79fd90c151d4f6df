//! [`CredentialStore`](crate::credentials::CredentialStore) in SQLite.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId, Text};
use rusqlite::{params, params_from_iter};

use super::SqliteStore;
use super::bind::{execute_cached, query_all, query_first, to_store_error};
use super::coordination_queries::{insert_sql, select_sql};
use super::writer::Durability;
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::row::{self, CREDENTIAL, ToCell as _, encode_credential};

static INSERT_CREDENTIAL: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR IGNORE", &CREDENTIAL));

/// Replaces the content of a credential if it still has the expected version.
const REPLACE_CREDENTIAL: &str =
    "UPDATE credential SET kind = ?4, version = ?5, sealed = ?6, kid = ?7,
    meta = ?8, tags = ?9, description = ?10, created_at = ?11, updated_at = ?12
    WHERE credential_id = ?1 AND tenant_id = ?2 AND name = ?3 AND version = ?13";

static CREDENTIAL_BY_ID: LazyLock<String> =
    LazyLock::new(|| select_sql(&CREDENTIAL, "WHERE tenant_id = ?1 AND credential_id = ?2"));
static CREDENTIAL_BY_NAME: LazyLock<String> =
    LazyLock::new(|| select_sql(&CREDENTIAL, "WHERE tenant_id = ?1 AND name = ?2"));
static LIST_CREDENTIALS: LazyLock<String> = LazyLock::new(|| {
    let condition = "WHERE credential_id > ?1 AND (?2 IS NULL OR tenant_id = ?2)
        AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR instr(name, ?4) > 0)
        AND (?5 IS NULL OR kid <> ?5) ORDER BY credential_id LIMIT ?6";
    select_sql(&CREDENTIAL, condition)
});

#[async_trait]
impl CredentialStore for SqliteStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                let mut cells = encode_credential(&put.credential);
                let sql = match put.replaces {
                    None => INSERT_CREDENTIAL.as_str(),
                    Some(version) => {
                        cells.push(version.to_cell());
                        REPLACE_CREDENTIAL
                    }
                };
                let changed = execute_cached(connection, sql, params_from_iter(cells));
                Ok(changed.map_err(to_store_error)? > 0)
            })
            .await
    }

    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let (tenant_id, key) = (tenant_id.clone(), key.clone());
        self.readers
            .run_query(move |connection| {
                let tenant_id = tenant_id.as_str();
                match &key {
                    CredentialKey::Id(id) => query_first(
                        connection,
                        &CREDENTIAL_BY_ID,
                        (tenant_id, id.get()),
                        row::decode_credential,
                    ),
                    CredentialKey::Name(name) => {
                        let key = (tenant_id, name.as_str());
                        query_first(connection, &CREDENTIAL_BY_NAME, key, row::decode_credential)
                    }
                }
            })
            .await
    }

    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        self.readers
            .run_query(move |connection| {
                let params = params![
                    filter.after.map_or(0, CredentialId::get),
                    filter.tenant_id.as_ref().map(TenantId::as_str),
                    filter.kind.as_ref().map(Text::as_str),
                    filter.text.as_ref().map(Text::as_str),
                    filter.excluded_kid.as_ref().map(Text::as_str),
                    limit.get(),
                ];
                query_all(connection, &LIST_CREDENTIALS, params, row::decode_credential)
            })
            .await
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let tenant_id = tenant_id.clone();
        self.writer
            .run_write(Durability::Synced, move |connection| {
                let sql = "DELETE FROM credential WHERE tenant_id = ?1 AND credential_id = ?2";
                let key = (tenant_id.as_str(), credential_id.get());
                Ok(execute_cached(connection, sql, key).map_err(to_store_error)? > 0)
            })
            .await
    }
}
