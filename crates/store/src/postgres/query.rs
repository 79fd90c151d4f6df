//! Queries on the log, executions, snapshots, results, timers, the catalog, and runtimes.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    EventId, ExecutionId, ExecutionStatus, ExecutionVersion, PlaybookPath, ResultId, StoredEvent,
    TenantId, Text, Timestamp,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};

use super::bind::{decode_rows, row_cells, to_store_error};
use super::pool::{ConnectionPool, PooledConnection};
use crate::error::StoreError;
use crate::machine_ids::MachineTable;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, LIVE_COUNT_READ_FACTOR, LoadedLog, LogPageLimit, MachineLease,
    MachineLeaseError, NewCatalogEntry, PutResultError, RegisterOutcome, RegisteredRuntime,
    RuntimeKind, RuntimeRegistration, Snapshot, SnapshotKey, StatusCounts, TenantCounts,
    redundant_snapshot,
};
use crate::row::{
    self, CATALOG, Cell, CellRef, ColumnKind, EVENT, EXECUTION, MACHINE, RUNTIME, ResultRow,
    SNAPSHOT, STORED_RESULT, Table, ToCell as _, encode_catalog_entry, encode_machine,
    encode_runtime, encode_snapshot, encode_stored_result,
};

/// Key of the advisory lock for granting machine ids: "machine" in ASCII.
const MACHINES_LOCK: i64 = 0x6d_61_63_68_69_6e_65;

pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

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

static SELECT_EXECUTION: LazyLock<String> =
    LazyLock::new(|| select_sql(&EXECUTION, "WHERE execution_id = $1"));

static LIST_EXECUTIONS: LazyLock<String> =
    LazyLock::new(|| select_sql(&EXECUTION, include_str!("sql/list_executions.sql")));

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

static SELECT_SNAPSHOT: LazyLock<String> = LazyLock::new(|| {
    let newest = "WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint
        AND version <= $4::bigint ORDER BY version DESC LIMIT 1";
    select_sql(&SNAPSHOT, newest)
});

const SNAPSHOT_VERSIONS: &str = "SELECT version FROM projection_snapshot
    WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint ORDER BY version";

const DELETE_SNAPSHOT: &str = "DELETE FROM projection_snapshot
    WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint AND version = $4::bigint";

static SELECT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = $1 AND result_id = $2";
    select_sql(&STORED_RESULT, by_id)
});

static PUT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (execution_id, result_id) DO NOTHING RETURNING 1";
    insert_sql(&STORED_RESULT, rest)
});

static SELECT_OPEN_CHILDREN: LazyLock<String> = LazyLock::new(|| {
    let open = "WHERE parent_execution_id = $1 AND NOT ended
        AND ($2::bigint IS NULL OR execution_id > $2) ORDER BY execution_id LIMIT $3::bigint";
    select_sql(&EXECUTION, open)
});

static CATALOG_VERSIONS: LazyLock<String> = LazyLock::new(|| {
    let newest_first = "WHERE tenant_id = $1 AND path = $2
        AND ($3::bigint IS NULL OR version < $3) ORDER BY version DESC LIMIT $4::bigint";
    select_sql(&CATALOG, newest_first)
});

/// Archives or unarchives all versions of a path.
const SET_ARCHIVED: &str = "UPDATE catalog SET archived_at = $3::timestamptz
    WHERE tenant_id = $1 AND path = $2 AND (archived_at IS NULL) <> ($3::timestamptz IS NULL)
    RETURNING 1";

static CATALOG_BY_ID: LazyLock<String> =
    LazyLock::new(|| select_sql(&CATALOG, "WHERE tenant_id = $1 AND catalog_id = $2"));

static CATALOG_BY_VERSION: LazyLock<String> = LazyLock::new(|| {
    let by_version = "WHERE tenant_id = $1 AND path = $2 AND version = $3::bigint";
    select_sql(&CATALOG, by_version)
});

static CATALOG_LATEST: LazyLock<String> = LazyLock::new(|| {
    let latest = "WHERE tenant_id = $1 AND path = $2 ORDER BY version DESC LIMIT 1";
    select_sql(&CATALOG, latest)
});

static LIST_CATALOG: LazyLock<String> =
    LazyLock::new(|| select_sql(&CATALOG, include_str!("sql/list_catalog.sql")));

static LIST_RUNTIMES: LazyLock<String> =
    LazyLock::new(|| select_sql(&RUNTIME, "WHERE kind = $1 ORDER BY name"));

static SELECT_MACHINES: LazyLock<String> = LazyLock::new(|| select_sql(&MACHINE, ""));

