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
mod tests {
    use super::*;

    fn split_uri(uri: &str) -> Option<(String, String)> {
        let (token, rest) = split_command_token(&uri.parse().unwrap())?;
        Some((token.expose_secret().to_owned(), rest.to_string()))
    }

    #[test]
    fn splits_command_token_from_api_path() {
        let split = |token: &str, rest: &str| Some((token.to_owned(), rest.to_owned()));
        assert_eq!(split_uri("/w/abc/api/events"), split("abc", "/api/events"));
        assert_eq!(split_uri("/w/abc/api/x?y=%2F&z"), split("abc", "/api/x?y=%2F&z"));
        assert_eq!(split_uri("/w//api/events"), split("", "/api/events"));
        assert_eq!(
            split_uri("http://host:1/w/abc/api/events"),
            split("abc", "http://host:1/api/events")
        );
    }

    #[test]
    fn other_paths_are_unrouted() {
        for rest in ["", "/", "/livez", "/api", "/noetl/events", "/w/x/api/events"] {
            let found = split_uri(&format!("/w/abc{rest}"));
            assert_eq!(found, Some(("abc".to_owned(), UNROUTED_PATH.to_owned())), "{rest}");
        }
        for other in ["/", "/w", "/api/w/abc/api/events", "/wx/abc/api/events"] {
            assert_eq!(split_uri(other), None, "{other}");
        }
    }
}
