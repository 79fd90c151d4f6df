//! Requests in progress under an idempotency key.
//!
//! If a request takes effect in one append, its idempotency record is part of that append. Every
//! other request is reserved before the work and completed afterwards. A second request with the
//! same key then waits, gets the response, or takes over from a server that has crashed.

use noetl_types::{Digest, EventId, TenantId, Text, Timestamp};

use super::dedup::AnsweredRequest;

/// Scope and digest of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    pub tenant_id: TenantId,
    /// Route of the request.
    pub route: Text,
    /// Digest of the idempotency key.
    pub key_sha256: Digest,
}

/// Reservation of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestReservation {
    pub key: RequestKey,
    /// Digest of the request body.
    pub body_sha256: Digest,
    /// Id for the effects of the request. A retry after an unknown outcome keeps the id of the
    /// first attempt.
    pub work_id: EventId,
    pub now: Timestamp,
    /// Time until which no other caller may work on it.
    pub until: Timestamp,
    /// Time from which the key may be reused.
    pub expires_at: Timestamp,
}

/// Outcome of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The caller may work on the request, under this id.
    Reserved(EventId),
    /// Another caller works on it.
    InProgress,
    /// The request has a response.
    Answered(Box<AnsweredRequest>),
    /// The key was used for another request.
    Mismatch,
}

/// Outcome of the work on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request took effect.
    Answered {
        /// Response status.
        status: u16,
        /// Response body as sent.
        answer: Text,
    },
    /// The request was rejected and changed nothing. Its key is free again.
    Refused,
    /// The outcome is unknown. The same request may be retried under the same id from a time on.
    Unknown { retry_at: Timestamp },
}
