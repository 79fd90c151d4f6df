//! Credentials: kept, listed, lent.

use noetl_api::credential::{
    CredentialList, CredentialView, CredentialWish, DeletedCredential, KeyStatus, PutCredential,
    Rotation, RotationRequest, SealedCredential, WalletRotation,
};
use noetl_types::{ErrorCode, SecretOperation, WorkerId};

use crate::http::access::Scope;
use crate::http::acting::{For, ForAll};
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::failure::Failure;
use crate::http::params::{Params, TextOf};

/// Keeps a credential.
pub(in crate::http) async fn put(
    For(app): For,
    JsonBody(request): JsonBody<PutCredential>,
) -> Result<Answer<CredentialView>, Failure> {
    Ok(Answer(app.runtime.put_credential(request).await?))
}

/// The credentials, without their secrets.
pub(in crate::http) async fn list(
    For(app): For,
    mut params: Params,
) -> Result<Answer<CredentialList>, Failure> {
    let (kind, text) = (params.text("type")?, params.text("q")?);
    Ok(Answer(app.runtime.credentials(kind, text).await?))
}

/// A credential; with its secret only for an admin of secrets, and for a worker that needs it.
pub(in crate::http) async fn one(
    For(app): For,
    TextOf(key): TextOf,
    mut params: Params,
) -> Result<Answer<CredentialView>, Failure> {
    let wants_data = params.flag("include_data")?.unwrap_or(false);
    let execution_id = params.read("execution_id", str::parse)?;
    let worker_id = params.read("worker_id", str::parse::<WorkerId>)?;
    if let Some(own) = app.identity.capability() {
        let wish = (execution_id, key.as_str());
        let lent = app.runtime.lend_to_command(own, wish, wants_data);
        return Ok(Answer(lent.await?));
    }
    if !wants_data {
        return Ok(Answer(app.runtime.credential(&key).await?));
    }
    app.runtime.jot(|act| act.operation = SecretOperation::Read);
    let lent = match (execution_id, worker_id) {
        (Some(execution_id), Some(worker_id)) if app.identity.may(Scope::Worker) => {
            let wish = CredentialWish {
                name: key.into(),
                execution_id,
                worker_id,
            };
            app.runtime.lend_credential(wish).await?
        }
        _ if app.identity.may(Scope::CredAdmin) => app.runtime.reveal_credential(&key).await?,
        _ => return Err(not_lent()),
    };
    Ok(Answer(lent))
}

/// The same, so that only the worker can open it.
pub(in crate::http) async fn sealed(
    For(app): For,
    TextOf(key): TextOf,
    mut params: Params,
) -> Result<Answer<SealedCredential>, Failure> {
    let execution_id = params.read("execution_id", str::parse)?;
    let Some(worker_id) = params.read("worker_id", str::parse::<WorkerId>)? else {
        let text = "worker_id: it says for whom the secret is to be sealed";
        return Err(Failure::new(ErrorCode::BadQuery, text));
    };
    let sealed = match execution_id {
        Some(execution_id) if app.identity.may(Scope::Worker) => {
            let wish = CredentialWish {
                name: key.into(),
                execution_id,
                worker_id,
            };
            app.runtime.lend_sealed(wish).await?
        }
        _ if app.identity.may(Scope::CredAdmin) => {
            let sealed = app.runtime.reveal_sealed(&key, &worker_id, execution_id);
            sealed.await?
        }
        _ => return Err(not_lent()),
    };
    Ok(Answer(sealed))
}

/// Forgets a credential.
pub(in crate::http) async fn delete(
    For(app): For,
    TextOf(key): TextOf,
) -> Result<Answer<DeletedCredential>, Failure> {
    Ok(Answer(app.runtime.delete_credential(&key).await?))
}

/// Wraps secrets under the current key.
pub(in crate::http) async fn rotate(
    For(app): For,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RotationRequest>,
) -> Result<Answer<Rotation>, Failure> {
    Ok(Answer(app.runtime.rotate_credentials(request).await?))
}

/// The same for all tenants.
pub(in crate::http) async fn rotate_all(
    ForAll(runtime): ForAll,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RotationRequest>,
) -> Result<Answer<WalletRotation>, Failure> {
    Ok(Answer(runtime.rotate_wallet(request).await?))
}

/// Which keys secrets are under.
pub(in crate::http) async fn key_status(
    ForAll(runtime): ForAll,
) -> Result<Answer<KeyStatus>, Failure> {
    Ok(Answer(runtime.key_status().await?))
}

fn not_lent() -> Failure {
    let text = "a secret is shown to a worker that names its execution_id and worker_id, or to who has \
        the scope cred:admin";
    Failure::new(ErrorCode::Forbidden, text)
}
