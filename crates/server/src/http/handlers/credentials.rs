//! Credentials.

use noetl_api::credential::{
    CredentialDeleteResponse, CredentialList, CredentialPutRequest, CredentialRequest,
    CredentialView, KeyStatus, RotationRequest, RotationSummary, SealedCredential, WalletRotation,
};
use noetl_types::{ErrorCode, SecretOperation, WorkerId};

use crate::http::access::Scope;
use crate::http::authorized_runtime::{AuthorizedRuntime, PlatformRuntime};
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::{PathText, QueryParams};

/// Stores a credential.
pub(in crate::http) async fn put_credential(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(request): JsonBody<CredentialPutRequest>,
) -> Result<JsonResponse<CredentialView>, HttpError> {
    Ok(JsonResponse(app.runtime.put_credential(request).await?))
}

/// Lists credentials without their secrets.
pub(in crate::http) async fn list_credentials(
    AuthorizedRuntime(app): AuthorizedRuntime,
    mut params: QueryParams,
) -> Result<JsonResponse<CredentialList>, HttpError> {
    let (kind, text) = (params.text_param("type")?, params.text_param("q")?);
    Ok(JsonResponse(app.runtime.list_credentials(kind, text).await?))
}

/// Returns a credential. Only credential admins and workers that need it get the secret.
pub(in crate::http) async fn get_credential(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathText(key): PathText,
    mut params: QueryParams,
) -> Result<JsonResponse<CredentialView>, HttpError> {
    let include_data = params.bool_param("include_data")?.unwrap_or(false);
    let execution_id = params.parse_param("execution_id", str::parse)?;
    let worker_id = params.parse_param("worker_id", str::parse::<WorkerId>)?;
    if let Some(command_token) = app.identity.command_token() {
        let credential =
            app.runtime.command_credential(command_token, execution_id, &key, include_data);
        return Ok(JsonResponse(credential.await?));
    }
    if !include_data {
        return Ok(JsonResponse(app.runtime.get_credential(&key).await?));
    }
    app.runtime.add_secret_facts(|facts| facts.operation = SecretOperation::Read);
    let credential = match (execution_id, worker_id) {
        (Some(execution_id), Some(worker_id)) if app.identity.allows_scope(Scope::Worker) => {
            let request = CredentialRequest { name: key.into(), execution_id, worker_id };
            app.runtime.issue_credential(request).await?
        }
        _ if app.identity.allows_scope(Scope::CredAdmin) => {
            app.runtime.reveal_credential(&key).await?
        }
        _ => return Err(secret_access_denied()),
    };
    Ok(JsonResponse(credential))
}

/// Returns a credential, encrypted for the public key of a worker.
pub(in crate::http) async fn get_sealed_credential(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathText(key): PathText,
    mut params: QueryParams,
) -> Result<JsonResponse<SealedCredential>, HttpError> {
    let execution_id = params.parse_param("execution_id", str::parse)?;
    let Some(worker_id) = params.parse_param("worker_id", str::parse::<WorkerId>)? else {
        let text = "worker_id is missing: the secret is encrypted for this worker";
        return Err(HttpError::new(ErrorCode::BadQuery, text));
    };
    let sealed = match execution_id {
        Some(execution_id) if app.identity.allows_scope(Scope::Worker) => {
            let request = CredentialRequest { name: key.into(), execution_id, worker_id };
            app.runtime.issue_sealed_credential(request).await?
        }
        _ if app.identity.allows_scope(Scope::CredAdmin) => {
            let sealed = app.runtime.reveal_sealed_credential(&key, &worker_id, execution_id);
            sealed.await?
        }
        _ => return Err(secret_access_denied()),
    };
    Ok(JsonResponse(sealed))
}

/// Deletes a credential.
pub(in crate::http) async fn delete_credential(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathText(key): PathText,
) -> Result<JsonResponse<CredentialDeleteResponse>, HttpError> {
    Ok(JsonResponse(app.runtime.delete_credential(&key).await?))
}

/// Encrypts the secrets of the tenant with the current key.
pub(in crate::http) async fn rotate_credentials(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RotationRequest>,
) -> Result<JsonResponse<RotationSummary>, HttpError> {
    Ok(JsonResponse(app.runtime.rotate_credentials(request).await?))
}

/// Encrypts the secrets of all tenants with the current key.
pub(in crate::http) async fn rotate_wallet(
    PlatformRuntime(runtime): PlatformRuntime,
    JsonBodyOrDefault(request): JsonBodyOrDefault<RotationRequest>,
) -> Result<JsonResponse<WalletRotation>, HttpError> {
    Ok(JsonResponse(runtime.rotate_all_tenants(request).await?))
}

/// Returns the number of secrets per encryption key.
pub(in crate::http) async fn get_key_status(
    PlatformRuntime(runtime): PlatformRuntime,
) -> Result<JsonResponse<KeyStatus>, HttpError> {
    Ok(JsonResponse(runtime.key_status().await?))
}

fn secret_access_denied() -> HttpError {
    let text = "reading a secret requires the scope cred:admin, or the scope worker with execution_id and \
        worker_id";
    HttpError::new(ErrorCode::Forbidden, text)
}
