//! Storage of sealed credentials.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId};

use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::row::{CREDENTIAL, ToCell as _, ToRow as _, cells};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] that stores credentials. Their secrets are sealed by the caller.
#[async_trait]
pub trait CredentialStore {
    /// Writes a credential. Returns `false` if the stored version is not the one to be replaced.
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError>;

    /// Returns a credential of a tenant.
    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError>;

    /// Returns credentials, ordered by id.
    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError>;

    /// Deletes a credential of a tenant. Returns `false` if it does not exist.
    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError>;
}

static INSERT_CREDENTIAL: Statement = Statement::insert(&CREDENTIAL, "ON CONFLICT DO NOTHING");

/// Replaces the content of a credential if it still has the expected version.
static REPLACE_CREDENTIAL: Statement = Statement::new(
    "UPDATE credential SET kind = $4, version = $5, sealed = $6::text::json, kid = $7,
         meta = $8::text::json, tags = $9::text::json, description = $10, created_at = $11,
         updated_at = $12
     WHERE credential_id = $1 AND tenant_id = $2 AND name = $3 AND version = $13",
);

static CREDENTIAL_BY_ID: Statement =
    Statement::select(&CREDENTIAL, "WHERE tenant_id = $1 AND credential_id = $2");

static CREDENTIAL_BY_NAME: Statement =
    Statement::select(&CREDENTIAL, "WHERE tenant_id = $1 AND name = $2");

static LIST_CREDENTIALS: Statement = Statement::select(
    &CREDENTIAL,
    "WHERE credential_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::text IS NULL OR kind = $3) AND ($4::text IS NULL OR strpos(name, $4) > 0)
        AND ($5::text IS NULL OR kid <> $5) ORDER BY credential_id LIMIT $6::bigint",
);

static DELETE_CREDENTIAL: Statement =
    Statement::new("DELETE FROM credential WHERE tenant_id = $1 AND credential_id = $2");

#[async_trait]
impl<D: Database> CredentialStore for D {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let mut cells = put.credential.to_row();
        let statement = match put.replaces {
            None => &INSERT_CREDENTIAL,
            Some(version) => {
                cells.push(version.to_cell());
                &REPLACE_CREDENTIAL
            }
        };
        Ok(self.execute(Durability::Synced, statement, cells).await? > 0)
    }

    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        match key {
            CredentialKey::Id(id) => {
                self.query_first(&CREDENTIAL_BY_ID, cells![tenant_id, id]).await
            }
            CredentialKey::Name(name) => {
                self.query_first(&CREDENTIAL_BY_NAME, cells![tenant_id, name]).await
            }
        }
    }

    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let after = filter.after.map_or(0, CredentialId::get);
        let CredentialFilter { tenant_id, kind, text, excluded_kid, .. } = filter;
        let params = cells![after, tenant_id, kind, text, excluded_kid, limit];
        self.query(&LIST_CREDENTIALS, params).await
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let key = cells![tenant_id, credential_id];
        Ok(self.execute(Durability::Synced, &DELETE_CREDENTIAL, key).await? > 0)
    }
}
