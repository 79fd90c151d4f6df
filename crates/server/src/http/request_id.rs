//! The name of a request, by which a client and the logs speak of the same one.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header that holds it.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const LONGEST: usize = 128;

/// Names requests that have no name yet.
#[derive(Debug)]
pub(super) struct RequestIds {
    /// Tells the requests of this process from those of others.
    process: u64,
    count: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        let mut bytes = [0; 8];
        // Without chance the names of two processes may meet, which only confuses a reader of logs.
        let _ = getrandom::fill(&mut bytes);
        Self {
            process: u64::from_be_bytes(bytes),
            count: AtomicU64::new(0),
        }
    }

    /// The name that the client gave, or a new one. A name that no log should hold is replaced.
    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(given) if is_fit(given) => given.clone(),
            Some(_) | None => self.next(),
        }
    }

    fn next(&self) -> HeaderValue {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:016x}-{count:x}", self.process);
        HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("unnamed"))
    }
}

fn is_fit(given: &HeaderValue) -> bool {
    let bytes = given.as_bytes();
    (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[u8]) -> HeaderValue {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(given).unwrap());
        RequestIds::new().of(&headers)
    }

    #[test]
    fn a_fit_name_is_kept() {
        for fit in ["x", "a b/c-1", &"n".repeat(128)] {
            assert_eq!(of(fit.as_bytes()), fit);
        }
    }

    #[test]
    fn an_unfit_name_is_replaced() {
        for unfit in [&b""[..], "ü".as_bytes(), b"a\tb", &[b'n'; 129]] {
            assert_ne!(of(unfit).as_bytes(), unfit);
        }
    }

    #[test]
    fn no_two_names_are_the_same() {
        let ids = RequestIds::new();
        let none = HeaderMap::new();
        assert_ne!(ids.of(&none), ids.of(&none));
    }
}
