//! Key rotation: rewraps secrets from old keys to the current key.
//!
//! Only the data key of each record is wrapped again, and no secret is decrypted. Records under the
//! current key are skipped, so an interrupted rotation continues where it stopped.

use noetl_api::credential::{
    KeyStatus, RotationRequest, RotationSummary, TableRotation, WalletRotation,
};
use noetl_store::{
    Credential, CredentialFilter, CredentialPut, KeychainEntry, KeychainFilter, KeychainPut,
};
use noetl_types::limits::PageLimit;
use noetl_types::{Json, TenantId, Text};

use crate::access::CallContext;
use crate::crypto::{KeyRing, RecordBinding};
use crate::error::Result;
use crate::services::credentials::key_check::verify_encryption_key;
use crate::services::credentials::{
    crypto_failure, wrapped_secret_from_json, wrapped_secret_to_json,
};
use crate::services::{Credentials, credentials, keychain};

impl Credentials {
    /// Rewraps the secrets of the caller's tenant that are still under an old key.
    pub async fn rotate_credentials(
        &self,
        ctx: &CallContext,
        request: RotationRequest,
    ) -> Result<RotationSummary> {
        let tenant_id = Some(ctx.tenant().clone());
        let rotated = self.rotate_keys(ctx, tenant_id, request).await?;
        Ok(rotated.credential.summary.merge(rotated.keychain.summary))
    }

    /// Rewraps the secrets of all tenants that are still under an old key.
    pub(crate) async fn rotate_all_tenants(
        &self,
        ctx: &CallContext,
        request: RotationRequest,
    ) -> Result<WalletRotation> {
        self.rotate_keys(ctx, None, request).await
    }

    /// Returns the number of secrets per key, for all tenants.
    pub(crate) async fn key_status(&self) -> Result<KeyStatus> {
        let current = self.infra.settings.encryption_keys()?.current().kid().clone();
        let counts = self.infra.store().count_secrets_by_key().await?;
        Ok(KeyStatus { current, credential: counts.credentials, keychain: counts.keychain })
    }

    async fn rotate_keys(
        &self,
        ctx: &CallContext,
        tenant_id: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<WalletRotation> {
        let keys = self.infra.settings.encryption_keys()?;
        verify_encryption_key(self.infra.store(), Some(keys)).await?;
        ctx.add_secret_facts(|facts| facts.key_id = Some(keys.current().kid().clone()));
        // Each table is counted when it is done, because the next one may fail.
        let metrics = &self.infra.metrics.secrets;
        let credential = self.rotate_credential_table(keys, tenant_id.clone(), request).await?;
        metrics.count_rotated(credential.summary);
        let keychain = self.rotate_keychain_table(keys, tenant_id, request).await?;
        metrics.count_rotated(keychain.summary);
        Ok(WalletRotation { credential, keychain })
    }

    async fn rotate_credential_table(
        &self,
        keys: &KeyRing,
        tenant_id: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<TableRotation> {
        let mut filter = CredentialFilter {
            tenant_id,
            kind: None,
            text: None,
            excluded_kid: Some(keys.current().kid().clone()),
            after: None,
        };
        let mut rotation = TableRotation::default();
        for _ in 0..request.max_batches {
            let page =
                self.infra.store().list_credentials(filter.clone(), rotation_page_limit(request));
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.credential_id);
            for credential in page {
                let id = credential.credential_id.get();
                count_rotated(&mut rotation, id, self.rewrap_credential(keys, credential).await);
            }
        }
        Ok(rotation)
    }

    async fn rotate_keychain_table(
        &self,
        keys: &KeyRing,
        tenant_id: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<TableRotation> {
        let mut filter = KeychainFilter {
            tenant_id,
            catalog_id: None,
            excluded_kid: Some(keys.current().kid().clone()),
            after: None,
        };
        let mut rotation = TableRotation::default();
        for _ in 0..request.max_batches {
            let page = self
                .infra
                .store()
                .list_keychain_entries(filter.clone(), rotation_page_limit(request));
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.keychain_id);
            for entry in page {
                let id = entry.keychain_id.get();
                count_rotated(&mut rotation, id, self.rewrap_keychain_entry(keys, entry).await);
            }
        }
        Ok(rotation)
    }

    async fn rewrap_credential(&self, keys: &KeyRing, stored: Credential) -> Result<bool> {
        let binding = credentials::credential_binding(&stored);
        let Some((sealed, kid)) = rewrap_stored_secret(keys, &binding, &stored.sealed)? else {
            return Ok(false);
        };
        let put = CredentialPut {
            replaces: Some(stored.version),
            credential: Credential { sealed, kid, ..stored },
        };
        Ok(self.infra.store().put_credential(put).await?)
    }

    async fn rewrap_keychain_entry(&self, keys: &KeyRing, stored: KeychainEntry) -> Result<bool> {
        let binding = keychain::keychain_binding(&stored);
        let Some((sealed, kid)) = rewrap_stored_secret(keys, &binding, &stored.sealed)? else {
            return Ok(false);
        };
        let put = KeychainPut {
            replaces: Some(stored.version),
            entry: KeychainEntry { sealed, kid, ..stored },
        };
        Ok(self.infra.store().put_keychain_entry(put).await?)
    }
}

fn rotation_page_limit(request: RotationRequest) -> PageLimit {
    PageLimit::clamped(request.batch_size.into())
}

/// Rewraps the data key of a secret under the current key. Returns the new value and the id of the
/// current key.
fn rewrap_stored_secret(
    keys: &KeyRing,
    binding: &RecordBinding<'_>,
    sealed: &Json,
) -> Result<Option<(Json, Text)>> {
    let rewrapped = keys.rewrap_secret(binding, &wrapped_secret_from_json(sealed)?);
    let rewrapped = rewrapped.map_err(|error| crypto_failure(&error))?;
    rewrapped
        .map(|rewrapped| Ok((wrapped_secret_to_json(&rewrapped)?, rewrapped.kid().clone())))
        .transpose()
}

fn count_rotated(rotation: &mut TableRotation, id: i64, rewrapped: Result<bool>) {
    let summary = &mut rotation.summary;
    summary.processed += 1;
    match rewrapped {
        Ok(true) => summary.rewrapped += 1,
        Ok(false) => summary.skipped += 1,
        Err(error) => {
            tracing::error!(%error, "a secret could not be rewrapped and keeps its old key");
            summary.failed += 1;
        }
    }
    rotation.last_id = Some(id);
}
