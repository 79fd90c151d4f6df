//! Client calls of operators and publishers. They require a token for the internal API.

use noetl_types::{OutboxId, QuarantineId};

use super::Client;
use super::user::{to_query_pairs, with_query};
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

impl Client {
    /// Claims rows of the outbox.
    pub async fn claim_outbox(
        &self,
        request: &OutboxClaimRequest,
    ) -> Result<OutboxClaimResponse, ApiError> {
        self.post(self.url(paths::OUTBOX_CLAIM)?, request, 0).await
    }

    /// Marks outbox rows as published.
    pub async fn mark_published(
        &self,
        request: &MarkPublishedRequest,
    ) -> Result<MarkPublishedResponse, ApiError> {
        let url = self.url(paths::OUTBOX_MARK_PUBLISHED)?;
        self.post(url, request, 0).await
    }

    /// Marks an outbox row as failed.
    pub async fn mark_failed(
        &self,
        request: &MarkFailedRequest,
    ) -> Result<MarkFailedResponse, ApiError> {
        let url = self.url(paths::OUTBOX_MARK_FAILED)?;
        self.post(url, request, 0).await
    }

    /// Returns the number of claimable outbox rows.
    pub async fn count_pending_outbox(&self) -> Result<PendingCount, ApiError> {
        self.get(self.url(paths::OUTBOX_PENDING_COUNT)?).await
    }

    /// Returns a page of the outbox.
    pub async fn list_outbox(
        &self,
        status: Option<&str>,
        after: Option<OutboxId>,
        limit: u32,
    ) -> Result<OutboxList, ApiError> {
        let mut pairs = vec![("limit".to_owned(), limit.to_string())];
        pairs.extend(status.map(|status| ("status".to_owned(), status.to_owned())));
        pairs.extend(after.map(|after| ("after".to_owned(), after.to_string())));
        self.get(with_query(self.url(paths::OUTBOX)?, pairs)).await
    }

    /// Publishes dead outbox rows again.
    pub async fn replay_outbox(&self, rows: &OutboxIds) -> Result<OutboxChangeResponse, ApiError> {
        self.post(self.url(paths::OUTBOX_REPLAY)?, rows, 0).await
    }

    /// Discards dead outbox rows.
    pub async fn discard_outbox(&self, rows: &OutboxIds) -> Result<OutboxChangeResponse, ApiError> {
        self.post(self.url(paths::OUTBOX_DISCARD)?, rows, 0).await
    }

    /// Returns a page of the quarantine.
    pub async fn list_quarantine(
        &self,
        source: Option<&str>,
        after: Option<QuarantineId>,
        limit: u32,
    ) -> Result<QuarantineList, ApiError> {
        let mut pairs = vec![("limit".to_owned(), limit.to_string())];
        pairs.extend(source.map(|source| ("source".to_owned(), source.to_owned())));
        pairs.extend(after.map(|after| ("after".to_owned(), after.to_string())));
        let url = with_query(self.url(paths::QUARANTINE)?, pairs);
        self.get(url).await
    }

    /// Returns operations on secrets, newest first.
    pub async fn list_secret_audit(
        &self,
        query: &SecretAuditQuery,
    ) -> Result<SecretAuditResponse, ApiError> {
        let url = with_query(self.url(paths::SECRET_AUDIT)?, to_query_pairs(query)?);
        self.get(url).await
    }

    /// Deletes expired data, or reports what would be deleted.
    pub async fn purge_expired(&self, request: &PurgeRequest) -> Result<PurgeResponse, ApiError> {
        self.post(self.url(paths::CLEANUP_PURGE)?, request, PURGE_TIMEOUT_MS).await
    }
}
