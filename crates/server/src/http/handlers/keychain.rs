//! The cache of the keychain: kept, lent, listed.

use noetl_api::keychain::{KeychainDeleted, KeychainKept, KeychainList, KeychainView, PutKeychain};
use noetl_store::KeychainScope;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ErrorCode, WorkerId};

use crate::http::access::Scope;
use crate::http::acting::{Acting, For};
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{CatalogOf, KeychainOf, Params};
use crate::runtime::{KeychainCaller, KeychainKey};

/// Keeps what was resolved.
pub(in crate::http) async fn put(
    For(app): For,
    KeychainOf(catalog_id, name): KeychainOf,
    JsonBody(request): JsonBody<PutKeychain>,
) -> Result<Answer<KeychainKept>, Failure> {
    let scope = request.scope_type.as_deref().map(KeychainScope::parse);
    let scope = scope.transpose();
    let scope = scope.map_err(|error| Failure::new(ErrorCode::Validation, error.to_string()))?;
    let key = KeychainKey {
        catalog_id,
        name: name.into(),
        scope: scope.unwrap_or(KeychainScope::Global),
        execution_id: request.execution_id,
    };
    let caller = caller(&app, request.worker_id.clone());
    Ok(Answer(
        app.runtime.put_keychain(key, request, caller).await?,
    ))
}

/// What was resolved; its data only for an admin of secrets, and for a worker that needs it.
pub(in crate::http) async fn one(
    For(app): For,
    KeychainOf(catalog_id, name): KeychainOf,
    mut params: Params,
) -> Result<Answer<KeychainView>, Failure> {
    let key = key_of(catalog_id, name, &mut params)?;
    let caller = caller(&app, params.read("worker_id", str::parse)?);
    Ok(Answer(app.runtime.keychain(&key, caller).await?))
}

/// Forgets what was resolved.
pub(in crate::http) async fn delete(
    For(app): For,
    KeychainOf(catalog_id, name): KeychainOf,
    mut params: Params,
) -> Result<Answer<KeychainDeleted>, Failure> {
    let key = key_of(catalog_id, name, &mut params)?;
    let caller = caller(&app, params.read("worker_id", str::parse)?);
    Ok(Answer(app.runtime.delete_keychain(&key, caller).await?))
}

/// All that is kept for a definition, without its data.
pub(in crate::http) async fn list(
    For(app): For,
    CatalogOf(catalog_id): CatalogOf,
    mut params: Params,
) -> Result<Answer<KeychainList>, Failure> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text("cursor")?;
    let listed = app.runtime.keychain_of(catalog_id, limit, cursor);
    Ok(Answer(listed.await?))
}

fn caller(app: &Acting, worker_id: Option<WorkerId>) -> KeychainCaller {
    if app.identity.may(Scope::CredAdmin) {
        KeychainCaller::Admin
    } else if app.identity.may(Scope::Worker) {
        KeychainCaller::Worker(worker_id)
    } else {
        KeychainCaller::Onlooker
    }
}

fn key_of(
    catalog_id: CatalogId,
    name: String,
    params: &mut Params,
) -> Result<KeychainKey, Failure> {
    let scope = params.read("scope_type", KeychainScope::parse)?;
    Ok(KeychainKey {
        catalog_id,
        name: name.into(),
        scope: scope.unwrap_or(KeychainScope::Global),
        execution_id: params.read("execution_id", str::parse)?,
    })
}
