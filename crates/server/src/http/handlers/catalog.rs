//! Definitions.

use axum::Extension;
use axum::extract::State;
use noetl_api::catalog::{CatalogItem, RegisterAnswer, RegisterRequest, ResourceRequest};

use crate::http::access::{Caller, Scope};
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::routes::App;

/// Registers a definition, or only checks it.
pub(in crate::http) async fn register(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonBody(request): JsonBody<RegisterRequest>,
) -> Result<Answer<RegisterAnswer>, Failure> {
    let answer = if caller?.may(Scope::Admin) {
        app.runtime.register_any_definition(request).await?
    } else {
        app.runtime.register_definition(request).await?
    };
    Ok(Answer(answer))
}

/// A definition.
pub(in crate::http) async fn resource(
    State(app): State<App>,
    JsonBody(request): JsonBody<ResourceRequest>,
) -> Result<Answer<CatalogItem>, Failure> {
    Ok(Answer(app.runtime.catalog_item(request).await?))
}
