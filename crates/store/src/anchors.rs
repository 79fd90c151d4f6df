//! The chain of anchors, and the heads that it records.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ChainHash, Digest, ExecutionId, FeedPosition, Seq, TenantId, Text};

use crate::error::StoreError;
use crate::model::{AnchorRow, AuditHead, ChangedExecutions, DroppedRange};
use crate::row::{ANCHOR, ToRow as _, cells};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] for the chain of anchors. Its rows are never changed or deleted.
#[async_trait]
pub trait AnchorStore {
    /// Appends an anchor durably. Returns `false` if another process has appended one with its
    /// number.
    async fn append_anchor(&self, anchor: AnchorRow) -> Result<bool, StoreError>;

    /// Returns the newest anchor.
    async fn newest_anchor(&self) -> Result<Option<AnchorRow>, StoreError>;

    /// Returns the anchors after a number, in order.
    async fn list_anchors(
        &self,
        after: i64,
        limit: PageLimit,
    ) -> Result<Vec<AnchorRow>, StoreError>;

    /// Returns the executions of the settled events after a position of the feed, each once.
    async fn list_changed_executions(
        &self,
        after: FeedPosition,
        limit: PageLimit,
    ) -> Result<ChangedExecutions, StoreError>;

    /// Returns the link of an event, if it exists.
    async fn find_chain_link(
        &self,
        execution_id: ExecutionId,
        seq: Seq,
    ) -> Result<Option<ChainHash>, StoreError>;

    /// Returns the newest entry of the audit log of each tenant after one, in the order of their
    /// names.
    async fn list_audit_heads(
        &self,
        after: Option<&TenantId>,
        limit: PageLimit,
    ) -> Result<Vec<AuditHead>, StoreError>;

    /// Returns the link of an entry of a tenant's audit log, if it exists.
    async fn find_audit_link(
        &self,
        tenant_id: &TenantId,
        seq: i64,
    ) -> Result<Option<Digest>, StoreError>;

    /// Returns the ranges of execution ids that retention dropped, in order.
    async fn list_dropped_ranges(&self) -> Result<Vec<DroppedRange>, StoreError>;
}

static INSERT_ANCHOR: Statement = Statement::insert(&ANCHOR, "ON CONFLICT DO NOTHING");

static NEWEST_ANCHOR: Statement = Statement::select(&ANCHOR, "ORDER BY anchor_id DESC LIMIT 1");

static LIST_ANCHORS: Statement =
    Statement::select(&ANCHOR, "WHERE anchor_id > $1::bigint ORDER BY anchor_id LIMIT $2::bigint");

/// Rows up to the base belong to earlier log epochs, and count as written by transaction 0.
static CHANGED_EXECUTIONS: Statement = Statement::per_database(
    "WITH feed_base (position) AS (
         SELECT coalesce((SELECT value::bigint FROM meta WHERE key = 'feed_base'), 0)
     )
     (
         SELECT execution_id, '0', position FROM event
         WHERE $1 = '0' AND position > $2::bigint
             AND position <= (SELECT position FROM feed_base)
         ORDER BY position LIMIT $3::bigint
     )
     UNION ALL
     (
         SELECT execution_id, tx::text, position FROM event
         WHERE (tx, position) > ($1::text::xid8, $2::bigint)
             AND position > (SELECT position FROM feed_base)
             AND tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx, position LIMIT $3::bigint
     )
     LIMIT $3::bigint",
    "SELECT execution_id, ?1, position FROM event WHERE position > ?2 ORDER BY position LIMIT ?3",
)
.with_auto_plan();

static FIND_CHAIN_LINK: Statement =
    Statement::new("SELECT chain FROM event WHERE execution_id = $1 AND seq = $2::bigint");

