//! Requests that are worked on under a key.
//!
//! Where a request has its effect in one append, its claim is part of that append. All others are
//! taken before they are worked on and settled afterwards, so that a second one with the same key
//! waits, hears the answer, or takes over from a server that is gone.

use noetl_types::{Digest, EventId, TenantId, Text, Timestamp};

use super::claim::Answered;

/// Where the key of a request is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// Whose request it is.
    pub tenant_id: TenantId,
    /// The route that it was sent to.
    pub route: Text,
    /// The digest of its key.
    pub key_sha256: Digest,
}

/// A request that somebody wants to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTake {
    /// Its key.
    pub key: RequestKey,
    /// The digest of what it asks for.
    pub body_sha256: Digest,
    /// An id for what follows from it. Another try after an unknown end has the id of the first one.
    pub work_id: EventId,
    /// When it came.
    pub now: Timestamp,
    /// Until when nobody else may try.
    pub until: Timestamp,
    /// From when on its key may be used for something else.
    pub expires_at: Timestamp,
}

/// What whoever wants to work on a request is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Go ahead, under this id.
    Yours(EventId),
    /// Somebody is at it.
    UnderWay,
    /// It was answered.
    Answered(Box<Answered>),
    /// The key was used for something else.
    Mismatch,
}

/// How work on a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// It had its effect, and this is its answer.
    Answered {
        /// The status.
        status: u16,
        /// The body, as it was written.
        answer: Text,
    },
    /// It was refused and has changed nothing, so its key is free again.
    Refused,
    /// Nobody knows; the same request may be tried again, under the same id.
    Unknown {
        /// When that was found out.
        now: Timestamp,
    },
}

/// A request that is being worked on, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) body_sha256: Digest,
    pub(crate) work_id: EventId,
    pub(crate) until: Timestamp,
    pub(crate) expires_at: Timestamp,
}
