//! Credentials: kept, listed, lent.

use axum::extract::State;
use noetl_api::credential::{
    CredentialList, CredentialView, CredentialWish, DeletedCredential, KeyStatus, PutCredential,
    Rotation, RotationRequest, WalletRotation,
};
use noetl_types::{ErrorCode, WorkerId};

use crate::http::access::Scope;
use crate::http::acting::{App, For};
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
        _ => {
            let text = "a secret is shown to a worker that names its execution_id and worker_id, or \
                to who has the scope cred:admin";
            return Err(Failure::new(ErrorCode::Forbidden, text));
        }
    };
    Ok(Answer(lent))
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
    State(app): State<App>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RotationRequest>,
) -> Result<Answer<WalletRotation>, Failure> {
    Ok(Answer(app.of_nobody().rotate_wallet(request).await?))
}

/// Which keys secrets are under.
pub(in crate::http) async fn key_status(
    State(app): State<App>,
) -> Result<Answer<KeyStatus>, Failure> {
    Ok(Answer(app.of_nobody().key_status().await?))
}
