//! Requests that take effect once, identified by a key that their sender chose.
//!
//! A request is admitted before it is processed, and completed with its answer. If a server fails
//! in between, the request stays in progress. A repeated request continues it after the lease has
//! expired, under the same work id. This id identifies the parts that are already done.

use noetl_store::{RequestKey, RequestOutcome, RequestReservation, ReserveOutcome};
use noetl_types::{Digest, EventId, Millis, Text};

use super::dedup_keys::{IDEMPOTENCY_KEY_TTL, hash_idempotency_key};
use super::{Runtime, RuntimeError, error_chain};

/// Lease of a request. It is longer than an answer normally takes. If one takes longer, the same
/// request is processed twice concurrently, under one work id.
const REQUEST_LEASE: Millis = Millis::from_secs(60);

/// A request that this server processes.
#[derive(Debug, Clone)]
pub(crate) struct ActiveRequest {
    key: RequestKey,
    pub(crate) work_id: EventId,
}

/// Outcome of the admission of a request with a key.
#[derive(Debug)]
pub(crate) enum RequestAdmission {
    /// The request must be processed and then completed.
    New(ActiveRequest),
    /// Another server processes the request, or it is completed. Never
    /// [`ReserveOutcome::Reserved`].
    Known(ReserveOutcome),
}

impl Runtime {
    /// Admits a request, unless it is in progress or completed.
    pub(crate) async fn admit_request(
        &self,
        route: Text,
        key: &str,
        body_sha256: Digest,
    ) -> Result<RequestAdmission, RuntimeError> {
        let (now, work_id) = (self.now(), self.mint_id()?);
        let key = RequestKey {
            tenant_id: self.tenant().clone(),
            route,
            key_sha256: hash_idempotency_key(key)?,
        };
        let reservation = RequestReservation {
            key: key.clone(),
            body_sha256,
            work_id,
            now,
            until: now.saturating_add(REQUEST_LEASE),
            expires_at: now.saturating_add(IDEMPOTENCY_KEY_TTL),
        };
        Ok(match self.store().reserve_request(reservation).await? {
            ReserveOutcome::Reserved(work_id) => {
                RequestAdmission::New(ActiveRequest { key, work_id })
            }
            known => RequestAdmission::Known(known),
        })
    }

    /// Stores the answer of a request. If that fails, the request stays in progress until another
    /// server takes it over.
    pub(crate) async fn complete_request(&self, request: ActiveRequest, outcome: RequestOutcome) {
        let completed = self.store().complete_request(request.key, request.work_id, outcome);
        if let Err(error) = completed.await {
            tracing::warn!(error = %error_chain(&error), "the answer of a request was not stored");
        }
    }
}
