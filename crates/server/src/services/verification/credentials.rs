//! Verification of credentials.

use noetl_store::{Credential, CredentialFilter};
use noetl_types::limits::PageLimit;

use super::{Pass, Problem, ProblemKind, Verification, VerifyObserver};
use crate::crypto::CryptoError;
use crate::error::Result;
use crate::services::credentials::{credential_binding, wrapped_secret_from_json};

impl Verification {
    /// Verifies that the secrets of all credentials belong to their rows, if this process has the
    /// server's key.
    pub(super) async fn verify_credentials(
        &self,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let Some(keys) = self.infra.settings.keys.as_deref() else {
            return Ok(());
        };
        let mut filter = CredentialFilter::default();
        loop {
            let page = self.infra.store.list_credentials(filter.clone(), PageLimit::MAX).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            filter.after = Some(last.credential_id);
            for credential in page {
                let opened = wrapped_secret_from_json(&credential.sealed).ok().map(|sealed| {
                    keys.unwrap_secret(&credential_binding(&credential), &sealed).map(drop)
                });
                let reason = match opened {
                    Some(Ok(())) => continue,
                    Some(Err(CryptoError::MissingKey(kid))) => format!(
                        "is sealed with the key {kid}, which this process does not have; add it to \
                         NOETL_ENCRYPTION_KEYS_OLD"
                    ),
                    Some(Err(_)) | None => {
                        "was written or changed without the server's key; it is refused".to_owned()
                    }
                };
                let Credential { credential_id, name, tenant_id, .. } = &credential;
                let text =
                    format!("credential {credential_id} ({name}) of tenant {tenant_id} {reason}");
                pass.report(Problem::of_store(ProblemKind::ModifiedCredential, text));
            }
        }
    }
}
