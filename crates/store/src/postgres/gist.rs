//! What a replay reads of a log.
//!
//! Whatever a statement gives crosses the wire, also what its reader has no use for any more: so the
//! statements themselves keep to what a page may hold.

use std::sync::LazyLock;

use noetl_types::{ExecutionId, Version};
use tokio_postgres::Row;

use super::bind::cells;
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
    let bytes = row::gist_bytes(MAY_NAME_OBJECT, bytes_of);
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
        Some(rows) => Ok(Gists::Rows(rows)),
        None => query::events(pool, execution_id, after, page)
            .await
            .map(Gists::Whole),
    }
}

/// Why a row is not for a page.
enum Unfit {
    /// The statement shows nothing large, and the row is.
    Large,
    /// It is not of the current schema version.
    Old,
}

/// A page, if all of its events are of the current schema version. Rows are read as they come, while the
/// server still looks for those behind them.
async fn current(
    pool: &Pool,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Option<GistRows>, StoreError> {
    let mut client = pool.get().await?;
    let events = i64::from(page.get());
    let most = i64::try_from(row::GIST_BYTES).unwrap_or(i64::MAX);
    // As many as are asked for, of this size, are no more than a page holds.
    for (sql, bytes) in [(&SMALL, most / events), (&ANY, most)] {
        let params: [Param<'_>; 4] = [&execution_id.get(), &after.get(), &events, &bytes];
        let (mut found, mut unfit) = (GistRows::new(execution_id), None);
        let read = client.each(sql, &params, |next| {
            unfit = push(&mut found, next)?;
            Ok(unfit.is_none() && found.bytes() < row::GIST_BYTES)
        });
        read.await?;
        match unfit {
            None => return Ok(Some(found)),
            Some(Unfit::Large) => {}
            Some(Unfit::Old) => return Ok(None),
        }
    }
    Ok(None)
}

/// Adds a row to a page, if it is for it.
fn push(found: &mut GistRows, next: &Row) -> Result<Option<Unfit>, StoreError> {
    let mark = next.len() - 1;
    if next.get(mark) {
        return Ok(Some(Unfit::Large));
    }
    let is_current = row::push_gist(found, cells(next, 0, mark))?;
    Ok((!is_current).then_some(Unfit::Old))
}