static PUT_SNAPSHOT: LazyLock<String> =
    LazyLock::new(|| insert_sql(&SNAPSHOT, "ON CONFLICT DO NOTHING"));

static PUT_CATALOG: LazyLock<String> = LazyLock::new(|| insert_sql(&CATALOG, ""));

static PUT_RUNTIME: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (kind, name) DO UPDATE
        SET uri = excluded.uri, detail = excluded.detail, heartbeat = excluded.heartbeat
        RETURNING";
    format!("{} {}", insert_sql(&RUNTIME, rest), RUNTIME.column_list())
});

static PUT_MACHINE: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (machine_id) DO UPDATE
        SET owner = excluded.owner, epoch = excluded.epoch,
            lease_until = excluded.lease_until, id_high_water = excluded.id_high_water";
    insert_sql(&MACHINE, rest)
});

pub(super) fn select_sql(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.column_list(), table.name)
}

pub(super) fn insert_sql(table: &Table, rest: &str) -> String {
    let placeholders: Vec<_> = (1..)
        .zip(table.columns)
        .map(|(index, (_, kind))| match kind {
            ColumnKind::Json => format!("${index}::text::json"),
            ColumnKind::Bool
            | ColumnKind::Int
            | ColumnKind::Float
            | ColumnKind::Text
            | ColumnKind::Bytes
            | ColumnKind::Time => {
                format!("${index}")
            }
        })
        .collect();
    let (name, columns, placeholders) = (table.name, table.column_list(), placeholders.join(", "));
    format!("INSERT INTO {name} ({columns}) VALUES ({placeholders}) {rest}")
}

pub(super) async fn query_rows(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, StoreError> {
    transaction.query(sql, params).await.map_err(to_store_error)
}

pub(super) fn to_params(cells: &[Cell]) -> Vec<Param<'_>> {
    cells.iter().map(|cell| cell as Param<'_>).collect()
}

pub(super) async fn is_dropped(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM retention_range WHERE lo <= $1 AND $1 < hi)";
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(sql, &[&execution_id.get()]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
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
    spawn_decode(move || decode_rows(&rows, row::decode_stored_event)).await
}

/// Decodes rows in a separate task, so that the caller's task can process earlier rows meanwhile.
pub(super) async fn spawn_decode<T: Send + 'static>(
    decode: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let task = tokio::spawn(async move { decode() });
    task.await.map_err(StoreError::fatal)?
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

pub(super) async fn find_event(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &event_id.get()];
    let rows = client.query_rows(&SELECT_EVENT, &params).await?;
    let mut events = decode_rows(&rows, row::decode_stored_event)?.into_iter();
    Ok(events.find(|stored| stored.record.event.event_id == event_id))
}

pub(super) async fn find_execution(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&SELECT_EXECUTION, &[&execution_id.get()]).await?;
    Ok(decode_rows(&rows, row::decode_execution)?.into_iter().next())
}

pub(super) async fn list_executions(
    pool: &ConnectionPool,
    filter: &ExecutionFilter,
) -> Result<ExecutionPage, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 7] = [
        &filter.tenant_id.as_str(),
        &filter.status.map(ExecutionStatus::as_str),
        &filter.path.as_ref().map(PlaybookPath::as_str),
        &filter.parent_execution_id.map(ExecutionId::get),
        &filter.after.map(|after| after.started_at.to_cell()),
        &filter.after.map(|after| after.execution_id.get()),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.query_rows(&LIST_EXECUTIONS, &params).await?;
    let executions = decode_rows(&rows, row::decode_execution)?;
    Ok(ExecutionPage::from_rows(executions, filter.limit))
}

/// Loads an execution in one round trip. The two statements see different snapshots, so the log may
/// be longer than the execution's row says. A snapshot that is written between the statements
/// leaves a gap before the tail. The tail is then read again.
pub(super) async fn load_execution(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    page: LogPageLimit,
) -> Result<Option<LoadedLog>, StoreError> {
    let mut client = pool.acquire().await?;
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
    let after = snapshot.as_ref().map_or(ExecutionVersion::EMPTY, |snapshot| snapshot.head.version);
    let mut tail = decode_rows(&tail, row::decode_stored_event)?;
    let first_seq = tail.first().map(|event| event.record.seq);
    let has_gap = match first_seq {
        Some(seq) => seq != after.next_seq(),
        None => after < execution.head.version,
    };
    if has_gap {
        let rows = query_event_rows(&mut client, execution_id, after, page).await?;
        tail = decode_rows(&rows, row::decode_stored_event)?;
    }
    Ok(Some(LoadedLog::from_page(execution, snapshot, tail, page)))
}

