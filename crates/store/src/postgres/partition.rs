//! The months of the log.

use noetl_types::Month;
use noetl_types::id::first_id_at;
use tokio_postgres::Client;

use super::bind::failure;
use super::open::TABLES_LOCK;
use crate::error::StoreError;

/// Makes the partition of a month, unless it is there.
///
/// The table is made first and attached then: making it in place would lock the log against all
/// readers and writers.
pub(super) async fn ensure(client: &mut Client, month: Month) -> Result<(), StoreError> {
    let name = format!("event_y{:04}m{:02}", month.year(), month.month());
    let lo = first_id_at(month.first_instant().as_unix_ms());
    let hi = first_id_at(month.next().first_instant().as_unix_ms());
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    let is_there: bool = transaction
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&name])
        .await
        .map_err(failure)?
        .get(0);
    if !is_there {
        let make = format!(
            "CREATE TABLE {name} (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
             ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ({lo}) TO ({hi})"
        );
        transaction.batch_execute(&make).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)
}
