//! [`OutboxQueue`] in PostgreSQL.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{OutboxId, Timestamp};

use super::PostgresStore;
use super::bind::{Param, row_cells};
use super::pool::PooledConnection;
use crate::error::StoreError;
use crate::model::{ClaimedBatch, ClaimedMessage, MAX_CLAIM_BYTES, OutboxClaim, OutboxMark};
use crate::outbox::OutboxQueue;
use crate::row::{
    CLAIMED_OUTBOX, CorruptRow, EVENT_BODY, FromRow as _, INVALID_ATTEMPTS_ERROR,
    MAX_REPAIRED_ATTEMPTS, ToCell as _,
};

pub(super) static CLAIM_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let max = u32::MAX;
    let tries = format!(
        "CASE WHEN attempts >= 0 AND attempts < {max} AND forgiven BETWEEN 0 AND {max}
             THEN attempts - forgiven END"
    );
    let repaired = |count: &str| {
        format!(
            "CASE WHEN {count} < {max} THEN greatest({count}, 0) ELSE {MAX_REPAIRED_ATTEMPTS} END"
        )
    };
    include_str!("sql/claim_outbox.sql")
        .replace("{tries}", &tries)
        .replace("{attempts}", &repaired("outbox.attempts"))
        .replace("{forgiven}", &repaired("outbox.forgiven"))
        .replace("{no_counts}", INVALID_ATTEMPTS_ERROR)
        .replace("{claimed_columns}", &CLAIMED_OUTBOX.prefixed_column_list("outbox."))
        .replace("{taken_columns}", &CLAIMED_OUTBOX.prefixed_column_list("taken."))
        .replace("{event_columns}", &EVENT_BODY.prefixed_column_list("event."))
});

/// Marks rows as published. Rows are found by key and locked in the order of their ids, so that
/// statements do not deadlock: the session settings exclude joins that would lock them in another
/// order. The status is compared through `left()`, since the planner would otherwise scan the whole
/// index of rows in flight for each mark, including its dead entries since the last vacuum.
pub(super) const MARK_PUBLISHED: &str = "UPDATE outbox
    SET status = 'PUBLISHED', published_at = $3::timestamptz, last_error = NULL,
        lease_until = NULL, updated_at = $3::timestamptz
    FROM (
        SELECT outbox_id, attempts
        FROM unnest($1::bigint[], $2::bigint[]) AS given (outbox_id, attempts)
        ORDER BY outbox_id
    ) AS mark
    WHERE outbox.outbox_id = mark.outbox_id AND left(outbox.status, 9) = 'IN_FLIGHT'
        AND (mark.attempts IS NULL OR mark.attempts = outbox.attempts)";

/// Marks a claimed row that cannot be read as dead. The row was not delivered, so its attempt is
/// not counted.
const MARK_UNREADABLE: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = $3::timestamptz, lease_until = NULL, attempts = attempts - 1,
        last_error = $4::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint";

async fn mark_unreadable(
    client: &mut PooledConnection<'_>,
    row: &tokio_postgres::Row,
    corrupt: &CorruptRow,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (id, attempts): (i64, i64) = (row.get(0), row.get(CLAIMED_OUTBOX.columns.len() - 1));
    let error = corrupt.message_with_cause();
    let params: [Param<'_>; 4] = [&id, &attempts, &now.to_cell(), &error.as_str()];
    client.execute(MARK_UNREADABLE, &params).await.map(drop)
}

#[async_trait]
impl OutboxQueue for PostgresStore {
    /// Claims due rows. An unreadable row is marked dead with the reason as its error, so that it
    /// does not block the others. If marking it fails, the other rows are still returned, and the
    /// row is claimed again after its lease expires.
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 6] = [
            &claim.now.to_cell(),
            &i64::from(claim.limit.get()),
            &i64::try_from(MAX_CLAIM_BYTES).unwrap_or(i64::MAX),
            &claim.owner.as_str(),
            &claim.lease_until.to_cell(),
            &i64::from(claim.max_attempts),
        ];
        let rows = client.query_rows(&CLAIM_OUTBOX, &params).await?;
        let mut claimed = ClaimedBatch::default();
        for row in &rows {
            let is_dead: bool = row.get(row.len() - 1);
            if !is_dead {
                match ClaimedMessage::from_row(row_cells(row, 0, row.len())) {
                    Ok(message) => {
                        claimed.rows.push(message);
                        continue;
                    }
                    Err(corrupt) => {
                        let marked = mark_unreadable(&mut client, row, &corrupt, claim.now).await;
                        if marked.is_err() {
                            continue;
                        }
                    }
                }
            }
            claimed.dead.extend(OutboxId::new(row.get(0)));
        }
        Ok(claimed)
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut client = self.pool.acquire().await?;
        let ids: Vec<_> = marks.iter().map(|mark| mark.outbox_id.get()).collect();
        let attempts: Vec<_> = marks.iter().map(|mark| mark.attempts.map(i64::from)).collect();
        let params: [Param<'_>; 3] = [&ids, &attempts, &now.to_cell()];
        client.execute(MARK_PUBLISHED, &params).await
    }
}
