//! Everything but appends and leases.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    EventId, ExecutionId, ExecutionStatus, PlaybookPath, ResultId, StoredEvent, TenantId, Text,
    Timestamp, Version,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};

use super::bind::{cells, failure, read_all};
use super::pool::{Pool, Pooled};
use crate::error::StoreError;
use crate::machines::Machines;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, Counts, DueTimer, Execution, ExecutionFilter,
    ExecutionPage, Loaded, LogPage, MachineLease, MachineRefused, NewCatalogEntry, NewRuntime,
    PutRefused, READ_FOR_ONE, Registered, Runtime, RuntimeKind, Snapshot, SnapshotKey,
    StatusCounts, VersionFilter, superfluous,
};
use crate::row::{
    self, CATALOG, Cell, CellRef, EVENT, EXECUTION, KeptResult, Kind, MACHINE, RUNTIME, SNAPSHOT,
    STORED_RESULT, Table, ToCell as _, catalog_row, machine_row, runtime_row, snapshot_row,
    stored_result_row,
};

/// The name of the lock under which machine ids are given: "machine" in ASCII.
const MACHINES_LOCK: i64 = 0x6d_61_63_68_69_6e_65;

pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

static EVENTS: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT.list();
    format!("SELECT {columns}, tx::text::bigint, position FROM event")
});

static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
    format!("{events} WHERE execution_id = $1 AND seq > $2 ORDER BY seq LIMIT $3::bigint")
});

/// The order says which index is meant; by a mere equality the server may take the one by `seq`.
static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
    format!(
        "{events} WHERE execution_id = $1 AND event_id >= $2
         ORDER BY execution_id, event_id LIMIT 1"
    )
});

static SELECT_EXECUTION: LazyLock<String> =
    LazyLock::new(|| select(&EXECUTION, "WHERE execution_id = $1"));

static LIST_EXECUTIONS: LazyLock<String> =
    LazyLock::new(|| select(&EXECUTION, include_str!("sql/list_executions.sql")));

/// An execution with its newest snapshot.
static SELECT_FOLDED: LazyLock<String> = LazyLock::new(|| {
    let (execution, snapshot) = (EXECUTION.list_of("execution."), SNAPSHOT.list_of("newest."));
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

/// The events behind the newest snapshot.
static SELECT_TAIL: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
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
    select(&SNAPSHOT, newest)
});

const SNAPSHOT_VERSIONS: &str = "SELECT version FROM projection_snapshot
    WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint ORDER BY version";

const DROP_SNAPSHOT: &str = "DELETE FROM projection_snapshot
    WHERE execution_id = $1 AND kind = $2 AND fold_version = $3::bigint AND version = $4::bigint";

static SELECT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = $1 AND result_id = $2";
    select(&STORED_RESULT, by_id)
});

static PUT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (execution_id, result_id) DO NOTHING RETURNING 1";
    insert(&STORED_RESULT, rest)
});

static SELECT_CHILDREN: LazyLock<String> = LazyLock::new(|| {
    let open = "WHERE parent_execution_id = $1 AND NOT ended
        AND ($2::bigint IS NULL OR execution_id > $2) ORDER BY execution_id LIMIT $3::bigint";
    select(&EXECUTION, open)
});

static CATALOG_VERSIONS: LazyLock<String> = LazyLock::new(|| {
    let newest_first = "WHERE tenant_id = $1 AND path = $2
        AND ($3::bigint IS NULL OR version < $3) ORDER BY version DESC LIMIT $4::bigint";
    select(&CATALOG, newest_first)
});

/// A path is archived as a whole.
const ARCHIVE: &str = "UPDATE catalog SET archived_at = $3::timestamptz
    WHERE tenant_id = $1 AND path = $2 AND (archived_at IS NULL) <> ($3::timestamptz IS NULL)
    RETURNING 1";

static CATALOG_BY_ID: LazyLock<String> =
    LazyLock::new(|| select(&CATALOG, "WHERE tenant_id = $1 AND catalog_id = $2"));

static CATALOG_BY_VERSION: LazyLock<String> = LazyLock::new(|| {
    let by_version = "WHERE tenant_id = $1 AND path = $2 AND version = $3::bigint";
    select(&CATALOG, by_version)
});

static CATALOG_LATEST: LazyLock<String> = LazyLock::new(|| {
    let latest = "WHERE tenant_id = $1 AND path = $2 ORDER BY version DESC LIMIT 1";
    select(&CATALOG, latest)
});

static LIST_CATALOG: LazyLock<String> =
    LazyLock::new(|| select(&CATALOG, include_str!("sql/list_catalog.sql")));

