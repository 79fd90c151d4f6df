//! Credentials.

use noetl_api::credential::{
    CredentialDeleteResponse, CredentialList, CredentialPutRequest, CredentialRequest,
    CredentialView, KeyStatus, RotationRequest, RotationSummary, SealedCredential, WalletRotation,
};
use noetl_api::paths;
use noetl_types::{ErrorCode, SecretOperation, WorkerId};

use super::{CRED_ADMIN_OR_WORKER, CRED_USE_OR_WORKER, Route, delete, get, handlers, post};
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::params::{PathText, QueryParams};
use crate::http::request_context::{AuthorizedCall, PlatformCall};

const CRED_USE: RouteAccess = RouteAccess::AnyOf(&[Scope::CredUse]);
const CRED_ADMIN: RouteAccess = RouteAccess::AnyOf(&[Scope::CredAdmin]);
const WALLET: RouteAccess = RouteAccess::Internal(Scope::CredAdmin);

pub(super) fn routes() -> Vec<Route> {
    use SecretOperation::{Delete, Inspect, IssueSealed, Rotate, Set};
    vec![
        get(paths::CREDENTIALS, CRED_USE, list_credentials),
        post(paths::CREDENTIALS, CRED_ADMIN, put_credential).secret_audited(Set),
        // Serves metadata, admin reads and worker reads. The handler sets the operation.
        get(paths::CREDENTIAL, CRED_USE_OR_WORKER, get_credential)
            .secret_audited(Inspect)
            .accepts_command_token(),
        get(paths::CREDENTIAL_SEALED, CRED_ADMIN_OR_WORKER, get_sealed_credential)
            .secret_audited(IssueSealed),
        delete(paths::CREDENTIAL, CRED_ADMIN, delete_credential).secret_audited(Delete),
        post(paths::ROTATE_KEYS, CRED_ADMIN, rotate_credentials).secret_audited(Rotate),
        post(paths::WALLET_ROTATE, WALLET, rotate_wallet).secret_audited(Rotate),
        get(paths::WALLET_KEY_STATUS, WALLET, get_key_status),
    ]
}

/// Lists credentials without their secrets.
async fn list_credentials(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<CredentialList>, HttpError> {
    let (kind, text) = (params.text_param("type")?, params.text_param("q")?);
    Ok(JsonResponse(app.services.credentials.list_credentials(&app.ctx, kind, text).await?))
}

/// Returns a credential. Only credential admins and workers that need it get the secret.
async fn get_credential(
    AuthorizedCall(app): AuthorizedCall,
    PathText(key): PathText,
    mut params: QueryParams,
) -> Result<JsonResponse<CredentialView>, HttpError> {
    let include_data = params.bool_param("include_data")?.unwrap_or(false);
    let execution_id = params.parse_param("execution_id", str::parse)?;
    let worker_id = params.parse_param("worker_id", str::parse::<WorkerId>)?;
    if app.ctx.auth.command_token.is_some() {
        let classic = &app.services.classic;
        let credential = classic.command_credential(&app.ctx, execution_id, &key, include_data);
        return Ok(JsonResponse(credential.await?));
    }
    if !include_data {
        return Ok(JsonResponse(app.services.credentials.get_credential(&app.ctx, &key).await?));
    }
    app.ctx.add_secret_facts(|facts| facts.operation = SecretOperation::Read);
    let credential = match (execution_id, worker_id) {
        (Some(execution_id), Some(worker_id)) if app.identity.allows_scope(Scope::Worker) => {
            let request = CredentialRequest { name: key.into(), execution_id, worker_id };
            app.services.credentials.issue_credential(&app.ctx, request).await?
        }
        _ if app.identity.allows_scope(Scope::CredAdmin) => {
            app.services.credentials.reveal_credential(&app.ctx, &key).await?
        }
        _ => return Err(secret_access_denied()),
    };
    Ok(JsonResponse(credential))
}

/// Returns a credential, encrypted for the public key of a worker.
async fn get_sealed_credential(
    AuthorizedCall(app): AuthorizedCall,
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
            app.services.credentials.issue_sealed_credential(&app.ctx, request).await?
        }
        _ if app.identity.allows_scope(Scope::CredAdmin) => {
            let sealed = app
                .services
                .credentials
                .reveal_sealed_credential(&app.ctx, &key, &worker_id, execution_id);
            sealed.await?
        }
        _ => return Err(secret_access_denied()),
    };
    Ok(JsonResponse(sealed))
}

fn secret_access_denied() -> HttpError {
    let text = "reading a secret requires the scope cred:admin, or the scope worker with execution_id and \
        worker_id";
    HttpError::new(ErrorCode::Forbidden, text)
}

handlers! {
    /// Stores a credential.
    put_credential(app: AuthorizedCall, request: JsonBody<CredentialPutRequest>)
        -> CredentialView => app.services.credentials.put_credential(&app.ctx, request);
    /// Deletes a credential.
    delete_credential(app: AuthorizedCall, key: PathText) -> CredentialDeleteResponse =>
        app.services.credentials.delete_credential(&app.ctx, &key);
    /// Encrypts the secrets of the tenant with the current key.
    rotate_credentials(app: AuthorizedCall, request: JsonBodyOrDefault<RotationRequest>)
        -> RotationSummary => app.services.credentials.rotate_credentials(&app.ctx, request);
    /// Encrypts the secrets of all tenants with the current key.
    rotate_wallet(call: PlatformCall, request: JsonBodyOrDefault<RotationRequest>)
        -> WalletRotation => call.services.credentials.rotate_all_tenants(&call.ctx, request);
    /// Returns the number of secrets per encryption key.
    get_key_status(call: PlatformCall) -> KeyStatus =>
        call.services.credentials.key_status();
}