/// Decodes an execution and its snapshot, if there is one.
fn decode_execution_and_snapshot(row: &Row) -> Result<(Execution, Option<Snapshot>), StoreError> {
    let execution_columns = EXECUTION.columns.len();
    let execution = row::decode_execution(row_cells(row, 0, execution_columns))?;
    let snapshot_cells = row_cells(row, execution_columns, SNAPSHOT.columns.len());
    let has_snapshot = snapshot_cells.clone().next() != Some(CellRef::Null);
    let snapshot = has_snapshot.then(|| row::decode_snapshot(snapshot_cells));
    Ok((execution, snapshot.transpose()?))
}

pub(super) async fn write_snapshot(
    pool: &ConnectionPool,
    snapshot: &Snapshot,
) -> Result<(), StoreError> {
    let mut client = pool.acquire().await?;
    let cells = encode_snapshot(snapshot);
    let (id, kind) = (snapshot.execution_id.get(), snapshot.key.kind.as_str());
    let fold_version = i64::from(snapshot.key.fold_version);
    let key: [Param<'_>; 3] = [&id, &kind, &fold_version];
    let (_, versions) = client
        .query_pipelined((&PUT_SNAPSHOT, &to_params(&cells)), (SNAPSHOT_VERSIONS, &key))
        .await?;
    let versions: Vec<_> =
        versions.iter().map(|row| ExecutionVersion::new(row.get(0)).unwrap_or_default()).collect();
    if let Some(version) = redundant_snapshot(&versions) {
        let params: [Param<'_>; 4] = [&id, &kind, &fold_version, &version.get()];
        client.query_rows(DELETE_SNAPSHOT, &params).await?;
    }
    Ok(())
}

pub(super) async fn delete_snapshot(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    version: ExecutionVersion,
) -> Result<(), StoreError> {
    let mut client = pool.acquire().await?;
    let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
    let params: [Param<'_>; 4] = [&id, &key.kind.as_str(), &fold_version, &version.get()];
    client.query_rows(DELETE_SNAPSHOT, &params).await.map(drop)
}

pub(super) async fn find_snapshot(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    max_version: ExecutionVersion,
) -> Result<Option<Snapshot>, StoreError> {
    let mut client = pool.acquire().await?;
    let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
    let params: [Param<'_>; 4] = [&id, &key.kind.as_str(), &fold_version, &max_version.get()];
    let rows = client.query_rows(&SELECT_SNAPSHOT, &params).await?;
    Ok(decode_rows(&rows, row::decode_snapshot)?.into_iter().next())
}

pub(super) async fn find_result(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    result_id: ResultId,
) -> Result<Option<ResultRow>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &result_id.get()];
    let rows = client.query_rows(&SELECT_RESULT, &params).await?;
    Ok(decode_rows(&rows, row::decode_result)?.into_iter().next())
}

pub(super) async fn put_result(
    pool: &ConnectionPool,
    row: &ResultRow,
) -> Result<(), PutResultError> {
    let cells = encode_stored_result(row);
    let written = {
        let mut client = pool.acquire().await?;
        client.query_rows(&PUT_RESULT, &to_params(&cells)).await?
    };
    if !written.is_empty() {
        return Ok(());
    }
    let (execution_id, result_id) = (row.result.execution_id, row.result.result_id);
    match find_result(pool, execution_id, result_id).await? {
        Some(existing) => row.result.check_same_digest(existing.result.sha256),
        // The result existed during the insert, and was deleted since.
        None => Err(StoreError::retry("a result with this id was just deleted; try again").into()),
    }
}

pub(super) async fn list_open_children(
    pool: &ConnectionPool,
    parent: ExecutionId,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<Vec<Execution>, StoreError> {
    let mut client = pool.acquire().await?;
    let after = after.map(ExecutionId::get);
    let params: [Param<'_>; 3] = [&parent.get(), &after, &i64::from(limit.get())];
    let rows = client.query_rows(&SELECT_OPEN_CHILDREN, &params).await?;
    decode_rows(&rows, row::decode_execution)
}

pub(super) async fn tenant_counts(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
) -> Result<TenantCounts, StoreError> {
    let mut client = pool.acquire().await?;
    let tenant: [Param<'_>; 1] = [&tenant_id.as_str()];
    let by_status = "SELECT status, count(*) FROM execution WHERE tenant_id = $1 GROUP BY status";
    let by_kind = include_str!("sql/count_catalog.sql");
    let (executions, definitions) =
        client.query_pipelined((by_status, &tenant), (by_kind, &tenant)).await?;
    let executions = decode_rows(&executions, row::decode_count)?;
    let definitions = decode_rows(&definitions, row::decode_count)?;
    Ok(TenantCounts {
        executions: executions.into_iter().collect(),
        definitions: definitions.into_iter().collect(),
    })
}

pub(super) async fn count_executions_by_status(
    pool: &ConnectionPool,
) -> Result<StatusCounts, StoreError> {
    let mut client = pool.acquire().await?;
    let by_status = "SELECT status, count(*) FROM execution GROUP BY status";
    let counted = decode_rows(&client.query_rows(by_status, &[]).await?, row::decode_count)?;
    Ok(counted.into_iter().collect())
}

pub(super) async fn count_live_executions(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    max_count: u32,
) -> Result<u32, StoreError> {
    let mut client = pool.acquire().await?;
    let (read, counted) = (i64::from(max_count) * LIVE_COUNT_READ_FACTOR, i64::from(max_count));
    let params: [Param<'_>; 3] = [&tenant_id.as_str(), &read, &counted];
    let sql = include_str!("sql/live_executions.sql");
    let rows = client.query_rows(sql, &params).await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u32::try_from(count).unwrap_or(max_count))
}

pub(super) async fn list_due_timers(
    pool: &ConnectionPool,
    now: Timestamp,
    after: Option<&DueTimer>,
    limit: PageLimit,
) -> Result<Vec<DueTimer>, StoreError> {
    // A subquery finds each execution by its key. A join might read all executions.
    let sql = "SELECT execution_id, timer_id, fire_at FROM timer
        WHERE fire_at <= $1::timestamptz
            AND (fire_at, execution_id, timer_id)
                > (coalesce($2::timestamptz, '-infinity'), $3::bigint, $4::text)
            AND NOT coalesce(
                (SELECT paused FROM execution WHERE execution.execution_id = timer.execution_id),
                false
            )
        ORDER BY fire_at, execution_id, timer_id LIMIT $5::bigint";
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 5] = [
        &now.to_cell(),
        &after.map(|after| after.fire_at).to_cell(),
        &after.map_or(0, |after| after.execution_id.get()),
        &after.map_or("", |after| after.timer_id.as_str()),
        &i64::from(limit.get()),
    ];
    let rows = client.query_rows(sql, &params).await?;
    decode_rows(&rows, row::decode_due_timer)
}

/// Locks a catalog path. Its versions are numbered and archived under this lock.
async fn lock_catalog_path(
    transaction: &Transaction<'_>,
    tenant_id: &TenantId,
    path: &PlaybookPath,
) -> Result<(), StoreError> {
    let name = format!("catalog {tenant_id} {path}");
    lock_by_name(transaction, &name).await
}

/// Waits for the advisory lock of a name, and holds it until the transaction ends.
pub(super) async fn lock_by_name(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<(), StoreError> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    transaction.execute(lock, &[&name]).await.map_err(to_store_error)?;
    Ok(())
}

pub(super) async fn set_definition_archived(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let mut client = pool.acquire().await?;
    let transaction = client.begin_transaction().await?;
    lock_catalog_path(&transaction, tenant_id, path).await?;
    let params: [Param<'_>; 3] = [&tenant_id.as_str(), &path.as_str(), &since.to_cell()];
    let changed = query_rows(&transaction, SET_ARCHIVED, &params).await?;
    transaction.commit().await.map_err(to_store_error)?;
    Ok(!changed.is_empty())
}

pub(super) async fn list_catalog_versions(
    pool: &ConnectionPool,
    filter: &CatalogVersionFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 4] = [
        &filter.tenant_id.as_str(),
        &filter.path.as_str(),
        &filter.before.map(i64::from),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.query_rows(&CATALOG_VERSIONS, &params).await?;
    decode_rows(&rows, row::decode_catalog_entry)
}

pub(super) async fn register_definition(
    pool: &ConnectionPool,
    new: NewCatalogEntry,
) -> Result<RegisterOutcome, StoreError> {
    let mut client = pool.acquire().await?;
    let transaction = client.begin_transaction().await?;
    lock_catalog_path(&transaction, &new.tenant_id, &new.path).await?;
    let path: [Param<'_>; 2] = [&new.tenant_id.as_str(), &new.path.as_str()];
    let newest = decode_rows(
        &query_rows(&transaction, &CATALOG_LATEST, &path).await?,
        row::decode_catalog_entry,
    )?;
    let unarchive: [Param<'_>; 3] = [path[0], path[1], &Cell::Null];
    query_rows(&transaction, SET_ARCHIVED, &unarchive).await?;
    let registered = new.register_after(newest.into_iter().next());
    if !registered.is_unchanged {
        let cells = encode_catalog_entry(&registered.entry);
        query_rows(&transaction, &PUT_CATALOG, &to_params(&cells)).await?;
    }
    transaction.commit().await.map_err(to_store_error)?;
    Ok(registered)
}

pub(super) async fn find_catalog_entry(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    key: &CatalogKey,
) -> Result<Option<CatalogEntry>, StoreError> {
    let mut client = pool.acquire().await?;
    let tenant = tenant_id.as_str();
    let rows = match key {
        CatalogKey::Id(id) => client.query_rows(&CATALOG_BY_ID, &[&tenant, &id.get()]).await?,
        CatalogKey::Latest(path) => {
            client.query_rows(&CATALOG_LATEST, &[&tenant, &path.as_str()]).await?
        }
        CatalogKey::Version(path, version) => {
            let params: [Param<'_>; 3] = [&tenant, &path.as_str(), &i64::from(*version)];
            client.query_rows(&CATALOG_BY_VERSION, &params).await?
        }
    };
    Ok(decode_rows(&rows, row::decode_catalog_entry)?.into_iter().next())
}

pub(super) async fn list_catalog(
    pool: &ConnectionPool,
    filter: &CatalogFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 5] = [
        &filter.tenant_id.as_str(),
        &filter.kind.as_deref(),
        &filter.after.as_ref().map(PlaybookPath::as_str),
        &i64::from(filter.limit.get()),
        &filter.include_archived,
    ];
    let rows = client.query_rows(&LIST_CATALOG, &params).await?;
    decode_rows(&rows, row::decode_catalog_entry)
}

pub(super) async fn register_runtime(
    pool: &ConnectionPool,
    new: RuntimeRegistration,
) -> Result<RegisteredRuntime, StoreError> {
    let mut client = pool.acquire().await?;
    let runtime = new.into_runtime(None);
    let cells = encode_runtime(&runtime);
    let rows = client.query_rows(&PUT_RUNTIME, &to_params(&cells)).await?;
    let stored = decode_rows(&rows, row::decode_runtime)?.into_iter().next();
    stored.ok_or_else(|| StoreError::fatal("the registration of a runtime returned no row"))
}

pub(super) async fn record_heartbeat(
    pool: &ConnectionPool,
    kind: RuntimeKind,
    name: &Text,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE runtime SET heartbeat = $3::timestamptz WHERE kind = $1 AND name = $2
        RETURNING runtime_id";
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 3] = [&kind.as_str(), &name.as_str(), &now.to_cell()];
    Ok(!client.query_rows(sql, &params).await?.is_empty())
}

pub(super) async fn remove_runtime(
    pool: &ConnectionPool,
    kind: RuntimeKind,
    name: &Text,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM runtime WHERE kind = $1 AND name = $2 RETURNING runtime_id";
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&kind.as_str(), &name.as_str()];
    Ok(!client.query_rows(sql, &params).await?.is_empty())
}

pub(super) async fn list_runtimes(
    pool: &ConnectionPool,
    kind: RuntimeKind,
) -> Result<Vec<RegisteredRuntime>, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&LIST_RUNTIMES, &[&kind.as_str()]).await?;
    decode_rows(&rows, row::decode_runtime)
}

/// Applies a change to the table of machines under its lock, and writes the one row that it
/// changed.
pub(super) async fn update_machine_table(
    pool: &ConnectionPool,
    change: impl FnOnce(&mut MachineTable) -> Result<MachineLease, MachineLeaseError>,
) -> Result<MachineLease, MachineLeaseError> {
    let mut client = pool.acquire().await?;
    let transaction = client.begin_transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MACHINES_LOCK])
        .await
        .map_err(to_store_error)?;
    let records =
        decode_rows(&query_rows(&transaction, &SELECT_MACHINES, &[]).await?, row::decode_machine)?;
    let mut machines = MachineTable(records.into_iter().collect());
    let lease = match change(&mut machines) {
        Ok(lease) => lease,
        Err(error) => {
            transaction.rollback().await.map_err(to_store_error)?;
            return Err(error);
        }
    };
    if let Some(machine) = machines.0.get(&lease.machine_id) {
        let cells = encode_machine(lease.machine_id, machine);
        query_rows(&transaction, &PUT_MACHINE, &to_params(&cells)).await?;
    }
    transaction.commit().await.map_err(to_store_error)?;
    Ok(lease)
}
