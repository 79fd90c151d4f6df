//! Reads the rows of a log that a replay needs.
//!
//! All rows that a statement returns cross the network, even if the client stops reading. So the
//! statements themselves respect the size limit of a page.

use std::sync::LazyLock;

use noetl_types::{ExecutionId, ExecutionVersion};
use tokio_postgres::Row;

use super::bind::{Param, row_cells};
use super::feed::column_bytes_sql;
use super::log;
use super::pool::ConnectionPool;
use crate::error::StoreError;
use crate::model::{LogPageLimit, PackedReplayRows, ReplayPage};
use crate::row;

/// SQL condition that is true if the metadata of an event may name a business object.
const MAY_NAME_OBJECT: &str = "meta::text LIKE '%object%'";

/// Selects events with their size in bytes.
static MEASURED_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let columns = row::replay_columns(MAY_NAME_OBJECT);
    let bytes = row::replay_bytes_expression(MAY_NAME_OBJECT, column_bytes_sql);
    format!(
        "SELECT {columns}, {bytes} AS bytes FROM event
         WHERE execution_id = $1 AND seq > $2 ORDER BY seq LIMIT $3::bigint"
    )
});

/// Selects events. Those over the size limit are flagged and returned without their large columns.
/// Most logs are read with this statement, which streams rows from the index without materializing
/// them.
pub(super) static SMALL_REPLAY_ROWS: LazyLock<String> = LazyLock::new(|| {
    let columns = row::replay_columns_where("bytes <= $4::bigint");
    let measured = &*MEASURED_EVENTS;
    format!("SELECT {columns}, bytes > $4::bigint FROM ({measured}) AS measured ORDER BY seq")
});

/// Selects events of any size until the events before them exceed the byte limit.
pub(super) static REPLAY_ROWS_OF_ANY_SIZE: LazyLock<String> = LazyLock::new(|| {
    let columns = row::replay_columns_where("true");
    let measured = &*MEASURED_EVENTS;
    format!(
        "SELECT {columns}, false FROM (
             SELECT *, sum(bytes) OVER (ORDER BY seq) - bytes AS bytes_before
             FROM ({measured}) AS measured
         ) AS bounded
         WHERE bytes_before < $4::bigint ORDER BY seq"
    )
});

pub(super) async fn read_replay_rows(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<ReplayPage, StoreError> {
    match read_current_rows(pool, execution_id, after, page).await? {
        Some(rows) => Ok(ReplayPage::Rows(rows)),
        None => log::read_events(pool, execution_id, after, page).await.map(ReplayPage::Events),
    }
}

/// Reason that a row cannot be added to a page.
enum RejectedRow {
    /// The row is over the size limit, so its large columns were not returned.
    TooLarge,
    /// The row does not have the current schema version.
    OldSchema,
}

/// Reads a page, or returns `None` if an event does not have the current schema version. Rows are
/// decoded as they arrive, while the server still produces the next ones.
async fn read_current_rows(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<Option<PackedReplayRows>, StoreError> {
    let mut client = pool.acquire().await?;
    let events = i64::from(page.get());
    let max_bytes = i64::try_from(row::MAX_REPLAY_PAGE_BYTES).unwrap_or(i64::MAX);
    // The requested number of events fits into a page if each has at most this size.
    for (sql, bytes) in
        [(&SMALL_REPLAY_ROWS, max_bytes / events), (&REPLAY_ROWS_OF_ANY_SIZE, max_bytes)]
    {
        let params: [Param<'_>; 4] = [&execution_id.get(), &after.get(), &events, &bytes];
        let (mut rows, mut rejected) = (PackedReplayRows::new(execution_id), None);
        let read = client.query_each(sql, &params, |row| {
            rejected = push_replay_row(&mut rows, row)?;
            Ok(rejected.is_none() && rows.text_bytes() < row::MAX_REPLAY_PAGE_BYTES)
        });
        read.await?;
        match rejected {
            None => return Ok(Some(rows)),
            Some(RejectedRow::TooLarge) => {}
            Some(RejectedRow::OldSchema) => return Ok(None),
        }
    }
    Ok(None)
}

/// Adds a row to a page, or returns the reason that it cannot be added.
fn push_replay_row(
    rows: &mut PackedReplayRows,
    row: &Row,
) -> Result<Option<RejectedRow>, StoreError> {
    let flag = row.len() - 1;
    if row.get(flag) {
        return Ok(Some(RejectedRow::TooLarge));
    }
    let is_current = row::push_replay_row(rows, row_cells(row, 0, flag))?;
    Ok((!is_current).then_some(RejectedRow::OldSchema))
}
