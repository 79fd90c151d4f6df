//! The token of the internal API.
//!
//! Whoever has it acts for the platform: it publishes, copies and purges. So it is not kept, only its
//! digest, and a guess learns nothing from how long the answer takes.

use std::fmt;
use std::hint::black_box;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Digest, ErrorCode, sha256};

use super::failure::Failure;

/// Characters of a token that nobody guesses.
const LONG_ENOUGH: usize = 16;

/// The token of the internal API, as far as it is needed to know it again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InternalToken {
    digest: Digest,
    is_short: bool,
}

impl InternalToken {
    /// The token of a text.
    pub fn new(token: &str) -> Self {
        Self {
            digest: sha256(token),
            is_short: token.chars().count() < LONG_ENOUGH,
        }
    }

    /// Whether it is so short that somebody might guess it.
    pub fn is_short(self) -> bool {
        self.is_short
    }

    /// Whether a text is the token. Digests are compared, whole: neither the length of the token nor
    /// the place of a difference shows.
    fn is(self, guess: &str) -> bool {
        let guess = sha256(guess);
        let pairs = self.digest.as_bytes().iter().zip(guess.as_bytes());
        black_box(pairs.fold(0, |differences, (own, other)| differences | (own ^ other))) == 0
    }
}

/// It shows nothing of itself.
impl fmt::Debug for InternalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InternalToken")
    }
}

/// Whether a request shows the token. Refuses everything while there is none.
pub(super) fn check(token: Option<InternalToken>, headers: &HeaderMap) -> Result<bool, Failure> {
    let Some(token) = token else {
        return Err(Failure::new(
            ErrorCode::NotReady,
            "the internal API is closed: start the server with NOETL_INTERNAL_API_TOKEN",
        ));
    };
    Ok(shown(headers).is_some_and(|guess| token.is(&guess)))
}

/// Who comes without the token, or with another one.
pub(super) fn refused() -> Failure {
    Failure::new(
        ErrorCode::Forbidden,
        "this needs the header Authorization: Bearer with the value of NOETL_INTERNAL_API_TOKEN",
    )
}

/// What a request shows: a bearer token, or the password of any user.
fn shown(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    pair.split_once(':')
        .map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn has(authorization: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        check(Some(InternalToken::new("open sesame")), &headers).unwrap()
    }

    #[test]
    fn the_token_is_shown_in_two_ways() {
        assert!(has(&["Bearer open sesame"]));
        assert!(has(&["bearer open sesame"]));
        // keda:open sesame
        assert!(has(&["Basic a2VkYTpvcGVuIHNlc2FtZQ=="]));
        for wrong in [
            "Bearer open sesam",
            "Bearer Open Sesame",
            "Bearer open sesame!",
            "Bearer",
            "Basic open sesame",
            "Basic b3BlbiBzZXNhbWU=",
            "open sesame",
            "",
        ] {
            assert!(!has(&[wrong]), "{wrong}");
        }
        assert!(!has(&[]));
        assert!(!has(&["Bearer open sesame", "Bearer open sesame"]));
    }

    #[test]
    fn a_token_shows_nothing_of_itself() {
        let token = InternalToken::new("open sesame");
        assert_eq!(format!("{token:?}"), "InternalToken");
        assert!(check(None, &HeaderMap::new()).is_err());
    }
}
