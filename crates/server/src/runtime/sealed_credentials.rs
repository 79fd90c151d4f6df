//! Credentials that are encrypted for one worker, so that no intermediary can read them.

use noetl_api::credential::{CredentialRequest, CredentialView, SealedCredential};
use noetl_types::{ErrorCode, ExecutionId, WorkerId};
use zeroize::Zeroizing;

use super::credentials::crypto_failure;
use super::{Runtime, RuntimeError};
use crate::crypto::{CryptoError, SEALED_BOX_ALGORITHM, SEALED_BOX_VERSION};

impl Runtime {
    /// Returns a credential that only the worker can decrypt.
    pub(crate) async fn issue_sealed_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<SealedCredential, RuntimeError> {
        self.check_credential_request(&request).await?;
        let execution_id = Some(request.execution_id);
        self.reveal_sealed_credential(&request.name, &request.worker_id, execution_id).await
    }

    /// Returns a credential that only the worker can decrypt, for a secrets admin. No execution is
    /// required.
    pub(crate) async fn reveal_sealed_credential(
        &self,
        key: &str,
        worker_id: &WorkerId,
        execution_id: Option<ExecutionId>,
    ) -> Result<SealedCredential, RuntimeError> {
        self.add_secret_facts(|facts| {
            facts.worker_id = Some(worker_id.clone());
            facts.execution_id = execution_id;
        });
        let stored = self.load_credential(key).await?;
        let Some(recipient) = self.worker_public_key(worker_id).await? else {
            return Err(missing_public_key(worker_id));
        };
        let credential = self.decrypt_credential(stored)?;
        if let Some(execution_id) = execution_id {
            self.record_issued_secret(
                execution_id,
                Some(&credential.kind),
                credential.data.as_ref(),
            );
        }
        let plaintext = to_plaintext(&credential)?;
        let execution = execution_id.map_or_else(String::new, |id| id.to_string());
        // None of the three contains a NUL, so the associated data is unique per request.
        let associated_data = [worker_id.as_str(), &execution, key].join("\0");
        let sealed = recipient.seal_box(associated_data.as_bytes(), &plaintext);
        let sealed_box = sealed.map_err(|error| crypto_failure(&error))?;
        let sealed_box = sealed_box.ok_or_else(|| missing_public_key(worker_id))?;
        self.metrics().secrets().count_sealed();
        Ok(SealedCredential {
            alg: SEALED_BOX_ALGORITHM.into(),
            v: SEALED_BOX_VERSION,
            eph_pub: sealed_box.eph_pub,
            ciphertext: sealed_box.ciphertext,
        })
    }
}

fn to_plaintext(view: &CredentialView) -> Result<Zeroizing<Vec<u8>>, RuntimeError> {
    let text = serde_json::to_vec(view).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))?;
    Ok(Zeroizing::new(text))
}

fn missing_public_key(worker_id: &WorkerId) -> RuntimeError {
    let text = format!(
        "worker_id: the worker '{worker_id}' has not registered a `public_key` (base64 of a \
            32-byte X25519 key)"
    );
    RuntimeError::refused(ErrorCode::BadQuery, text)
}
