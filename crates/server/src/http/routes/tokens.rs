//! API tokens.

use noetl_api::paths;
use noetl_api::tokens::{CreateTokenRequest, CreatedToken, TokenList, TokenView};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, TokenId};

use super::{ADMIN, Route, delete, get, handlers, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::{PathText, QueryParams};
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::TOKENS, ADMIN, list_tokens),
        post(paths::TOKENS, ADMIN, create_token).audited(),
        delete(paths::TOKEN, ADMIN, revoke_token).audited(),
    ]
}

/// Lists the tokens of the tenant, without their secrets.
async fn list_tokens(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<TokenList>, HttpError> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text_param("cursor")?;
    params.reject_unknown()?;
    Ok(JsonResponse(app.services.identities.list_tokens(&app.ctx, limit, cursor).await?))
}

/// Revokes a token.
async fn revoke_token(
    AuthorizedCall(app): AuthorizedCall,
    PathText(id): PathText,
) -> Result<JsonResponse<TokenView>, HttpError> {
    let token_id: TokenId = id
        .parse()
        .map_err(|error| HttpError::new(ErrorCode::BadId, format!("invalid token id: {error}")))?;
    Ok(JsonResponse(app.services.identities.revoke_token(&app.ctx, token_id).await?))
}

handlers! {
    /// Creates a token. Only this response contains its secret.
    create_token(app: AuthorizedCall, request: JsonBody<CreateTokenRequest>) -> CreatedToken =>
        app.services.identities.create_token(&app.ctx, request, &app.identity.actor());
}
