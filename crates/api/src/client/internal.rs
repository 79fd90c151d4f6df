//! Client calls of operators and publishers. They require a token for the internal API.

use noetl_types::{OutboxId, QuarantineId};

use super::Client;
use super::call::{client_calls, page_after, with_query};
use crate::error::ApiError;
use crate::internal::{
    MarkFailedRequest, MarkFailedResponse, MarkPublishedRequest, MarkPublishedResponse,
    OutboxChangeResponse, OutboxClaimRequest, OutboxClaimResponse, OutboxIds, OutboxList,
    PendingCount, PurgeRequest, PurgeResponse, QuarantineList,
};
use crate::paths;
use crate::secret_audit::{SecretAuditQuery, SecretAuditResponse};

/// Maximum duration of a purge, which works in small steps.
const PURGE_TIMEOUT_MS: u64 = 30 * 60_000;

client_calls! {
    /// Claims rows of the outbox.
    claim_outbox = post OUTBOX_CLAIM (OutboxClaimRequest) -> OutboxClaimResponse;
    /// Marks outbox rows as published.
    mark_published = post OUTBOX_MARK_PUBLISHED (MarkPublishedRequest) -> MarkPublishedResponse;
    /// Marks an outbox row as failed.
    mark_failed = post OUTBOX_MARK_FAILED (MarkFailedRequest) -> MarkFailedResponse;
    /// Returns the number of claimable outbox rows.
    count_pending_outbox = get OUTBOX_PENDING_COUNT -> PendingCount;
    /// Publishes dead outbox rows again.
    replay_outbox = post OUTBOX_REPLAY (OutboxIds) -> OutboxChangeResponse;
    /// Discards dead outbox rows.
    discard_outbox = post OUTBOX_DISCARD (OutboxIds) -> OutboxChangeResponse;
    /// Returns operations on secrets, newest first.
    list_secret_audit = get SECRET_AUDIT (SecretAuditQuery) -> SecretAuditResponse;
}

impl Client {
    /// Returns a page of the outbox.
    pub async fn list_outbox(
        &self,
        status: Option<&str>,
        after: Option<OutboxId>,
        limit: u32,
    ) -> Result<OutboxList, ApiError> {
        let pairs = page_after(limit, after, status.map(|status| ("status", status)));
        self.get(with_query(self.url(paths::OUTBOX)?, pairs)).await
    }

    /// Returns a page of the quarantine.
    pub async fn list_quarantine(
        &self,
        source: Option<&str>,
        after: Option<QuarantineId>,
        limit: u32,
    ) -> Result<QuarantineList, ApiError> {
        let pairs = page_after(limit, after, source.map(|source| ("source", source)));
        self.get(with_query(self.url(paths::QUARANTINE)?, pairs)).await
    }

    /// Deletes expired data, or reports what would be deleted.
    pub async fn purge_expired(&self, request: &PurgeRequest) -> Result<PurgeResponse, ApiError> {
        self.post(self.url(paths::CLEANUP_PURGE)?, request, PURGE_TIMEOUT_MS).await
    }
}
