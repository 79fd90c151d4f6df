//! Detects that the log was restored, or moved to another PostgreSQL cluster or timeline.
//!
//! A restore of a dump writes each row again, in a transaction of the restore. One row contains the
//! id of the transaction that wrote it, so it shows a restore into the same cluster too.
//!
//! The system identifier of a cluster never changes. Its timeline changes when it continues from an
//! earlier point: after a point-in-time restore, and when a standby is promoted. Both are stored
//! next to the log, so that a move is detected even if the transaction ids of the log look valid in
//! the new cluster.

use tokio_postgres::Transaction;

use super::bind::query_rows;
use crate::error::StoreError;

/// Key of the stored system identifier, and the statements to check access to it and to read it.
const IDENTITY_KEY: &str = "cluster";
const CAN_READ_IDENTITY: &str = "SELECT has_function_privilege('pg_control_system()', 'execute')";
const READ_IDENTITY: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// Key of the stored timeline, and the statement to read the one being written. The timeline in the
/// control file may be outdated by a checkpoint.
const TIMELINE_KEY: &str = "timeline";
const READ_TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// Key of the row whose value is the id of the transaction that wrote it, and the statements to
/// compare and to write it. Rows have the lower 32 bits of the id.
const WRITER_KEY: &str = "written_by";
const IS_REWRITTEN: &str =
    "SELECT xmin::text::bigint <> value::bigint % 4294967296 FROM meta WHERE key = $1";
const STORE_WRITER: &str = "INSERT INTO meta (key, value) VALUES ($1, pg_current_xact_id()::text)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// Returns true if the log was restored or moved since the last check. Stores what the next check
/// compares.
pub(super) async fn has_log_moved(transaction: &Transaction<'_>) -> Result<bool, StoreError> {
    let can_read = query_rows(transaction, CAN_READ_IDENTITY, &[]).await?;
    let mut has_moved = is_restored(transaction).await?;
    if can_read.first().is_some_and(|row| row.get(0)) {
        has_moved |= differs_from_stored(transaction, IDENTITY_KEY, READ_IDENTITY).await?;
    }
    has_moved |= differs_from_stored(transaction, TIMELINE_KEY, READ_TIMELINE).await?;
    Ok(has_moved)
}

/// Returns true if another transaction wrote the row of the writer than the one that it names.
async fn is_restored(transaction: &Transaction<'_>) -> Result<bool, StoreError> {
    let rows = query_rows(transaction, IS_REWRITTEN, &[&WRITER_KEY]).await?;
    let is_rewritten = rows.first().map(|row| row.get(0));
    if is_rewritten != Some(false) {
        query_rows(transaction, STORE_WRITER, &[&WRITER_KEY]).await?;
    }
    Ok(is_rewritten.unwrap_or(false))
}

/// Reads a value, stores it under a key, and returns true if another value was stored before.
async fn differs_from_stored(
    transaction: &Transaction<'_>,
    key: &str,
    sql: &str,
) -> Result<bool, StoreError> {
    let rows = query_rows(transaction, sql, &[]).await?;
    let Some(current) = rows.first().map(|row| row.get::<_, String>(0)) else {
        return Ok(false);
    };
    let stored = "SELECT value FROM meta WHERE key = $1";
    let stored = query_rows(transaction, stored, &[&key]).await?;
    let stored = stored.first().map(|row| row.get::<_, String>(0));
    if stored.as_deref() == Some(&*current) {
        return Ok(false);
    }
    let store = "INSERT INTO meta (key, value) VALUES ($1, $2)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    query_rows(transaction, store, &[&key, &current]).await?;
    Ok(stored.is_some())
}
