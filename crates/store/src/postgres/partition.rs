//! The parts of the log: months, made ahead of time and on demand.

use noetl_types::{Month, Text, Timestamp};
use tokio_postgres::{Client, GenericClient};

use super::bind::failure;
use super::open::TABLES_LOCK;
use super::owner::Owner;
use super::rights;
use crate::error::StoreError;
use crate::model::LogPart;

const NEEDS_NONE: &str = "SELECT to_regclass($1) IS NOT NULL
    OR EXISTS (SELECT FROM retention_range WHERE lo <= $2 AND $3 <= hi)";

/// Whether the partition of a month is there, or was dropped.
async fn needs_none(client: &impl GenericClient, part: &LogPart) -> Result<bool, StoreError> {
    let name = part.name.as_str();
    let row = client
        .query_one(NEEDS_NONE, &[&name, &part.lo, &part.hi])
        .await
        .map_err(failure)?;
    Ok(row.get(0))
}

/// Makes the partition of a month, unless it is there or was dropped; the connection is the owner's.
///
/// The table is made first and attached then: making it in place would lock the log against all
/// readers and writers.
pub(super) async fn ensure(
    client: &mut Client,
    owner: &Owner,
    month: Month,
) -> Result<(), StoreError> {
    let part = LogPart::of(month);
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    if !needs_none(&transaction, &part).await? {
        let LogPart { name, lo, hi, .. } = part;
        let make = format!(
            "CREATE TABLE {name} (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
             ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ({lo}) TO ({hi})"
        );
        transaction.batch_execute(&make).await.map_err(failure)?;
        if let Some(server) = owner.server() {
            rights::give(&transaction, server).await?;
        }
    }
    transaction.commit().await.map_err(failure)
}

/// The present month and so many behind it.
fn months((now, ahead): (Timestamp, u32)) -> impl Iterator<Item = Month> {
    let next = |month: &Month| Some(month.next());
    let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
    std::iter::successors(Some(Month::of(now)), next).take(ahead.saturating_add(1))
}

/// Makes the present month and so many behind it; the connection is the owner's.
pub(super) async fn ensure_ahead(
    client: &mut Client,
    owner: &Owner,
    ahead: (Timestamp, u32),
) -> Result<(), StoreError> {
    for month in months(ahead) {
        ensure(client, owner, month).await?;
    }
    Ok(())
}

/// Whether the present month and so many behind it are there, which anybody may ask.
pub(super) async fn has_ahead(
    client: &impl GenericClient,
    ahead: (Timestamp, u32),
) -> Result<bool, StoreError> {
    for month in months(ahead) {
        if !needs_none(client, &LogPart::of(month)).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

const PARTS: &str = "SELECT child.relname, pg_get_expr(child.relpartbound, child.oid), child.oid
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'event'::regclass
    ORDER BY child.relname";

/// The parts that the log has, by their ends. One that takes whatever fits nowhere else, or that
/// has no end, is none of them.
pub(super) async fn parts(client: &impl GenericClient) -> Result<Vec<LogPart>, StoreError> {
    let rows = client.query(PARTS, &[]).await.map_err(failure)?;
    let mut parts: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            // One that somebody drops at this moment is still listed, and has no bounds any more.
            let (lo, hi) = bounds(row.get::<_, Option<&str>>(1)?)?;
            Some(LogPart {
                name: Text::from(row.get::<_, &str>(0)),
                lo,
                hi,
                table: Some(row.get(2)),
            })
        })
        .collect();
    parts.sort_by_key(|part| part.hi);
    Ok(parts)
}

/// Reads `FOR VALUES FROM ('1') TO ('2')`.
fn bounds(text: &str) -> Option<(i64, i64)> {
    let rest = text.strip_prefix("FOR VALUES FROM (")?;
    let (lo, hi) = rest.strip_suffix(')')?.split_once(") TO (")?;
    let number = |text: &str| text.trim_matches('\'').parse::<i64>().ok();
    let lo = if lo == "MINVALUE" {
        Some(0)
    } else {
        number(lo)
    };
    Some((lo?.max(0), number(hi)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_others_never_match() {
        assert_eq!(bounds("FOR VALUES FROM ('5') TO ('9')"), Some((5, 9)));
        assert_eq!(bounds("FOR VALUES FROM (5) TO (9)"), Some((5, 9)));
        assert_eq!(bounds("FOR VALUES FROM (MINVALUE) TO ('9')"), Some((0, 9)));
        for never in [
            "DEFAULT",
            "FOR VALUES FROM ('5') TO (MAXVALUE)",
            "FOR VALUES FROM ('5') TO ('99999999999999999999')",
            "FOR VALUES IN (1, 2)",
            "FOR VALUES FROM ('5', '1') TO ('9', '1')",
            "",
        ] {
            assert_eq!(bounds(never), None, "{never}");
        }
    }
}
