//! The token of the internal API.
//!
//! Its owner acts for the platform: it publishes, copies and purges. Therefore only the digest of
//! the token is stored, and the comparison takes constant time.

use std::fmt;
use std::hint::black_box;

use axum::http::HeaderMap;
use noetl_types::{Digest, ErrorCode, sha256};

use super::identity::request_token;
use crate::http::http_error::HttpError;

/// Minimum length of a token that cannot be guessed.
const MIN_TOKEN_CHARS: usize = 16;

/// Digest of the token of the internal API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InternalToken {
    digest: Digest,
    is_short: bool,
}

impl InternalToken {
    /// Creates the digest of a token.
    pub fn new(token: &str) -> Self {
        Self { digest: sha256(token), is_short: token.chars().count() < MIN_TOKEN_CHARS }
    }

    /// True if the token is short enough to be guessed.
    pub fn is_short(self) -> bool {
        self.is_short
    }

    /// True if a text is the token. Compares complete digests, so the duration reveals neither the
    /// length of the token nor the position of a difference.
    fn matches_secret(self, guess: &str) -> bool {
        let guess = sha256(guess);
        let pairs = self.digest.as_bytes().iter().zip(guess.as_bytes());
        black_box(pairs.fold(0, |differences, (own, other)| differences | (own ^ other))) == 0
    }
}

/// Omits the digest.
impl fmt::Debug for InternalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InternalToken")
    }
}

/// Returns true if a request has the token. Fails if no token is configured.
pub(in crate::http) fn check_internal_token(
    token: Option<InternalToken>,
    headers: &HeaderMap,
) -> Result<bool, HttpError> {
    let Some(token) = token else {
        return Err(HttpError::new(
            ErrorCode::NotReady,
            "the internal API is disabled: start the server with NOETL_INTERNAL_API_TOKEN",
        ));
    };
    let presented = request_token(headers).ok().flatten();
    Ok(presented.is_some_and(|guess| token.matches_secret(guess.expose_secret())))
}

/// Creates the error for a request without the token.
pub(in crate::http) fn internal_token_required() -> HttpError {
    HttpError::new(
        ErrorCode::Forbidden,
        "this requires the token in NOETL_INTERNAL_API_TOKEN, an internal scope, or the scope admin of \
         the tenant default",
    )
}

#[cfg(test)]
mod tests;
