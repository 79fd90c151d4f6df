//! Definitions.

use axum::response::{IntoResponse as _, Response};
use noetl_api::catalog::{
    AgentsRequest, ArchiveAnswer, CatalogItem, CatalogList, Content, ContentRequest, ListRequest,
    RegisterAnswer, RegisterBatch, RegisterBatchAnswer, RegisterRequest, ResourceRequest,
    RestoreRequest, Validation,
};
use noetl_api::execute::Version;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, PlaybookPath, Text};

use crate::http::access::Scope;
use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::{JsonBody, JsonBodyOrDefault};
use crate::http::failure::Failure;
use crate::http::params::{Params, TextOf};

/// Registers a definition, or only checks it.
pub(in crate::http) async fn register(
    For(app): For,
    JsonBody(request): JsonBody<RegisterRequest>,
) -> Result<Answer<RegisterAnswer>, Failure> {
    let is_admin = app.identity.may(Scope::Admin);
    Ok(Answer(app.runtime.register_as(request, is_admin).await?))
}

/// Registers many definitions.
pub(in crate::http) async fn register_batch(
    For(app): For,
    JsonBody(batch): JsonBody<RegisterBatch>,
) -> Result<Answer<RegisterBatchAnswer>, Failure> {
    let is_admin = app.identity.may(Scope::Admin);
    let answer = app.runtime.register_definitions(batch, is_admin).await?;
    Ok(Answer(answer))
}

/// The definitions.
pub(in crate::http) async fn list(
    For(app): For,
    JsonBodyOrDefault(request): JsonBodyOrDefault<ListRequest>,
) -> Result<Answer<CatalogList>, Failure> {
    Ok(Answer(app.runtime.definitions(request).await?))
}

/// The paths of the definitions of a kind.
pub(in crate::http) async fn list_kind(
    For(app): For,
    TextOf(kind): TextOf,
) -> Result<Answer<Vec<PlaybookPath>>, Failure> {
    Ok(Answer(app.runtime.definition_paths(&kind).await?))
}

/// The definitions of agents.
pub(in crate::http) async fn agents(
    For(app): For,
    JsonBodyOrDefault(request): JsonBodyOrDefault<AgentsRequest>,
) -> Result<Answer<CatalogList>, Failure> {
    Ok(Answer(app.runtime.agents(request).await?))
}

fn playbook_id(params: &mut Params) -> Result<Text, Failure> {
    let missing = || Failure::new(ErrorCode::BadQuery, "playbook_id is missing");
    params.text("playbook_id")?.ok_or_else(missing)
}

/// The text of a playbook.
pub(in crate::http) async fn content(
    For(app): For,
    mut params: Params,
) -> Result<Answer<Content>, Failure> {
    let name = playbook_id(&mut params)?;
    Ok(Answer(app.runtime.definition_content(&name).await?))
}

/// Registers a text as the next version of a playbook.
pub(in crate::http) async fn put_content(
    For(app): For,
    mut params: Params,
    JsonBody(request): JsonBody<ContentRequest>,
) -> Result<Answer<RegisterAnswer>, Failure> {
    let (name, is_admin) = (playbook_id(&mut params)?, app.identity.may(Scope::Admin));
    let replaced = app.runtime.replace_content(&name, request, is_admin);
    Ok(Answer(replaced.await?))
}

/// Checks a playbook.
pub(in crate::http) async fn validate(
    For(app): For,
    JsonBody(request): JsonBody<ContentRequest>,
) -> Result<Answer<Validation>, Failure> {
    Ok(Answer(app.runtime.validate(request).await?))
}

/// Puts a playbook into the archive.
pub(in crate::http) async fn archive(
    For(app): For,
    TextOf(name): TextOf,
) -> Result<Answer<ArchiveAnswer>, Failure> {
    Ok(Answer(app.runtime.archive_definition(&name).await?))
}

/// Takes a definition out of the archive.
pub(in crate::http) async fn restore(
    For(app): For,
    JsonBody(request): JsonBody<RestoreRequest>,
) -> Result<Answer<ArchiveAnswer>, Failure> {
    let restored = app.runtime.restore_definition(request.path).await?;
    Ok(Answer(restored))
}

/// What is told of a definition, by the last word of the address behind its path.
pub(in crate::http) async fn told_of(
    For(app): For,
    TextOf(address): TextOf,
    mut params: Params,
) -> Result<Response, Failure> {
    let nothing = || Failure::new(ErrorCode::NotFound, "there is nothing at this address");
    let (path, what) = address.rsplit_once('/').ok_or_else(nothing)?;
    let path = PlaybookPath::new(path).map_err(|_| nothing())?;
    match what {
        "ui_schema" => {
            let request = ResourceRequest {
                catalog_id: None,
                path: Some(path),
                version: params.text("version")?.map(Version::Word),
            };
            let schema = app.runtime.ui_schema(request).await?;
            Ok(Answer(schema).into_response())
        }
        "versions" => {
            let limit = params.page_limit("limit", PageLimit::default())?;
            let cursor = params.text("cursor")?;
            params.nothing_else()?;
            let versions = app.runtime.definition_versions(path, limit, cursor);
            Ok(Answer(versions.await?).into_response())
        }
        _ => Err(nothing()),
    }
}

/// A definition.
pub(in crate::http) async fn resource(
    For(app): For,
    JsonBody(request): JsonBody<ResourceRequest>,
) -> Result<Answer<CatalogItem>, Failure> {
    if request.catalog_id.is_none() && !app.identity.may(Scope::CatalogRead) {
        let text =
            "a worker reads the definitions that its commands name by catalog_id, and no others";
        return Err(Failure::new(ErrorCode::Forbidden, text));
    }
    Ok(Answer(app.runtime.catalog_item(request).await?))
}
