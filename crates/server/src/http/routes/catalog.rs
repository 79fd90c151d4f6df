//! Catalog: playbooks and other definitions.

use axum::response::{IntoResponse as _, Response};
use noetl_api::catalog::{
    AgentListRequest, ArchiveResponse, CatalogList, CatalogListRequest, CatalogResource,
    CatalogResourceRequest, ContentRequest, PlaybookContent, RegisterBatchRequest,
    RegisterBatchResponse, RegisterRequest, RegisterResponse, RestoreRequest, ValidationReport,
};
use noetl_api::execute::VersionSelector;
use noetl_api::paths;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, PlaybookPath, Text};

use super::{
    CATALOG_READ, CATALOG_WRITE, MAX_BATCH_BODY_SIZE, Route, delete, get, handlers, post, put,
};
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::params::{PathText, QueryParams};
use crate::http::request_context::AuthorizedCall;

/// Users and workers read definitions.
const CATALOG_READ_OR_WORKER: RouteAccess =
    RouteAccess::AnyOf(&[Scope::CatalogRead, Scope::Worker]);

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::CATALOG_REGISTER, CATALOG_WRITE, register_definition)
            .max_body(MAX_BATCH_BODY_SIZE)
            .audited(),
        post(paths::CATALOG_REGISTER_BATCH, CATALOG_WRITE, register_definitions)
            .max_body(MAX_BATCH_BODY_SIZE)
            .audited(),
        put(paths::CATALOG_CONTENT, CATALOG_WRITE, put_definition_content)
            .max_body(MAX_BATCH_BODY_SIZE)
            .audited(),
        put(paths::CATALOG_PLAYBOOK, CATALOG_WRITE, register_definition)
            .max_body(MAX_BATCH_BODY_SIZE)
            .audited(),
        delete(paths::CATALOG_PLAYBOOK_BY_ID, CATALOG_WRITE, archive_definition).audited(),
        post(paths::CATALOG_RESTORE, CATALOG_WRITE, restore_definition).audited(),
        post(paths::CATALOG_VALIDATE, CATALOG_READ, validate_definition)
            .max_body(MAX_BATCH_BODY_SIZE),
        get(paths::CATALOG_CONTENT, CATALOG_READ, get_definition_content),
        post(paths::CATALOG_LIST, CATALOG_READ, list_definitions),
        get(paths::CATALOG_LIST_KIND, CATALOG_READ, list_definition_paths),
        post(paths::CATALOG_AGENTS, CATALOG_READ, list_agents),
        post(paths::CATALOG_RESOURCE, CATALOG_READ_OR_WORKER, get_definition),
        get(paths::CATALOG_DETAIL, CATALOG_READ, get_definition_view),
    ]
}

fn required_playbook_id(params: &mut QueryParams) -> Result<Text, HttpError> {
    let missing = || HttpError::new(ErrorCode::BadQuery, "playbook_id is missing");
    params.text_param("playbook_id")?.ok_or_else(missing)
}

/// Returns the source text of a playbook.
async fn get_definition_content(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<PlaybookContent>, HttpError> {
    let name = required_playbook_id(&mut params)?;
    Ok(JsonResponse(app.services.catalog.definition_content(&app.ctx, &name).await?))
}

/// Registers a text as the next version of a playbook.
async fn put_definition_content(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
    JsonBody(request): JsonBody<ContentRequest>,
) -> Result<JsonResponse<RegisterResponse>, HttpError> {
    let (name, is_admin) =
        (required_playbook_id(&mut params)?, app.identity.allows_scope(Scope::Admin));
    let replaced =
        app.services.catalog.replace_definition_content(&app.ctx, &name, request, is_admin);
    Ok(JsonResponse(replaced.await?))
}

/// Returns the versions or the UI schema of a definition, selected by the last path segment.
async fn get_definition_view(
    AuthorizedCall(app): AuthorizedCall,
    PathText(address): PathText,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let not_found = || HttpError::new(ErrorCode::NotFound, "not found: no such path");
    let (path, view) = address.rsplit_once('/').ok_or_else(not_found)?;
    let path = PlaybookPath::new(path).map_err(|_| not_found())?;
    match view {
        "ui_schema" => {
            let request = CatalogResourceRequest {
                catalog_id: None,
                path: Some(path),
                version: params.text_param("version")?.map(VersionSelector::Label),
            };
            let schema = app.services.catalog.ui_schema(&app.ctx, request).await?;
            Ok(JsonResponse(schema).into_response())
        }
        "versions" => {
            let limit = params.page_limit("limit", PageLimit::default())?;
            let cursor = params.text_param("cursor")?;
            params.reject_unknown()?;
            let versions = app.services.catalog.definition_versions(&app.ctx, path, limit, cursor);
            Ok(JsonResponse(versions.await?).into_response())
        }
        _ => Err(not_found()),
    }
}

/// Returns a definition.
async fn get_definition(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(request): JsonBody<CatalogResourceRequest>,
) -> Result<JsonResponse<CatalogResource>, HttpError> {
    if request.catalog_id.is_none() && !app.identity.allows_scope(Scope::CatalogRead) {
        let text =
            "a worker can read only definitions of its commands: send catalog_id instead of path";
        return Err(HttpError::new(ErrorCode::Forbidden, text));
    }
    Ok(JsonResponse(app.services.catalog.catalog_item(&app.ctx, request).await?))
}

handlers! {
    /// Registers a definition, or validates it with `dry_run`.
    register_definition(app: AuthorizedCall, request: JsonBody<RegisterRequest>)
        -> RegisterResponse =>
        app.services.catalog
            .register_with_role(&app.ctx, request, app.identity.allows_scope(Scope::Admin));
    /// Registers several definitions, each independently.
    register_definitions(app: AuthorizedCall, batch: JsonBody<RegisterBatchRequest>)
        -> RegisterBatchResponse =>
        app.services.catalog
            .register_definitions(&app.ctx, batch, app.identity.allows_scope(Scope::Admin));
    /// Lists definitions.
    list_definitions(app: AuthorizedCall, request: JsonBodyOrDefault<CatalogListRequest>)
        -> CatalogList => app.services.catalog.list_definitions(&app.ctx, request);
    /// Lists the paths of the definitions of a kind.
    list_definition_paths(app: AuthorizedCall, kind: PathText) -> Vec<PlaybookPath> =>
        app.services.catalog.definition_paths(&app.ctx, &kind);
    /// Lists the definitions of agents.
    list_agents(app: AuthorizedCall, request: JsonBodyOrDefault<AgentListRequest>) -> CatalogList =>
        app.services.catalog.find_agents(&app.ctx, request);
    /// Validates a playbook without storing it.
    validate_definition(app: AuthorizedCall, request: JsonBody<ContentRequest>)
        -> ValidationReport => app.services.catalog.validate_content(&app.ctx, request);
    /// Archives a playbook.
    archive_definition(app: AuthorizedCall, name: PathText) -> ArchiveResponse =>
        app.services.catalog.archive_definition(&app.ctx, &name);
    /// Restores an archived definition.
    restore_definition(app: AuthorizedCall, request: JsonBody<RestoreRequest>) -> ArchiveResponse =>
        app.services.catalog.restore_definition(&app.ctx, request.path);
}
