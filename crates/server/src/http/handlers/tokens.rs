//! Tokens: made, listed, taken back.

use noetl_api::tokens::{CreatedToken, NewToken, TokenList, TokenView};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, TokenId};

use crate::http::acting::For;
use crate::http::answer::Answer;
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{Params, TextOf};

/// The tokens of the tenant, without what they prove themselves by.
pub(in crate::http) async fn list(
    For(app): For,
    mut params: Params,
) -> Result<Answer<TokenList>, Failure> {
    let limit = params.page_limit("limit", PageLimit::default())?;
    let cursor = params.text("cursor")?;
    params.nothing_else()?;
    Ok(Answer(app.runtime.tokens(limit, cursor).await?))
}

/// Makes a token. It is shown in this answer and never again.
pub(in crate::http) async fn create(
    For(app): For,
    JsonBody(request): JsonBody<NewToken>,
) -> Result<Answer<CreatedToken>, Failure> {
    let actor = app.identity.actor();
    Ok(Answer(app.runtime.create_token(request, &actor).await?))
}

/// Takes a token back.
pub(in crate::http) async fn revoke(
    For(app): For,
    TextOf(id): TextOf,
) -> Result<Answer<TokenView>, Failure> {
    let token_id: TokenId = id.parse().map_err(|error| {
        Failure::new(ErrorCode::BadId, format!("not the id of a token: {error}"))
    })?;
    Ok(Answer(app.runtime.revoke_token(token_id).await?))
}
