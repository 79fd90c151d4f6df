//! API tokens.

use noetl_api::paths;
use noetl_api::tokens::{CreateTokenRequest, CreatedToken, TokenList, TokenView};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, TokenId};

use super::{ADMIN, Route, delete, get, post};
use crate::http::authorized_runtime::AuthorizedRuntime;
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::{PathText, QueryParams};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::TOKENS, ADMIN, list_tokens),
        post(paths::TOKENS, ADMIN, create_token).audited(),
        delete(paths::TOKEN, ADMIN, revoke_token).audited(),
    ]
}

/// Lists the tokens of the tenant, without their secrets.
async fn list_tokens(
    AuthorizedRuntime(app): AuthorizedRuntime,
    mut params: QueryParams,
) -> Result<JsonResponse<TokenList>, HttpError> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text_param("cursor")?;
    params.reject_unknown()?;
    Ok(JsonResponse(app.runtime.list_tokens(limit, cursor).await?))
}

/// Creates a token. Only this response contains its secret.
async fn create_token(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(request): JsonBody<CreateTokenRequest>,
) -> Result<JsonResponse<CreatedToken>, HttpError> {
    let actor = app.identity.actor();
    Ok(JsonResponse(app.runtime.create_token(request, &actor).await?))
}

/// Revokes a token.
async fn revoke_token(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathText(id): PathText,
) -> Result<JsonResponse<TokenView>, HttpError> {
    let token_id: TokenId = id
        .parse()
        .map_err(|error| HttpError::new(ErrorCode::BadId, format!("invalid token id: {error}")))?;
    Ok(JsonResponse(app.runtime.revoke_token(token_id).await?))
}
