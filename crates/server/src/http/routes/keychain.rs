//! Cache of resolved keychain entries.

use noetl_api::keychain::{
    KeychainDeleteResponse, KeychainList, KeychainPutRequest, KeychainPutResponse, KeychainView,
};
use noetl_api::paths;
use noetl_store::KeychainScope;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ErrorCode, SecretOperation, WorkerId};

use super::{CRED_ADMIN_OR_WORKER, CRED_USE_OR_WORKER, Route, delete, get, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::Scope;
use crate::http::params::{PathCatalogId, PathKeychainEntry, QueryParams};
use crate::http::request_context::{AuthorizedCall, RequestContext};
use crate::services::keychain::{KeychainCaller, KeychainKey};

pub(super) fn routes() -> Vec<Route> {
    use SecretOperation::{KeychainDelete, KeychainGet, KeychainPut};
    vec![
        get(paths::KEYCHAIN, CRED_USE_OR_WORKER, get_keychain_entry).secret_audited(KeychainGet),
        post(paths::KEYCHAIN, CRED_ADMIN_OR_WORKER, put_keychain_entry).secret_audited(KeychainPut),
        delete(paths::KEYCHAIN, CRED_ADMIN_OR_WORKER, delete_keychain_entry)
            .secret_audited(KeychainDelete),
        get(paths::KEYCHAIN_CATALOG, CRED_USE_OR_WORKER, list_keychain_entries),
    ]
}

/// Stores a resolved entry.
async fn put_keychain_entry(
    AuthorizedCall(app): AuthorizedCall,
    PathKeychainEntry(catalog_id, name): PathKeychainEntry,
    JsonBody(request): JsonBody<KeychainPutRequest>,
) -> Result<JsonResponse<KeychainPutResponse>, HttpError> {
    let scope = request.scope_type.as_deref().map(KeychainScope::parse);
    let scope = scope.transpose();
    let scope = scope.map_err(|error| HttpError::new(ErrorCode::Validation, error.to_string()))?;
    let key = KeychainKey {
        catalog_id,
        name: name.into(),
        scope: scope.unwrap_or(KeychainScope::Global),
        execution_id: request.execution_id,
    };
    let caller = keychain_caller(&app, request.worker_id.clone());
    Ok(JsonResponse(
        app.services.keychain.put_keychain_entry(&app.ctx, key, request, caller).await?,
    ))
}

/// Returns a resolved entry. Only credential admins and workers that need it get the data.
async fn get_keychain_entry(
    AuthorizedCall(app): AuthorizedCall,
    PathKeychainEntry(catalog_id, name): PathKeychainEntry,
    mut params: QueryParams,
) -> Result<JsonResponse<KeychainView>, HttpError> {
    let key = keychain_key(catalog_id, name, &mut params)?;
    let caller = keychain_caller(&app, params.parse_param("worker_id", str::parse)?);
    Ok(JsonResponse(app.services.keychain.get_keychain_entry(&app.ctx, &key, caller).await?))
}

/// Deletes a resolved entry.
async fn delete_keychain_entry(
    AuthorizedCall(app): AuthorizedCall,
    PathKeychainEntry(catalog_id, name): PathKeychainEntry,
    mut params: QueryParams,
) -> Result<JsonResponse<KeychainDeleteResponse>, HttpError> {
    let key = keychain_key(catalog_id, name, &mut params)?;
    let caller = keychain_caller(&app, params.parse_param("worker_id", str::parse)?);
    Ok(JsonResponse(app.services.keychain.delete_keychain_entry(&app.ctx, &key, caller).await?))
}

/// Lists the resolved entries of a definition, without their data.
async fn list_keychain_entries(
    AuthorizedCall(app): AuthorizedCall,
    PathCatalogId(catalog_id): PathCatalogId,
    mut params: QueryParams,
) -> Result<JsonResponse<KeychainList>, HttpError> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text_param("cursor")?;
    let listed = app.services.keychain.list_keychain_entries(&app.ctx, catalog_id, limit, cursor);
    Ok(JsonResponse(listed.await?))
}

fn keychain_caller(app: &RequestContext, worker_id: Option<WorkerId>) -> KeychainCaller {
    if app.identity.allows_scope(Scope::CredAdmin) {
        KeychainCaller::Admin
    } else if app.identity.allows_scope(Scope::Worker) {
        KeychainCaller::Worker(worker_id)
    } else {
        KeychainCaller::MetadataReader
    }
}

fn keychain_key(
    catalog_id: CatalogId,
    name: String,
    params: &mut QueryParams,
) -> Result<KeychainKey, HttpError> {
    let scope = params.parse_param("scope_type", KeychainScope::parse)?;
    Ok(KeychainKey {
        catalog_id,
        name: name.into(),
        scope: scope.unwrap_or(KeychainScope::Global),
        execution_id: params.parse_param("execution_id", str::parse)?,
    })
}
