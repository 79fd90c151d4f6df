//! Credentials, in the file.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId, Text};
use rusqlite::{params, params_from_iter};

use super::SqliteStore;
use super::bind::{all, execute, failure, first};
use super::shared::{insert, select};
use super::writer::Durability;
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::row::{self, CREDENTIAL, ToCell as _, credential_row};

static PUT: LazyLock<String> = LazyLock::new(|| insert("INSERT OR IGNORE", &CREDENTIAL));

/// The row of the credential with its whole content, where it stands at a version.
const REPLACE: &str = "UPDATE credential SET kind = ?4, version = ?5, sealed = ?6, kid = ?7,
    meta = ?8, tags = ?9, description = ?10, created_at = ?11, updated_at = ?12
    WHERE credential_id = ?1 AND tenant_id = ?2 AND name = ?3 AND version = ?13";

static BY_ID: LazyLock<String> =
    LazyLock::new(|| select(&CREDENTIAL, "WHERE tenant_id = ?1 AND credential_id = ?2"));
static BY_NAME: LazyLock<String> =
    LazyLock::new(|| select(&CREDENTIAL, "WHERE tenant_id = ?1 AND name = ?2"));
static LIST: LazyLock<String> = LazyLock::new(|| {
    let hits = "WHERE credential_id > ?1 AND (?2 IS NULL OR tenant_id = ?2)
        AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR instr(name, ?4) > 0)
        AND (?5 IS NULL OR kid <> ?5) ORDER BY credential_id LIMIT ?6";
    select(&CREDENTIAL, hits)
});

#[async_trait]
impl Credentials for SqliteStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                let mut cells = credential_row(&put.credential);
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

    async fn credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let (tenant_id, key) = (tenant_id.clone(), key.clone());
        self.readers
            .run(move |connection| {
                let tenant_id = tenant_id.as_str();
                match &key {
                    CredentialKey::Id(id) => {
                        first(connection, &BY_ID, (tenant_id, id.get()), row::credential)
                    }
                    CredentialKey::Name(name) => {
                        let key = (tenant_id, name.as_str());
                        first(connection, &BY_NAME, key, row::credential)
                    }
                }
            })
            .await
    }

    async fn credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        self.readers
            .run(move |connection| {
                let params = params![
                    filter.after.map_or(0, CredentialId::get),
                    filter.tenant_id.as_ref().map(TenantId::as_str),
                    filter.kind.as_ref().map(Text::as_str),
                    filter.text.as_ref().map(Text::as_str),
                    filter.not_under.as_ref().map(Text::as_str),
                    limit.get(),
                ];
                all(connection, &LIST, params, row::credential)
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
            .run(Durability::Synced, move |connection| {
                let sql = "DELETE FROM credential WHERE tenant_id = ?1 AND credential_id = ?2";
                let key = (tenant_id.as_str(), credential_id.get());
                Ok(execute(connection, sql, key).map_err(failure)? > 0)
            })
            .await
    }
}
