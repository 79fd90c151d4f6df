//! Command tokens in the path: `/w/<command token>/api/…` is handled as `/api/…`.
//!
//! The token is removed from the request before any other code reads the path, so that it cannot
//! appear in logs, audit records, metrics or errors.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::AUTHORIZATION;
use axum::http::uri::PathAndQuery;

use super::identity::PresentedToken;

/// Prefix of a path with a command token.
const COMMAND_TOKEN_PREFIX: &str = "/w/";
/// Replaces paths outside of the API. No route has this path.
const UNROUTED_PATH: &str = "/w";

/// Removes the command token from the path of a request.
///
/// The command token alone decides about access: an `Authorization` header is removed too.
pub(in crate::http) fn take_command_token(request: &mut Request<Body>) -> Option<PresentedToken> {
    let (token, rest) = split_command_token(request.uri())?;
    *request.uri_mut() = rest;
    request.headers_mut().remove(AUTHORIZATION);
    Some(token)
}

fn split_command_token(uri: &Uri) -> Option<(PresentedToken, Uri)> {
    let path = uri.path().strip_prefix(COMMAND_TOKEN_PREFIX)?;
    let end = path.find('/').unwrap_or(path.len());
    let (token, rest) = path.split_at(end);
    let rest = if rest.starts_with("/api/") { rest } else { UNROUTED_PATH };
    let rest = match uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    // The path is part of a valid URI, so it is valid.
    parts.path_and_query = PathAndQuery::try_from(rest).ok();
    let rest = Uri::from_parts(parts).unwrap_or(Uri::from_static(UNROUTED_PATH));
    Some((PresentedToken::new(token), rest))
}

#[cfg(test)]
mod tests;