/// Finds each tenant with one step through the index.
static LIST_AUDIT_HEADS: Statement = Statement::new(
    "WITH RECURSIVE owner (id) AS (
         SELECT min(tenant_id) FROM audit WHERE tenant_id > $1
         UNION ALL
         SELECT (SELECT min(tenant_id) FROM audit WHERE tenant_id > owner.id)
         FROM owner WHERE owner.id IS NOT NULL
     ),
     page (id) AS (SELECT id FROM owner WHERE id IS NOT NULL LIMIT $2::bigint)
     SELECT tenant_id, seq, chain FROM page JOIN audit ON tenant_id = page.id
         AND seq = (SELECT max(newest.seq) FROM audit AS newest WHERE newest.tenant_id = page.id)
     ORDER BY tenant_id",
)
.with_auto_plan();

static FIND_AUDIT_LINK: Statement =
    Statement::new("SELECT chain FROM audit WHERE tenant_id = $1 AND seq = $2::bigint");

static LIST_DROPPED_RANGES: Statement =
    Statement::new("SELECT lo, hi FROM retention_range ORDER BY lo");

#[async_trait]
impl<D: Database> AnchorStore for D {
    async fn append_anchor(&self, anchor: AnchorRow) -> Result<bool, StoreError> {
        Ok(self.execute(Durability::Synced, &INSERT_ANCHOR, anchor.to_row()).await? > 0)
    }

    async fn newest_anchor(&self) -> Result<Option<AnchorRow>, StoreError> {
        self.query_first(&NEWEST_ANCHOR, vec![]).await
    }

    async fn list_anchors(
        &self,
        after: i64,
        limit: PageLimit,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        self.query(&LIST_ANCHORS, cells![after, limit]).await
    }

    async fn list_changed_executions(
        &self,
        after: FeedPosition,
        limit: PageLimit,
    ) -> Result<ChangedExecutions, StoreError> {
        let params = cells![Text::from(after.tx.to_string()), after.position, limit];
        let rows: Vec<(ExecutionId, Text, i64)> = self.query(&CHANGED_EXECUTIONS, params).await?;
        let last = rows.last().and_then(|(_, tx, position)| {
            Some(FeedPosition { tx: tx.parse().ok()?, position: *position })
        });
        let is_full = rows.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let mut execution_ids: Vec<_> = rows.into_iter().map(|(id, _, _)| id).collect();
        execution_ids.sort_unstable();
        execution_ids.dedup();
        Ok(ChangedExecutions { execution_ids, end: last.unwrap_or(after), is_full })
    }

    async fn find_chain_link(
        &self,
        execution_id: ExecutionId,
        seq: Seq,
    ) -> Result<Option<ChainHash>, StoreError> {
        let found = self.query_first(&FIND_CHAIN_LINK, cells![execution_id, seq]).await?;
        Ok(found.map(|(link,)| link))
    }

    async fn list_audit_heads(
        &self,
        after: Option<&TenantId>,
        limit: PageLimit,
    ) -> Result<Vec<AuditHead>, StoreError> {
        let after = after.map_or(Text::default(), |tenant_id| Text::from(tenant_id.as_str()));
        let rows = self.query(&LIST_AUDIT_HEADS, cells![after, limit]).await?;
        let to_head = |(tenant_id, seq, chain)| AuditHead { tenant_id, seq, chain };
        Ok(rows.into_iter().map(to_head).collect())
    }

    async fn find_audit_link(
        &self,
        tenant_id: &TenantId,
        seq: i64,
    ) -> Result<Option<Digest>, StoreError> {
        let found = self.query_first(&FIND_AUDIT_LINK, cells![tenant_id, seq]).await?;
        Ok(found.map(|(link,)| link))
    }

    async fn list_dropped_ranges(&self) -> Result<Vec<DroppedRange>, StoreError> {
        let ranges = self.query(&LIST_DROPPED_RANGES, vec![]).await?;
        let to_range = |(first_id, end_id)| DroppedRange { first_id, end_id };
        Ok(ranges.into_iter().map(to_range).collect())
    }
}
