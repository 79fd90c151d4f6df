//! What a replay reads of a log.
//!
//! Whatever a statement gives crosses the wire, also what its reader has no use for any more: so the
//! statements themselves keep to what a page may hold.

use std::pin::pin;
use std::sync::LazyLock;

use futures_util::TryStreamExt as _;
use noetl_types::{ExecutionId, Version};
use tokio_postgres::RowStream;

use super::bind::{cells, failure};
use super::pool::Pool;
use super::query::{self, Param};
use super::stream::bytes_of;
use crate::error::StoreError;
use crate::model::{GistRows, Gists, LogPage};
use crate::row;

/// In the words of the database, whether the meta data of an event may name a business object.
const MAY_NAME_OBJECT: &str = "meta::text LIKE '%object%'";

/// Events with what they have in bytes.
static MEASURED: LazyLock<String> = LazyLock::new(|| {
    let columns = row::gist_columns(MAY_NAME_OBJECT);
    let large = row::large_gist_columns(MAY_NAME_OBJECT);
    let bytes: Vec<_> = large.iter().map(|column| bytes_of(column)).collect();
    let bytes = bytes.join(" + ");
    format!(
        "SELECT {columns}, {bytes} AS bytes FROM event
         WHERE execution_id = $1 AND seq > $2 ORDER BY seq LIMIT $3::bigint"
    )
});

/// Events, of which those that have too many bytes show nothing large and say so. Most logs are read by
/// this: from the index to the wire, without a row being put down in between.
pub(super) static SMALL: LazyLock<String> = LazyLock::new(|| {
    let columns = row::gist_columns_where("bytes <= $4::bigint");
    let measured = &*MEASURED;
    format!("SELECT {columns}, bytes > $4::bigint FROM ({measured}) AS measured ORDER BY seq")
});

/// Events of any size, as long as those before them have no more than so many bytes.
pub(super) static ANY: LazyLock<String> = LazyLock::new(|| {
    let columns = row::gist_columns_where("true");
    let measured = &*MEASURED;
    format!(
        "SELECT {columns}, false FROM (
             SELECT *, sum(bytes) OVER (ORDER BY seq) - bytes AS bytes_before
             FROM ({measured}) AS measured
         ) AS bounded
         WHERE bytes_before < $4::bigint ORDER BY seq"
    )
});

pub(super) async fn gists(
    pool: &Pool,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Gists, StoreError> {
    match current(pool, execution_id, after, page).await? {
        Found::Rows(rows) => Ok(Gists::Rows(rows)),
        Found::Large | Found::Old => query::events(pool, execution_id, after, page)
            .await
            .map(Gists::Whole),
    }
}

/// What a statement found.
enum Found {
    Rows(GistRows),
    /// An event that shows nothing large.
    Large,
    /// An event that is not of the current schema version.
    Old,
}

async fn current(
    pool: &Pool,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Found, StoreError> {
    let mut client = pool.get().await?;
    let events = i64::from(page.get());
    let most = i64::try_from(row::GIST_BYTES).unwrap_or(i64::MAX);
    // As many as are asked for, of this size, are no more than a page holds.
    for (sql, bytes) in [(&SMALL, most / events), (&ANY, most)] {
        let params: [Param<'_>; 4] = [&execution_id.get(), &after.get(), &events, &bytes];
        let rows = client.stream(sql, &params).await?;
        match read(rows, GistRows::new(execution_id)).await? {
            Found::Large => {}
            found @ (Found::Rows(_) | Found::Old) => return Ok(found),
        }
    }
    Ok(Found::Large)
}

/// Reads rows as they come, while the server still looks for those behind them.
async fn read(rows: RowStream, mut found: GistRows) -> Result<Found, StoreError> {
    let mut rows = pin!(rows);
    while let Some(row) = rows.try_next().await.map_err(failure)? {
        let mark = row.len() - 1;
        if row.get(mark) {
            return Ok(Found::Large);
        }
        if !row::push_gist(&mut found, cells(&row, 0, mark))? {
            return Ok(Found::Old);
        }
    }
    Ok(Found::Rows(found))
}
