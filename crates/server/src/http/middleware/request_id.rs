//! Request ids, which connect a response with the log lines of its request.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Header with the request id.
pub(in crate::http) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const MAX_REQUEST_ID_BYTES: usize = 128;

/// Assigns ids to requests that come without one.
#[derive(Debug)]
pub(in crate::http) struct RequestIdGenerator {
    /// Random prefix that distinguishes the ids of this process from those of others.
    process_prefix: u64,
    count: AtomicU64,
}

impl RequestIdGenerator {
    pub(in crate::http) fn new() -> Self {
        let mut bytes = [0; 8];
        // Without random bytes, two processes may assign the same ids. This only makes logs
        // ambiguous.
        let _ = getrandom::fill(&mut bytes);
        Self { process_prefix: u64::from_be_bytes(bytes), count: AtomicU64::new(0) }
    }

    /// Returns the id that the client sent, or a new one if it is missing or unsafe to log.
    pub(in crate::http) fn id_for_request(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(sent) if is_loggable_id(sent) => sent.clone(),
            Some(_) | None => self.next_id(),
        }
    }

    fn next_id(&self) -> HeaderValue {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:016x}-{count:x}", self.process_prefix);
        HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("unnamed"))
    }
}

fn is_loggable_id(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=MAX_REQUEST_ID_BYTES).contains(&bytes.len())
        && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

#[cfg(test)]
mod tests;
