//! Which cluster the log lives in, and which past of it.
//!
//! A cluster has an identifier for all of its life. Its timeline changes whenever it goes on from an
//! earlier point than it had come to: after a restore to a point in time, and when a standby takes over.
//! Both are remembered beside the log, so that a log that finds itself elsewhere knows it even where its
//! transactions look like those of its new place.

use tokio_postgres::Transaction;

use super::query::rows;
use crate::error::StoreError;

/// Where the identifier is remembered, whether it may be asked for, and how.
const IDENTITY: &str = "cluster";
const MAY_ASK: &str = "SELECT has_function_privilege('pg_control_system()', 'execute')";
const ASK_IDENTITY: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// The timeline that is written now: that of the control file may be older by a checkpoint.
const TIMELINE: &str = "timeline";
const ASK_TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// Whether the log has come here from elsewhere since somebody last looked. From now on it is here.
pub(super) async fn is_another(transaction: &Transaction<'_>) -> Result<bool, StoreError> {
    let may_ask = rows(transaction, MAY_ASK, &[]).await?;
    let mut is_another = false;
    if may_ask.first().is_some_and(|row| row.get(0)) {
        is_another |= differs(transaction, IDENTITY, ASK_IDENTITY).await?;
    }
    is_another |= differs(transaction, TIMELINE, ASK_TIMELINE).await?;
    Ok(is_another)
}

/// Whether something is not what is remembered of it; where nothing is, nobody has looked before.
async fn differs(transaction: &Transaction<'_>, key: &str, ask: &str) -> Result<bool, StoreError> {
    let found = rows(transaction, ask, &[]).await?;
    let Some(here) = found.first().map(|row| row.get::<_, String>(0)) else {
        return Ok(false);
    };
    let known = "SELECT value FROM meta WHERE key = $1";
    let known = rows(transaction, known, &[&key]).await?;
    let known = known.first().map(|row| row.get::<_, String>(0));
    if known.as_deref() == Some(&*here) {
        return Ok(false);
    }
    let remember = "INSERT INTO meta (key, value) VALUES ($1, $2)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    rows(transaction, remember, &[&key, &here]).await?;
    Ok(known.is_some())
}
