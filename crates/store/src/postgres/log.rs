//! [`EventLog`] in PostgreSQL.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{EventId, ExecutionId, ExecutionVersion, FeedPosition, StoredEvent};
use tokio_postgres::Row;

use super::bind::{Param, decode_rows, row_cells};
use super::pool::{ConnectionPool, PooledConnection};
use super::{PostgresStore, feed, replay};
use crate::error::StoreError;
use crate::log::EventLog;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, EventKey, Execution, FeedBatch, FeedItem, FeedLag,
    FeedLimit, KnownEvents, LoadedLog, LogPageLimit, ReplayPage, Snapshot, SnapshotKey,
};
use crate::prepare_append::prepare_appends;
use crate::row::{CellRef, EVENT, EXECUTION, FromRow, SNAPSHOT, to_append_rows};
use crate::sql::select_sql;

static EVENT_SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT.column_list();
    format!("SELECT {columns}, tx::text::bigint, position FROM event")
});

static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE execution_id = $1 AND seq > $2 ORDER BY seq LIMIT $3::bigint")
});

/// Selects one event. The `ORDER BY` makes the planner use the right index. With a plain equality
/// it may use the index on `seq`.
static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!(
        "{events} WHERE execution_id = $1 AND event_id >= $2
         ORDER BY execution_id, event_id LIMIT 1"
    )
});

/// Selects an execution with its newest snapshot.
static SELECT_EXECUTION_AND_SNAPSHOT: LazyLock<String> = LazyLock::new(|| {
    let (execution, snapshot) =
        (EXECUTION.prefixed_column_list("execution."), SNAPSHOT.prefixed_column_list("newest."));
    format!(
        "SELECT {execution}, {snapshot} FROM execution LEFT JOIN LATERAL (
             SELECT * FROM projection_snapshot
             WHERE execution_id = execution.execution_id AND kind = $2
                 AND fold_version = $3::bigint AND version <= execution.version
             ORDER BY version DESC LIMIT 1
         ) AS newest ON true
         WHERE execution.execution_id = $1"
    )
});

/// Selects the events after the newest snapshot.
static SELECT_TAIL: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!(
        "{events} WHERE execution_id = $1 AND seq > coalesce((
             SELECT max(version) FROM projection_snapshot
             WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint
         ), 0) ORDER BY seq LIMIT $4::bigint"
    )
});

static KNOWN_EXECUTIONS: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = ANY ($1::bigint[]) ORDER BY execution_id";
    select_sql(&EXECUTION, by_id)
});

/// Selects events by id. As for a single event, the `ORDER BY` makes the planner use the right
/// index.
static KNOWN_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT.prefixed_column_list("event.");
    format!(
        "SELECT {columns}, event.tx::text::bigint, event.position
         FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution_id, event_id)
         CROSS JOIN LATERAL (
             SELECT * FROM event AS candidate
             WHERE candidate.execution_id = wanted.execution_id
                 AND candidate.event_id >= wanted.event_id
             ORDER BY candidate.execution_id, candidate.event_id LIMIT 1
         ) AS event
         WHERE event.event_id = wanted.event_id
         ORDER BY event.execution_id, event.event_id"
    )
});

/// Decodes rows in a separate task, so that the caller's task can process earlier rows meanwhile.
pub(super) async fn spawn_decode<T: FromRow>(rows: Vec<Row>) -> Result<Vec<T>, StoreError> {
    let task = tokio::spawn(async move { decode_rows(&rows) });
    task.await.map_err(StoreError::fatal)?
}

pub(super) async fn read_events(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = {
        let mut client = pool.acquire().await?;
        query_event_rows(&mut client, execution_id, after, page).await?
    };
    spawn_decode(rows).await
}

async fn query_event_rows(
    client: &mut PooledConnection<'_>,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<Vec<Row>, StoreError> {
    let params: [Param<'_>; 3] = [&execution_id.get(), &after.get(), &i64::from(page.get())];
    client.query_rows(&SELECT_EVENTS, &params).await
}

/// Decodes an execution and its snapshot, if there is one.
fn decode_execution_and_snapshot(row: &Row) -> Result<(Execution, Option<Snapshot>), StoreError> {
    let execution_columns = EXECUTION.columns.len();
    let execution = Execution::from_row(row_cells(row, 0, execution_columns))?;
    let snapshot_cells = row_cells(row, execution_columns, SNAPSHOT.columns.len());
    let has_snapshot = snapshot_cells.clone().next() != Some(CellRef::Null);
    let snapshot = has_snapshot.then(|| Snapshot::from_row(snapshot_cells));
    Ok((execution, snapshot.transpose()?))
}

#[async_trait]
impl EventLog for PostgresStore {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        self.writers.append_items(to_append_rows(prepare_appends(appends))).await
    }

    /// Loads an execution in one round trip. The two statements see different snapshots, so the log
    /// may be longer than the execution's row says. A snapshot that is written between the
    /// statements leaves a gap before the tail. The tail is then read again.
    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
        let (kind, limit) = (key.kind.as_str(), i64::from(page.get()));
        let folded_params: [Param<'_>; 3] = [&id, &kind, &fold_version];
        let tail_params: [Param<'_>; 4] = [&id, &kind, &fold_version, &limit];
        let (folded, tail) = client
            .query_pipelined(
                (&SELECT_EXECUTION_AND_SNAPSHOT, &folded_params),
                (&SELECT_TAIL, &tail_params),
            )
            .await?;
        let Some(folded) = folded.first() else {
            return Ok(None);
        };
        let (execution, snapshot) = decode_execution_and_snapshot(folded)?;
        let after =
            snapshot.as_ref().map_or(ExecutionVersion::EMPTY, |snapshot| snapshot.head.version);
        let mut tail: Vec<StoredEvent> = decode_rows(&tail)?;
        let first_seq = tail.first().map(|event| event.record.seq);
        let has_gap = match first_seq {
            Some(seq) => seq != after.next_seq(),
            None => after < execution.head.version,
        };
        if has_gap {
            let rows = query_event_rows(&mut client, execution_id, after, page).await?;
            tail = decode_rows(&rows)?;
        }
        Ok(Some(LoadedLog::from_page(execution, snapshot, tail, page)))
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        read_events(&self.pool, execution_id, after, page).await
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        replay::read_replay_rows(&self.pool, execution_id, after, page).await
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 2] = [&execution_id.get(), &event_id.get()];
        let rows = client.query_rows(&SELECT_EVENT, &params).await?;
        let mut events = decode_rows::<StoredEvent>(&rows)?.into_iter();
        Ok(events.find(|stored| stored.record.event.event_id == event_id))
    }

    /// Finds executions and events with two pipelined statements, which see different snapshots. An
    /// event that is written between them may be found without its execution. An append based on
    /// that result fails with a conflict.
    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        let mut client = self.pool.acquire().await?;
        let keys: BTreeSet<_> = events.into_iter().collect();
        let executions: Vec<_> = keys.iter().map(|key| key.execution_id.get()).collect();
        let ids: Vec<_> = keys.iter().map(|key| key.event_id.get()).collect();
        let (executions, events) = client
            .query_pipelined(
                (&KNOWN_EXECUTIONS, &[&executions]),
                (&KNOWN_EVENTS, &[&executions, &ids]),
            )
            .await?;
        Ok(KnownEvents { executions: decode_rows(&executions)?, events: decode_rows(&events)? })
    }

    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        feed::read_feed(&self.pool, &self.feed_base, after, limit).await
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        feed::read_feed_messages(&self.pool, &self.feed_base, after, limit).await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        feed::feed_lag(&self.list_pool, after).await
    }
}
