//! What operators and publishers ask of a server. The client's token has to be that of the internal API.

use noetl_types::{OutboxId, QuarantineId};

use super::Client;
use super::user::{pairs, with_query};
use crate::error::ApiError;
use crate::internal::{
    MarkFailedAnswer, MarkFailedRequest, MarkPublishedAnswer, MarkPublishedRequest, OutboxChanged,
    OutboxClaimAnswer, OutboxClaimRequest, OutboxIds, OutboxList, PendingCount, PurgeAnswer,
    PurgeRequest, QuarantineList,
};
use crate::paths;
use crate::secret_audit::{SecretAuditQuery, SecretAuditRows};

/// How long a purge may take; it works in small steps.
const PURGE_MS: u64 = 30 * 60_000;

impl Client {
    /// Takes rows of the outbox.
    pub async fn claim_outbox(
        &self,
        request: &OutboxClaimRequest,
    ) -> Result<OutboxClaimAnswer, ApiError> {
        self.post(self.url(paths::OUTBOX_CLAIM)?, request, 0).await
    }

    /// Rows of the outbox are out.
    pub async fn mark_published(
        &self,
        request: &MarkPublishedRequest,
    ) -> Result<MarkPublishedAnswer, ApiError> {
        let url = self.url(paths::OUTBOX_MARK_PUBLISHED)?;
        self.post(url, request, 0).await
    }

    /// A row of the outbox could not be published.
    pub async fn mark_failed(
        &self,
        request: &MarkFailedRequest,
    ) -> Result<MarkFailedAnswer, ApiError> {
        let url = self.url(paths::OUTBOX_MARK_FAILED)?;
        self.post(url, request, 0).await
    }

    /// How many rows of the outbox could be taken.
    pub async fn outbox_pending(&self) -> Result<PendingCount, ApiError> {
        self.get(self.url(paths::OUTBOX_PENDING_COUNT)?).await
    }

    /// A page of the outbox.
    pub async fn outbox(
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

    /// Sends dead rows out again.
    pub async fn replay_outbox(&self, rows: &OutboxIds) -> Result<OutboxChanged, ApiError> {
        self.post(self.url(paths::OUTBOX_REPLAY)?, rows, 0).await
    }

    /// Gives dead rows up.
    pub async fn discard_outbox(&self, rows: &OutboxIds) -> Result<OutboxChanged, ApiError> {
        self.post(self.url(paths::OUTBOX_DISCARD)?, rows, 0).await
    }

    /// A page of what was refused while its neighbours went on.
    pub async fn quarantine(
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

    /// What was done to secrets, newest first.
    pub async fn secret_audit(
        &self,
        query: &SecretAuditQuery,
    ) -> Result<SecretAuditRows, ApiError> {
        let url = with_query(self.url(paths::SECRET_AUDIT)?, pairs(query)?);
        self.get(url).await
    }

    /// Drops what is old, or tells what would go.
    pub async fn purge(&self, request: &PurgeRequest) -> Result<PurgeAnswer, ApiError> {
        self.post(self.url(paths::CLEANUP_PURGE)?, request, PURGE_MS)
            .await
    }
}
