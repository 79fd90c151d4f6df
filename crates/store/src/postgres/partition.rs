//! Monthly partitions of the log, created in advance and on demand.

use noetl_types::{Month, Text, Timestamp};
use tokio_postgres::{Client, GenericClient};

use super::bind::to_store_error;
use super::open::TABLES_LOCK;
use super::privileges;
use super::table_owner::TableOwner;
use crate::error::StoreError;
use crate::model::LogPartition;

const EXISTS_OR_DROPPED: &str = "SELECT to_regclass($1) IS NOT NULL
    OR EXISTS (SELECT FROM retention_range WHERE lo <= $2 AND $3 <= hi)";

/// True if the partition of a month exists or was dropped.
async fn exists_or_dropped(
    client: &impl GenericClient,
    partition: &LogPartition,
) -> Result<bool, StoreError> {
    let name = partition.name.as_str();
    let row = client
        .query_one(EXISTS_OR_DROPPED, &[&name, &partition.first_id, &partition.end_id])
        .await
        .map_err(to_store_error)?;
    Ok(row.get(0))
}

/// Creates the partition of a month, unless it exists or was dropped. Needs a connection of the
/// owner.
///
/// The table is created first and attached afterwards. Creating it as a partition would lock the
/// log against all readers and writers.
pub(super) async fn ensure_partition(
    client: &mut Client,
    owner: &TableOwner,
    month: Month,
) -> Result<(), StoreError> {
    let partition = LogPartition::for_month(month);
    let transaction = client.transaction().await.map_err(to_store_error)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(to_store_error)?;
    if !exists_or_dropped(&transaction, &partition).await? {
        let LogPartition { name, first_id: lo, end_id: hi, .. } = partition;
        let create = format!(
            "CREATE TABLE {name} (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
             ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ({lo}) TO ({hi})"
        );
        transaction.batch_execute(&create).await.map_err(to_store_error)?;
        if let Some(server) = owner.server_role() {
            privileges::sync_privileges(&transaction, server).await?;
        }
    }
    transaction.commit().await.map_err(to_store_error)
}

/// Returns the current month and a number of months after it.
fn months_from(now: Timestamp, months_ahead: u32) -> impl Iterator<Item = Month> {
    let next = |month: &Month| Some(month.next());
    let count = usize::try_from(months_ahead).unwrap_or(usize::MAX);
    std::iter::successors(Some(Month::from_timestamp(now)), next).take(count.saturating_add(1))
}

/// Creates the partitions of the current month and a number of months after it. Needs a connection
/// of the owner.
pub(super) async fn ensure_partitions_ahead(
    client: &mut Client,
    owner: &TableOwner,
    now: Timestamp,
    months_ahead: u32,
) -> Result<(), StoreError> {
    for month in months_from(now, months_ahead) {
        ensure_partition(client, owner, month).await?;
    }
    Ok(())
}

/// Returns true if the partitions of the current month and a number of months after it exist. Any
/// role may check this.
pub(super) async fn has_partitions_ahead(
    client: &impl GenericClient,
    now: Timestamp,
    months_ahead: u32,
) -> Result<bool, StoreError> {
    for month in months_from(now, months_ahead) {
        if !exists_or_dropped(client, &LogPartition::for_month(month)).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

const LIST_PARTITIONS: &str =
    "SELECT child.relname, pg_get_expr(child.relpartbound, child.oid), child.oid
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'event'::regclass
    ORDER BY child.relname";

/// Returns the partitions of the log, sorted by their end. The default partition and partitions
/// without an upper bound are not included.
pub(super) async fn list_partitions(
    client: &impl GenericClient,
) -> Result<Vec<LogPartition>, StoreError> {
    let rows = client.query(LIST_PARTITIONS, &[]).await.map_err(to_store_error)?;
    let mut partitions: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            // A partition that is being dropped is still listed, but has no bounds.
            let (lo, hi) = parse_bounds(row.get::<_, Option<&str>>(1)?)?;
            Some(LogPartition {
                name: Text::from(row.get::<_, &str>(0)),
                first_id: lo,
                end_id: hi,
                table_oid: Some(row.get(2)),
            })
        })
        .collect();
    partitions.sort_by_key(|partition| partition.end_id);
    Ok(partitions)
}

/// Parses bounds of the form `FOR VALUES FROM ('1') TO ('2')`.
fn parse_bounds(text: &str) -> Option<(i64, i64)> {
    let rest = text.strip_prefix("FOR VALUES FROM (")?;
    let (lo, hi) = rest.strip_suffix(')')?.split_once(") TO (")?;
    let number = |text: &str| text.trim_matches('\'').parse::<i64>().ok();
    let lo = if lo == "MINVALUE" { Some(0) } else { number(lo) };
    Some((lo?.max(0), number(hi)?))
}

#[cfg(test)]
mod tests;