static LIST_RUNTIMES: LazyLock<String> =
    LazyLock::new(|| select(&RUNTIME, "WHERE kind = $1 ORDER BY name"));

static SELECT_MACHINES: LazyLock<String> = LazyLock::new(|| select(&MACHINE, ""));

static PUT_SNAPSHOT: LazyLock<String> =
    LazyLock::new(|| insert(&SNAPSHOT, "ON CONFLICT DO NOTHING"));

static PUT_CATALOG: LazyLock<String> = LazyLock::new(|| insert(&CATALOG, ""));

static PUT_RUNTIME: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (kind, name) DO UPDATE
        SET uri = excluded.uri, detail = excluded.detail, heartbeat = excluded.heartbeat
        RETURNING";
    format!("{} {}", insert(&RUNTIME, rest), RUNTIME.list())
});

static PUT_MACHINE: LazyLock<String> = LazyLock::new(|| {
    let rest = "ON CONFLICT (machine_id) DO UPDATE
        SET owner = excluded.owner, epoch = excluded.epoch,
            lease_until = excluded.lease_until, id_high_water = excluded.id_high_water";
    insert(&MACHINE, rest)
});

pub(super) fn select(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.list(), table.name)
}

pub(super) fn insert(table: &Table, rest: &str) -> String {
    let places: Vec<_> = (1..)
        .zip(table.columns)
        .map(|(place, (_, kind))| match kind {
            Kind::Json => format!("${place}::text::json"),
            Kind::Bool | Kind::Int | Kind::Float | Kind::Text | Kind::Bytes | Kind::Time => {
                format!("${place}")
            }
        })
        .collect();
    let (name, columns, places) = (table.name, table.list(), places.join(", "));
    format!("INSERT INTO {name} ({columns}) VALUES ({places}) {rest}")
}

pub(super) async fn rows(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, StoreError> {
    transaction.query(sql, params).await.map_err(failure)
}

pub(super) fn params(cells: &[Cell]) -> Vec<Param<'_>> {
    cells.iter().map(|cell| cell as Param<'_>).collect()
}

pub(super) async fn is_gone(pool: &Pool, execution_id: ExecutionId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM retention_range WHERE lo <= $1 AND $1 < hi)";
    let mut client = pool.get().await?;
    let rows = client.rows(sql, &[&execution_id.get()]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

pub(super) async fn events(
    pool: &Pool,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = {
        let mut client = pool.get().await?;
        rows_of(&mut client, execution_id, after, page).await?
    };
    beside(move || read_all(&rows, row::stored_event)).await
}

/// Puts rows together beside their reader, who has those before them to work on.
pub(super) async fn beside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let task = tokio::spawn(async move { read() });
    task.await.map_err(StoreError::fatal)?
}

async fn rows_of(
    client: &mut Pooled<'_>,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Vec<Row>, StoreError> {
    let params: [Param<'_>; 3] = [&execution_id.get(), &after.get(), &i64::from(page.get())];
    client.rows(&SELECT_EVENTS, &params).await
}

pub(super) async fn event(
    pool: &Pool,
    execution_id: ExecutionId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &event_id.get()];
    let rows = client.rows(&SELECT_EVENT, &params).await?;
    let mut events = read_all(&rows, row::stored_event)?.into_iter();
    Ok(events.find(|stored| stored.record.event.event_id == event_id))
}

pub(super) async fn execution(
    pool: &Pool,
    execution_id: ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client
        .rows(&SELECT_EXECUTION, &[&execution_id.get()])
        .await?;
    Ok(read_all(&rows, row::execution)?.into_iter().next())
}

pub(super) async fn executions(
    pool: &Pool,
    filter: &ExecutionFilter,
) -> Result<ExecutionPage, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 7] = [
        &filter.tenant_id.as_str(),
        &filter.status.map(ExecutionStatus::as_str),
        &filter.path.as_ref().map(PlaybookPath::as_str),
        &filter.parent_execution_id.map(ExecutionId::get),
        &filter.after.map(|after| after.started_at.to_cell()),
        &filter.after.map(|after| after.execution_id.get()),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.rows(&LIST_EXECUTIONS, &params).await?;
    let executions = read_all(&rows, row::execution)?;
    Ok(ExecutionPage::of(executions, filter.limit))
}

