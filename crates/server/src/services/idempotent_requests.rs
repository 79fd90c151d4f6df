//! Requests that take effect once, identified by a key that their sender chose.
//!
//! A request is admitted before it is processed, and completed with its answer. If a server fails
//! in between, the request stays in progress until its short lease has expired, or until the only
//! server of the store is started again. Then a repeated request continues it under the same work id,
//! which identifies the parts that are already done.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use noetl_store::{RequestKey, RequestOutcome, RequestReservation, ReserveOutcome};
use noetl_types::{Digest, EventId, Millis, Text};

use crate::access::CallContext;
use crate::error::{Result, error_chain};
use crate::services::Infrastructure;
use crate::services::executions::dedup_keys::{IDEMPOTENCY_KEY_TTL, hash_idempotency_key};

/// Lease of a request, which the server renews while it processes the request. If the server is
/// suspended for longer, the same request is processed twice concurrently, under one work id.
const REQUEST_LEASE: Millis = Millis::from_secs(10);
const REQUEST_LEASE_RENEW_INTERVAL: Duration = Duration::from_secs(3);

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

/// Requests with an idempotency key.
pub(crate) struct IdempotentRequests {
    pub(crate) infra: Arc<Infrastructure>,
}

impl IdempotentRequests {
    /// Admits a request, unless it is in progress or completed.
    pub(crate) async fn admit_request(
        &self,
        ctx: &CallContext,
        route: Text,
        key: &str,
        body_sha256: Digest,
    ) -> Result<RequestAdmission> {
        let (now, work_id) = (self.infra.now(), self.infra.mint_id()?);
        let key = RequestKey {
            tenant_id: ctx.tenant().clone(),
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
        Ok(match self.infra.store().reserve_request(reservation).await? {
            ReserveOutcome::Reserved(work_id) => {
                RequestAdmission::New(ActiveRequest { key, work_id })
            }
            known => RequestAdmission::Known(known),
        })
    }

    /// Renews the lease of a request until the future is dropped.
    pub(crate) async fn renew_reservation(&self, request: &ActiveRequest) -> Infallible {
        loop {
            tokio::time::sleep(REQUEST_LEASE_RENEW_INTERVAL).await;
            let retry_at = self.infra.now().saturating_add(REQUEST_LEASE);
            self.complete_request(request.clone(), RequestOutcome::Unknown { retry_at }).await;
        }
    }

    /// Releases the requests that an earlier process has left, if this one uses the store alone.
    pub(crate) async fn release_abandoned_requests(&self) -> Result<()> {
        if !self.infra.clock.is_database_clock() {
            self.infra.store().release_requests(self.infra.now()).await?;
        }
        Ok(())
    }

    /// Stores the answer of a request. If that fails, the request stays in progress until another
    /// server takes it over.
    pub(crate) async fn complete_request(&self, request: ActiveRequest, outcome: RequestOutcome) {
        let completed = self.infra.store().complete_request(request.key, request.work_id, outcome);
        if let Err(error) = completed.await {
            tracing::warn!(error = %error_chain(&error), "the answer of a request was not stored");
        }
    }
}
