//! The parts of the log: months, made ahead of time and on demand.

use noetl_types::{Month, Text, Timestamp};
use tokio_postgres::{Client, GenericClient};

use super::bind::failure;
use super::open::TABLES_LOCK;
use crate::error::StoreError;
use crate::model::LogPart;

/// Makes the partition of a month, unless it is there or was dropped.
///
/// The table is made first and attached then: making it in place would lock the log against all
/// readers and writers.
pub(super) async fn ensure(client: &mut Client, month: Month) -> Result<(), StoreError> {
    let LogPart { name, lo, hi } = LogPart::of(month);
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    let needs_none = "SELECT to_regclass($1) IS NOT NULL
        OR EXISTS (SELECT FROM retention_range WHERE lo <= $2 AND $3 <= hi)";
    let needs_none: bool = transaction
        .query_one(needs_none, &[&name.as_str(), &lo, &hi])
        .await
        .map_err(failure)?
        .get(0);
    if !needs_none {
        let make = format!(
            "CREATE TABLE {name} (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
             ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ({lo}) TO ({hi})"
        );
        transaction.batch_execute(&make).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)
}

/// Makes the present month and so many behind it.
pub(super) async fn ensure_ahead(
    client: &mut Client,
    now: Timestamp,
    ahead: u32,
) -> Result<(), StoreError> {
    let mut month = Month::of(now);
    for _ in 0..=ahead {
        ensure(client, month).await?;
        month = month.next();
    }
    Ok(())
}

const PARTS: &str = "SELECT child.relname, pg_get_expr(child.relpartbound, child.oid)
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
            let (lo, hi) = bounds(row.get(1))?;
            let name = Text::from(row.get::<_, &str>(0));
            Some(LogPart { name, lo, hi })
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
        let read = |text| bounds(text);
        assert_eq!(read("FOR VALUES FROM ('5') TO ('9')"), Some((5, 9)));
        assert_eq!(read("FOR VALUES FROM (5) TO (9)"), Some((5, 9)));
        assert_eq!(read("FOR VALUES FROM (MINVALUE) TO ('9')"), Some((0, 9)));
        for never in [
            "DEFAULT",
            "FOR VALUES FROM ('5') TO (MAXVALUE)",
            "FOR VALUES FROM ('5') TO ('99999999999999999999')",
            "FOR VALUES IN (1, 2)",
            "FOR VALUES FROM ('5', '1') TO ('9', '1')",
            "",
        ] {
            assert_eq!(read(never), None, "{never}");
        }
    }
}