/// One round trip, but not one moment: the log may be longer than the execution's row says, and a
/// snapshot that is written in between leaves a gap before the tail, which is then read again.
pub(super) async fn load(
    pool: &Pool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    page: LogPage,
) -> Result<Option<Loaded>, StoreError> {
    let mut client = pool.get().await?;
    let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
    let (kind, limit) = (key.kind.as_str(), i64::from(page.get()));
    let of_folded: [Param<'_>; 3] = [&id, &kind, &fold_version];
    let of_tail: [Param<'_>; 4] = [&id, &kind, &fold_version, &limit];
    let (folded, tail) = client
        .two((&SELECT_FOLDED, &of_folded), (&SELECT_TAIL, &of_tail))
        .await?;
    let Some(folded) = folded.first() else {
        return Ok(None);
    };
    let (execution, snapshot) = folded_of(folded)?;
    let after = snapshot
        .as_ref()
        .map_or(Version::EMPTY, |snapshot| snapshot.head.version);
    let mut tail = read_all(&tail, row::stored_event)?;
    let begins_at = tail.first().map(|event| event.record.seq);
    let has_gap = match begins_at {
        Some(seq) => seq != after.next_seq(),
        None => after < execution.head.version,
    };
    if has_gap {
        let rows = rows_of(&mut client, execution_id, after, page).await?;
        tail = read_all(&rows, row::stored_event)?;
    }
    Ok(Some(Loaded::of(execution, snapshot, tail, page)))
}

/// An execution, and the snapshot beside it if there is one.
fn folded_of(row: &Row) -> Result<(Execution, Option<Snapshot>), StoreError> {
    let of_execution = EXECUTION.columns.len();
    let execution = row::execution(cells(row, 0, of_execution))?;
    let of_snapshot = cells(row, of_execution, SNAPSHOT.columns.len());
    let has_snapshot = of_snapshot.clone().next() != Some(CellRef::Null);
    let snapshot = has_snapshot.then(|| row::snapshot(of_snapshot));
    Ok((execution, snapshot.transpose()?))
}

pub(super) async fn write_snapshot(pool: &Pool, snapshot: &Snapshot) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let cells = snapshot_row(snapshot);
    let (id, kind) = (snapshot.execution_id.get(), snapshot.key.kind.as_str());
    let fold_version = i64::from(snapshot.key.fold_version);
    let of_key: [Param<'_>; 3] = [&id, &kind, &fold_version];
    let (_, versions) = client
        .two(
            (&PUT_SNAPSHOT, &params(&cells)),
            (SNAPSHOT_VERSIONS, &of_key),
        )
        .await?;
    let versions: Vec<_> = versions
        .iter()
        .map(|row| Version::new(row.get(0)).unwrap_or_default())
        .collect();
    if let Some(version) = superfluous(&versions) {
        let one: [Param<'_>; 4] = [&id, &kind, &fold_version, &version.get()];
        client.rows(DROP_SNAPSHOT, &one).await?;
    }
    Ok(())
}

pub(super) async fn drop_snapshot(
    pool: &Pool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    version: Version,
) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
    let one: [Param<'_>; 4] = [&id, &key.kind.as_str(), &fold_version, &version.get()];
    client.rows(DROP_SNAPSHOT, &one).await.map(drop)
}

pub(super) async fn snapshot(
    pool: &Pool,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    at_most: Version,
) -> Result<Option<Snapshot>, StoreError> {
    let mut client = pool.get().await?;
    let (id, fold_version) = (execution_id.get(), i64::from(key.fold_version));
    let params: [Param<'_>; 4] = [&id, &key.kind.as_str(), &fold_version, &at_most.get()];
    let rows = client.rows(&SELECT_SNAPSHOT, &params).await?;
    Ok(read_all(&rows, row::snapshot)?.into_iter().next())
}

pub(super) async fn result(
    pool: &Pool,
    execution_id: ExecutionId,
    result_id: ResultId,
) -> Result<Option<KeptResult>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &result_id.get()];
    let rows = client.rows(&SELECT_RESULT, &params).await?;
    Ok(read_all(&rows, row::result)?.into_iter().next())
}

pub(super) async fn put_result(pool: &Pool, kept: &KeptResult) -> Result<(), PutRefused> {
    let cells = stored_result_row(kept);
    let written = {
        let mut client = pool.get().await?;
        client.rows(&PUT_RESULT, &params(&cells)).await?
    };
    if !written.is_empty() {
        return Ok(());
    }
    let (execution_id, result_id) = (kept.result.execution_id, kept.result.result_id);
    match result(pool, execution_id, result_id).await? {
        Some(there) => kept.result.beside(there.result.sha256),
        // It was there, and was swept since.
        None => Err(StoreError::retry("a result of that id was being swept").into()),
    }
}

pub(super) async fn open_children(
    pool: &Pool,
    parent: ExecutionId,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<Vec<Execution>, StoreError> {
    let mut client = pool.get().await?;
    let after = after.map(ExecutionId::get);
    let params: [Param<'_>; 3] = [&parent.get(), &after, &i64::from(limit.get())];
    let rows = client.rows(&SELECT_CHILDREN, &params).await?;
    read_all(&rows, row::execution)
}

pub(super) async fn counts(pool: &Pool, tenant_id: &TenantId) -> Result<Counts, StoreError> {
    let mut client = pool.get().await?;
    let tenant: [Param<'_>; 1] = [&tenant_id.as_str()];
    let by_status = "SELECT status, count(*) FROM execution WHERE tenant_id = $1 GROUP BY status";
    let by_kind = include_str!("sql/count_catalog.sql");
    let (executions, definitions) = client.two((by_status, &tenant), (by_kind, &tenant)).await?;
    let executions = read_all(&executions, row::count_of)?;
    let definitions = read_all(&definitions, row::count_of)?;
    Ok(Counts {
        executions: executions.into_iter().collect(),
        definitions: definitions.into_iter().collect(),
    })
}

pub(super) async fn executions_by_status(pool: &Pool) -> Result<StatusCounts, StoreError> {
    let mut client = pool.get().await?;
    let by_status = "SELECT status, count(*) FROM execution GROUP BY status";
    let counted = read_all(&client.rows(by_status, &[]).await?, row::count_of)?;
    Ok(counted.into_iter().collect())
}

pub(super) async fn live_executions(
    pool: &Pool,
    tenant_id: &TenantId,
    most: u32,
) -> Result<u32, StoreError> {
    let mut client = pool.get().await?;
    let (read, counted) = (i64::from(most) * READ_FOR_ONE, i64::from(most));
    let params: [Param<'_>; 3] = [&tenant_id.as_str(), &read, &counted];
    let sql = include_str!("sql/live_executions.sql");
    let rows = client.rows(sql, &params).await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u32::try_from(count).unwrap_or(most))
}

pub(super) async fn due(
    pool: &Pool,
    now: Timestamp,
    after: Option<&DueTimer>,
    limit: PageLimit,
) -> Result<Vec<DueTimer>, StoreError> {
    // Each execution is found by its key: a join might read all of them.
    let sql = "SELECT execution_id, timer_id, fire_at FROM timer
        WHERE fire_at <= $1::timestamptz
            AND (fire_at, execution_id, timer_id)
                > (coalesce($2::timestamptz, '-infinity'), $3::bigint, $4::text)
            AND NOT coalesce(
                (SELECT paused FROM execution WHERE execution.execution_id = timer.execution_id),
                false
            )
        ORDER BY fire_at, execution_id, timer_id LIMIT $5::bigint";
    let mut client = pool.get().await?;
    let params: [Param<'_>; 5] = [
        &now.to_cell(),
        &after.map(|after| after.fire_at).to_cell(),
        &after.map_or(0, |after| after.execution_id.get()),
        &after.map_or("", |after| after.timer_id.as_str()),
        &i64::from(limit.get()),
    ];
    let rows = client.rows(sql, &params).await?;
    read_all(&rows, row::due_timer)
}

/// Versions of one path are numbered, and the path is archived, under a lock of their own.
async fn lock_path(
    transaction: &Transaction<'_>,
    tenant_id: &TenantId,
    path: &PlaybookPath,
) -> Result<(), StoreError> {
    let name = format!("catalog {tenant_id} {path}");
    lock_name(transaction, &name).await
}

/// Waits for the lock of a name, and has it until the transaction ends.
pub(super) async fn lock_name(transaction: &Transaction<'_>, name: &str) -> Result<(), StoreError> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    transaction.execute(lock, &[&name]).await.map_err(failure)?;
    Ok(())
}

pub(super) async fn archive(
    pool: &Pool,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    lock_path(&transaction, tenant_id, path).await?;
    let params: [Param<'_>; 3] = [&tenant_id.as_str(), &path.as_str(), &since.to_cell()];
    let changed = rows(&transaction, ARCHIVE, &params).await?;
    transaction.commit().await.map_err(failure)?;
    Ok(!changed.is_empty())
}

pub(super) async fn catalog_versions(
    pool: &Pool,
    filter: &VersionFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 4] = [
        &filter.tenant_id.as_str(),
        &filter.path.as_str(),
        &filter.before.map(i64::from),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.rows(&CATALOG_VERSIONS, &params).await?;
    read_all(&rows, row::catalog_entry)
}

pub(super) async fn register(pool: &Pool, new: NewCatalogEntry) -> Result<Registered, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    lock_path(&transaction, &new.tenant_id, &new.path).await?;
    let place: [Param<'_>; 2] = [&new.tenant_id.as_str(), &new.path.as_str()];
    let newest = read_all(
        &rows(&transaction, &CATALOG_LATEST, &place).await?,
        row::catalog_entry,
    )?;
    let back: [Param<'_>; 3] = [place[0], place[1], &Cell::Null];
    rows(&transaction, ARCHIVE, &back).await?;
    let registered = new.beside(newest.into_iter().next());
    if !registered.is_unchanged {
        let cells = catalog_row(&registered.entry);
        rows(&transaction, &PUT_CATALOG, &params(&cells)).await?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(registered)
}

pub(super) async fn catalog_entry(
    pool: &Pool,
    tenant_id: &TenantId,
    key: &CatalogKey,
) -> Result<Option<CatalogEntry>, StoreError> {
    let mut client = pool.get().await?;
    let tenant = tenant_id.as_str();
    let rows = match key {
        CatalogKey::Id(id) => client.rows(&CATALOG_BY_ID, &[&tenant, &id.get()]).await?,
        CatalogKey::Latest(path) => {
            client
                .rows(&CATALOG_LATEST, &[&tenant, &path.as_str()])
                .await?
        }
        CatalogKey::Version(path, version) => {
            let params: [Param<'_>; 3] = [&tenant, &path.as_str(), &i64::from(*version)];
            client.rows(&CATALOG_BY_VERSION, &params).await?
        }
    };
    Ok(read_all(&rows, row::catalog_entry)?.into_iter().next())
}

pub(super) async fn catalog(
    pool: &Pool,
    filter: &CatalogFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 5] = [
        &filter.tenant_id.as_str(),
        &filter.kind.as_deref(),
        &filter.after.as_ref().map(PlaybookPath::as_str),
        &i64::from(filter.limit.get()),
        &filter.archived,
    ];
    let rows = client.rows(&LIST_CATALOG, &params).await?;
    read_all(&rows, row::catalog_entry)
}

pub(super) async fn register_runtime(pool: &Pool, new: NewRuntime) -> Result<Runtime, StoreError> {
    let mut client = pool.get().await?;
    let runtime = new.into_runtime(None);
    let cells = runtime_row(&runtime);
    let rows = client.rows(&PUT_RUNTIME, &params(&cells)).await?;
    let kept = read_all(&rows, row::runtime)?.into_iter().next();
    kept.ok_or_else(|| StoreError::fatal("a registration gave no row"))
}

pub(super) async fn heartbeat(
    pool: &Pool,
    kind: RuntimeKind,
    name: &Text,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE runtime SET heartbeat = $3::timestamptz WHERE kind = $1 AND name = $2
        RETURNING runtime_id";
    let mut client = pool.get().await?;
    let params: [Param<'_>; 3] = [&kind.as_str(), &name.as_str(), &now.to_cell()];
    Ok(!client.rows(sql, &params).await?.is_empty())
}

pub(super) async fn remove_runtime(
    pool: &Pool,
    kind: RuntimeKind,
    name: &Text,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM runtime WHERE kind = $1 AND name = $2 RETURNING runtime_id";
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&kind.as_str(), &name.as_str()];
    Ok(!client.rows(sql, &params).await?.is_empty())
}

pub(super) async fn runtimes(pool: &Pool, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(&LIST_RUNTIMES, &[&kind.as_str()]).await?;
    read_all(&rows, row::runtime)
}

/// Asks the table of machines under its lock, and writes the one row that the answer is about.
pub(super) async fn change_machines(
    pool: &Pool,
    ask: impl FnOnce(&mut Machines) -> Result<MachineLease, MachineRefused>,
) -> Result<MachineLease, MachineRefused> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MACHINES_LOCK])
        .await
        .map_err(failure)?;
    let known = read_all(
        &rows(&transaction, &SELECT_MACHINES, &[]).await?,
        row::machine,
    )?;
    let mut machines = Machines(known.into_iter().collect());
    let lease = match ask(&mut machines) {
        Ok(lease) => lease,
        Err(refused) => {
            transaction.rollback().await.map_err(failure)?;
            return Err(refused);
        }
    };
    if let Some(machine) = machines.0.get(&lease.machine_id) {
        let cells = machine_row(lease.machine_id, machine);
        rows(&transaction, &PUT_MACHINE, &params(&cells)).await?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(lease)
}
