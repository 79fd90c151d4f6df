//! Credentials on their way to a worker, sealed so that nobody between can read them.

use noetl_api::credential::{CredentialView, CredentialWish, SealedCredential};
use noetl_types::{ErrorCode, ExecutionId, WorkerId};
use zeroize::Zeroizing;

use super::credentials::broken;
use super::{Runtime, RuntimeError};
use crate::vault::{LETTER_ALGORITHM, LETTER_VERSION, VaultError};

impl Runtime {
    /// Lends a credential so that the worker alone can open it.
    pub(crate) async fn lend_sealed(
        &self,
        wish: CredentialWish,
    ) -> Result<SealedCredential, RuntimeError> {
        self.check_lending(&wish).await?;
        let run = Some(wish.execution_id);
        self.reveal_sealed(&wish.name, &wish.worker_id, run).await
    }

    /// The same for an admin of secrets, who needs no run.
    pub(crate) async fn reveal_sealed(
        &self,
        key: &str,
        worker_id: &WorkerId,
        execution_id: Option<ExecutionId>,
    ) -> Result<SealedCredential, RuntimeError> {
        self.jot(|act| {
            act.worker_id = Some(worker_id.clone());
            act.execution_id = execution_id;
        });
        let kept = self.kept_credential(key).await?;
        let Some(addressee) = self.worker_key(worker_id).await? else {
            return Err(no_key(worker_id));
        };
        let opened = self.opened_view(kept)?;
        if let Some(run) = execution_id {
            self.note_lent(run, Some(&opened.kind), opened.data.as_ref());
        }
        let text = plain(&opened)?;
        let run = execution_id.map_or_else(String::new, |id| id.to_string());
        // None of the three holds a NUL, so no two wishes are bound to the same.
        let bound = [worker_id.as_str(), &run, key].join("\0");
        let sealed = addressee.seal(bound.as_bytes(), &text);
        let letter = sealed.map_err(|error| broken(&error))?;
        let letter = letter.ok_or_else(|| no_key(worker_id))?;
        self.metrics().secrets().sealed();
        Ok(SealedCredential {
            alg: LETTER_ALGORITHM.into(),
            v: LETTER_VERSION,
            eph_pub: letter.eph_pub,
            ciphertext: letter.ciphertext,
        })
    }
}

fn plain(view: &CredentialView) -> Result<Zeroizing<Vec<u8>>, RuntimeError> {
    let text = serde_json::to_vec(view).map_err(|_| broken(&VaultError::Cannot))?;
    Ok(Zeroizing::new(text))
}

fn no_key(worker_id: &WorkerId) -> RuntimeError {
    let text = format!(
        "worker_id: the worker '{worker_id}' has not registered a `public_key`: base64 of the 32 bytes \
         of an X25519 key"
    );
    RuntimeError::refused(ErrorCode::BadQuery, text)
}
