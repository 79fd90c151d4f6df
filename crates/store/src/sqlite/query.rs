//! Queries on the log, executions, snapshots, results, timers, the catalog, and runtimes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    EventId, ExecutionId, ExecutionStatus, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp,
};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{
    execute_cached, placeholder_list, query_all, query_each, query_first, query_within_bytes,
    to_micros, to_store_error,
};
use crate::error::StoreError;
use crate::machine_ids::MachineTable;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, DueTimer, EventKey, Execution,
    ExecutionFilter, ExecutionPage, FeedBatch, FeedLimit, KnownEvents, LIVE_COUNT_READ_FACTOR,
    LoadedLog, LogPageLimit, MAX_FEED_BATCH_BYTES, MachineLease, MachineLeaseError,
    NewCatalogEntry, PackedReplayRows, PutResultError, RegisterOutcome, RegisteredRuntime,
    ReplayPage, RuntimeKind, RuntimeRegistration, Snapshot, SnapshotKey, StatusCounts,
    TenantCounts, redundant_snapshot,
};
use crate::row::{
    self, CATALOG, EVENT, EXECUTION, MACHINE, RUNTIME, ResultRow, RowReader, SNAPSHOT,
    STORED_RESULT, Table, encode_catalog_entry, encode_machine, encode_runtime, encode_snapshot,
    encode_stored_result,
};

/// Start of every event query. With one writer, positions follow the order of commits, so all
/// events have the same `tx`.
static EVENT_SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, 0, position FROM event", EVENT.column_list()));

static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")
});

static SELECT_REPLAY_ROWS: LazyLock<String> = LazyLock::new(|| {
    let columns = row::replay_columns("instr(meta, 'object') > 0");
    format!(
        "SELECT {columns} FROM event WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    )
});

static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE execution_id = ?1 AND event_id = ?2")
});

static SELECT_FEED: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE position > ?1 ORDER BY position LIMIT ?2")
});

static SELECT_EXECUTION: LazyLock<String> =
    LazyLock::new(|| select_sql(&EXECUTION, "WHERE execution_id = ?1"));

/// Lists executions of any status, and of one status. They are two statements because they use
/// different indexes, and SQLite plans a statement before its parameters are bound.
pub(super) static LIST_EXECUTIONS: LazyLock<String> =
    LazyLock::new(|| select_sql(&EXECUTION, include_str!("sql/list_executions.sql")));

pub(super) static LIST_EXECUTIONS_BY_STATUS: LazyLock<String> =
    LazyLock::new(|| LIST_EXECUTIONS.replace("?2 IS NULL", "status = ?2"));

pub(super) const COUNT_LIVE_EXECUTIONS: &str = include_str!("sql/live_executions.sql");

static SELECT_SNAPSHOT: LazyLock<String> = LazyLock::new(|| {
    let newest = "WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 AND version <= ?4
        ORDER BY version DESC LIMIT 1";
    select_sql(&SNAPSHOT, newest)
});

const SNAPSHOT_VERSIONS: &str = "SELECT version FROM projection_snapshot
    WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 ORDER BY version";

const DELETE_SNAPSHOT: &str = "DELETE FROM projection_snapshot
    WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 AND version = ?4";

static SELECT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = ?1 AND result_id = ?2";
    select_sql(&STORED_RESULT, by_id)
});

static SELECT_OPEN_CHILDREN: LazyLock<String> = LazyLock::new(|| {
    let open = "WHERE parent_execution_id = ?1 AND ended = 0 AND (?2 IS NULL OR execution_id > ?2)
        ORDER BY execution_id LIMIT ?3";
    select_sql(&EXECUTION, open)
});

static CATALOG_VERSIONS: LazyLock<String> = LazyLock::new(|| {
    let newest_first = "WHERE tenant_id = ?1 AND path = ?2 AND (?3 IS NULL OR version < ?3)
        ORDER BY version DESC LIMIT ?4";
    select_sql(&CATALOG, newest_first)
});

static CATALOG_BY_ID: LazyLock<String> =
    LazyLock::new(|| select_sql(&CATALOG, "WHERE tenant_id = ?1 AND catalog_id = ?2"));

static CATALOG_BY_VERSION: LazyLock<String> = LazyLock::new(|| {
    let by_version = "WHERE tenant_id = ?1 AND path = ?2 AND version = ?3";
    select_sql(&CATALOG, by_version)
});

static CATALOG_LATEST: LazyLock<String> = LazyLock::new(|| {
    let latest = "WHERE tenant_id = ?1 AND path = ?2 ORDER BY version DESC LIMIT 1";
    select_sql(&CATALOG, latest)
});

static LIST_CATALOG: LazyLock<String> =
    LazyLock::new(|| select_sql(&CATALOG, include_str!("sql/list_catalog.sql")));

static SELECT_RUNTIME: LazyLock<String> =
    LazyLock::new(|| select_sql(&RUNTIME, "WHERE kind = ?1 AND name = ?2"));

static LIST_RUNTIMES: LazyLock<String> =
    LazyLock::new(|| select_sql(&RUNTIME, "WHERE kind = ?1 ORDER BY name"));

static SELECT_MACHINES: LazyLock<String> = LazyLock::new(|| select_sql(&MACHINE, ""));

pub(super) fn select_sql(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.column_list(), table.name)
}

/// Inserts a row. `verb` decides how a row with the same key is handled.
pub(super) fn insert_row(
    connection: &Connection,
    verb: &str,
    table: &Table,
    cells: Vec<row::Cell>,
) -> Result<usize, StoreError> {
    let (columns, placeholders) = (table.column_list(), placeholder_list(cells.len()));
    let sql = format!("{verb} INTO {} ({columns}) VALUES ({placeholders})", table.name);
    execute_cached(connection, &sql, params_from_iter(cells)).map_err(to_store_error)
}

pub(super) fn is_dropped(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM retention_range WHERE lo <= ?1 AND ?1 < hi)";
    let found = query_first(connection, sql, [execution_id.get()], |cells| {
        RowReader::new(&EXECUTION, cells).read_next()
    })?;
    Ok(found.unwrap_or(false))
}

pub(super) fn read_events(
    connection: &Connection,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<Vec<StoredEvent>, StoreError> {
    let params = (execution_id.get(), after.get(), page.get());
    query_all(connection, &SELECT_EVENTS, params, row::decode_stored_event)
}

pub(super) fn read_replay_rows(
    connection: &Connection,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<ReplayPage, StoreError> {
    let mut rows = PackedReplayRows::new(execution_id);
    let mut is_current = true;
    let params = (execution_id.get(), after.get(), page.get());
    query_each(connection, &SELECT_REPLAY_ROWS, params, |cells| {
        is_current = row::push_replay_row(&mut rows, cells)?;
        Ok(is_current && rows.text_bytes() < row::MAX_REPLAY_PAGE_BYTES)
    })?;
    if is_current {
        return Ok(ReplayPage::Rows(rows));
    }
    read_events(connection, execution_id, after, page).map(ReplayPage::Events)
}

/// Finds events and their executions. All reads see one snapshot, which a reader holds for a call.
pub(super) fn find_known_events(
    connection: &Connection,
    keys: &[EventKey],
) -> Result<KnownEvents, StoreError> {
    let keys: BTreeSet<_> = keys.iter().copied().collect();
    let ids: BTreeSet<_> = keys.iter().map(|key| key.execution_id).collect();
    let mut known = KnownEvents::default();
    for id in ids {
        known.executions.extend(find_execution(connection, id)?);
    }
    for key in keys {
        let found = find_event(connection, key.execution_id, key.event_id)?;
        known.events.extend(found);
    }
    Ok(known)
}

pub(super) fn find_event(
    connection: &Connection,
    execution_id: ExecutionId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    let params = (execution_id.get(), event_id.get());
    query_first(connection, &SELECT_EVENT, params, row::decode_stored_event)
}

/// Reads events of the feed. A batch with only unreadable events is skipped, since the caller takes
/// an empty batch for the end of the feed.
pub(super) fn read_feed(
    connection: &Connection,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch, StoreError> {
    loop {
        let params = (after.position, limit.get());
        let decode = row::decode_feed_event;
        let (events, is_cut) =
            query_within_bytes(connection, &SELECT_FEED, params, MAX_FEED_BATCH_BYTES, decode)?;
        let batch = FeedBatch::from_items(events, after, limit, is_cut).into_readable();
        if !batch.is_all_skipped() {
            return Ok(batch);
        }
        after = batch.next;
    }
}

pub(super) fn find_execution(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    let params = [execution_id.get()];
    query_first(connection, &SELECT_EXECUTION, params, row::decode_execution)
}

pub(super) fn list_executions(
    connection: &Connection,
    filter: &ExecutionFilter,
) -> Result<ExecutionPage, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.status.map(ExecutionStatus::as_str),
        filter.path.as_ref().map(PlaybookPath::as_str),
        filter.parent_execution_id.map(ExecutionId::get),
        filter.after.map(|after| to_micros(after.started_at)),
        filter.after.map(|after| after.execution_id.get()),
        filter.limit.get(),
    ];
    let sql = match filter.status {
        Some(_) => &LIST_EXECUTIONS_BY_STATUS,
        None => &LIST_EXECUTIONS,
    };
    let executions = query_all(connection, sql, params, row::decode_execution)?;
    Ok(ExecutionPage::from_rows(executions, filter.limit))
}

pub(super) fn load_execution(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    page: LogPageLimit,
) -> Result<Option<LoadedLog>, StoreError> {
    let Some(execution) = find_execution(connection, execution_id)? else {
        return Ok(None);
    };
    let snapshot = find_snapshot(connection, execution_id, key, execution.head.version)?;
    let after = snapshot.as_ref().map_or(ExecutionVersion::EMPTY, |snapshot| snapshot.head.version);
    let tail = read_events(connection, execution_id, after, page)?;
    Ok(Some(LoadedLog::from_page(execution, snapshot, tail, page)))
}

pub(super) fn find_snapshot(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    max_version: ExecutionVersion,
) -> Result<Option<Snapshot>, StoreError> {
    let params =
        params![execution_id.get(), key.kind.as_str(), key.fold_version, max_version.get()];
    query_first(connection, &SELECT_SNAPSHOT, params, row::decode_snapshot)
}

pub(super) fn write_snapshot(
    connection: &Connection,
    snapshot: &Snapshot,
) -> Result<(), StoreError> {
    let cells = encode_snapshot(snapshot);
    insert_row(connection, "INSERT OR IGNORE", &SNAPSHOT, cells)?;
    let (id, key) = (snapshot.execution_id, &snapshot.key);
    let versions = query_all(
        connection,
        SNAPSHOT_VERSIONS,
        params![id.get(), key.kind.as_str(), key.fold_version],
        |cells| RowReader::new(&SNAPSHOT, cells).read_next(),
    )?;
    match redundant_snapshot(&versions) {
        Some(version) => delete_snapshot(connection, id, key, version),
        None => Ok(()),
    }
}

pub(super) fn delete_snapshot(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    version: ExecutionVersion,
) -> Result<(), StoreError> {
    let params = params![execution_id.get(), key.kind.as_str(), key.fold_version, version.get()];
    let deleted = execute_cached(connection, DELETE_SNAPSHOT, params);
    deleted.map(drop).map_err(to_store_error)
}

pub(super) fn find_result(
    connection: &Connection,
    execution_id: ExecutionId,
    result_id: ResultId,
) -> Result<Option<ResultRow>, StoreError> {
    let params = (execution_id.get(), result_id.get());
    query_first(connection, &SELECT_RESULT, params, row::decode_result)
}

/// Stores a result. A result id that is in use is reported in the inner result.
pub(super) fn put_result(
    connection: &Connection,
    row: &ResultRow,
) -> Result<Result<(), PutResultError>, StoreError> {
    let result = &row.result;
    let sql = "SELECT sha256 FROM result_store WHERE execution_id = ?1 AND result_id = ?2";
    let id = (result.execution_id.get(), result.result_id.get());
    let existing = query_first(connection, sql, id, |cells| {
        RowReader::new(&STORED_RESULT, cells).read_next()
    })?;
    if let Some(existing) = existing {
        return Ok(result.check_same_digest(existing));
    }
    let cells = encode_stored_result(row);
    insert_row(connection, "INSERT", &STORED_RESULT, cells)?;
    Ok(Ok(()))
}

pub(super) fn list_open_children(
    connection: &Connection,
    parent: ExecutionId,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<Vec<Execution>, StoreError> {
    let params = (parent.get(), after.map(ExecutionId::get), limit.get());
    query_all(connection, &SELECT_OPEN_CHILDREN, params, row::decode_execution)
}

pub(super) fn tenant_counts(
    connection: &Connection,
    tenant_id: &TenantId,
) -> Result<TenantCounts, StoreError> {
    let tenant = [tenant_id.as_str()];
    let by_status = "SELECT status, count(*) FROM execution WHERE tenant_id = ?1 GROUP BY status";
    let executions =
        query_all(connection, by_status, tenant, row::decode_count::<ExecutionStatus>)?;
    let by_kind = include_str!("sql/count_catalog.sql");
    let definitions = query_all(connection, by_kind, tenant, row::decode_count::<Text>)?;
    Ok(TenantCounts {
        executions: executions.into_iter().collect(),
        definitions: definitions.into_iter().collect(),
    })
}

pub(super) fn count_executions_by_status(
    connection: &Connection,
) -> Result<StatusCounts, StoreError> {
    let by_status = "SELECT status, count(*) FROM execution GROUP BY status";
    let counted = query_all(connection, by_status, [], row::decode_count::<ExecutionStatus>)?;
    Ok(counted.into_iter().collect())
}

pub(super) fn count_live_executions(
    connection: &Connection,
    tenant_id: &TenantId,
    max_count: u32,
) -> Result<u32, StoreError> {
    let params =
        params![tenant_id.as_str(), i64::from(max_count) * LIVE_COUNT_READ_FACTOR, max_count];
    let mut statement = connection.prepare_cached(COUNT_LIVE_EXECUTIONS).map_err(to_store_error)?;
    statement.query_row(params, |row| row.get(0)).map_err(to_store_error)
}

pub(super) fn list_due_timers(
    connection: &Connection,
    now: Timestamp,
    after: Option<&DueTimer>,
    limit: PageLimit,
) -> Result<Vec<DueTimer>, StoreError> {
    let sql = "SELECT execution_id, timer_id, fire_at FROM timer
        WHERE fire_at <= ?1 AND (fire_at, execution_id, timer_id) > (?2, ?3, ?4)
            AND NOT coalesce(
                (SELECT paused FROM execution WHERE execution.execution_id = timer.execution_id), 0
            )
        ORDER BY fire_at, execution_id, timer_id LIMIT ?5";
    let after = after.map_or((i64::MIN, 0, ""), |after| {
        let fire_at = to_micros(after.fire_at);
        (fire_at, after.execution_id.get(), after.timer_id.as_str())
    });
    let params = params![to_micros(now), after.0, after.1, after.2, limit.get()];
    query_all(connection, sql, params, row::decode_due_timer)
}

pub(super) fn register_definition(
    connection: &Connection,
    new: NewCatalogEntry,
) -> Result<RegisterOutcome, StoreError> {
    let key = CatalogKey::Latest(new.path.clone());
    let newest = find_catalog_entry(connection, &new.tenant_id, &key)?;
    set_definition_archived(connection, &new.tenant_id, &new.path, None)?;
    let registered = new.register_after(newest);
    if !registered.is_unchanged {
        insert_row(connection, "INSERT", &CATALOG, encode_catalog_entry(&registered.entry))?;
    }
    Ok(registered)
}

pub(super) fn find_catalog_entry(
    connection: &Connection,
    tenant_id: &TenantId,
    key: &CatalogKey,
) -> Result<Option<CatalogEntry>, StoreError> {
    let tenant = tenant_id.as_str();
    let decode = row::decode_catalog_entry;
    match key {
        CatalogKey::Id(id) => query_first(connection, &CATALOG_BY_ID, (tenant, id.get()), decode),
        CatalogKey::Latest(path) => {
            query_first(connection, &CATALOG_LATEST, (tenant, path.as_str()), decode)
        }
        CatalogKey::Version(path, version) => {
            let params = (tenant, path.as_str(), version);
            query_first(connection, &CATALOG_BY_VERSION, params, decode)
        }
    }
}

pub(super) fn list_catalog(
    connection: &Connection,
    filter: &CatalogFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.kind.as_deref(),
        filter.after.as_ref().map(PlaybookPath::as_str),
        filter.limit.get(),
        filter.include_archived,
    ];
    query_all(connection, &LIST_CATALOG, params, row::decode_catalog_entry)
}

pub(super) fn list_catalog_versions(
    connection: &Connection,
    filter: &CatalogVersionFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.path.as_str(),
        filter.before,
        filter.limit.get(),
    ];
    query_all(connection, &CATALOG_VERSIONS, params, row::decode_catalog_entry)
}

pub(super) fn set_definition_archived(
    connection: &Connection,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let sql = "UPDATE catalog SET archived_at = ?3 WHERE tenant_id = ?1 AND path = ?2
        AND (archived_at IS NULL) <> (?3 IS NULL)";
    let params = (tenant_id.as_str(), path.as_str(), since.map(to_micros));
    Ok(execute_cached(connection, sql, params).map_err(to_store_error)? > 0)
}

pub(super) fn register_runtime(
    connection: &Connection,
    new: RuntimeRegistration,
) -> Result<RegisteredRuntime, StoreError> {
    let params = (new.kind.as_str(), new.name.as_str());
    let existing = query_first(connection, &SELECT_RUNTIME, params, row::decode_runtime)?;
    let runtime = new.into_runtime(existing.as_ref());
    insert_row(connection, "INSERT OR REPLACE", &RUNTIME, encode_runtime(&runtime))?;
    Ok(runtime)
}

pub(super) fn record_heartbeat(
    connection: &Connection,
    kind: RuntimeKind,
    name: &Text,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE runtime SET heartbeat = ?3 WHERE kind = ?1 AND name = ?2";
    let params = (kind.as_str(), name.as_str(), to_micros(now));
    Ok(execute_cached(connection, sql, params).map_err(to_store_error)? > 0)
}

pub(super) fn remove_runtime(
    connection: &Connection,
    kind: RuntimeKind,
    name: &Text,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM runtime WHERE kind = ?1 AND name = ?2";
    let params = (kind.as_str(), name.as_str());
    Ok(execute_cached(connection, sql, params).map_err(to_store_error)? > 0)
}

pub(super) fn list_runtimes(
    connection: &Connection,
    kind: RuntimeKind,
) -> Result<Vec<RegisteredRuntime>, StoreError> {
    query_all(connection, &LIST_RUNTIMES, [kind.as_str()], row::decode_runtime)
}

/// Applies a change to the table of machines, and writes the one row that it changed.
pub(super) fn update_machine_table(
    connection: &Connection,
    change: impl FnOnce(&mut MachineTable) -> Result<MachineLease, MachineLeaseError>,
) -> Result<Result<MachineLease, MachineLeaseError>, StoreError> {
    let rows = query_all(connection, &SELECT_MACHINES, [], row::decode_machine)?;
    let mut machines = MachineTable(rows.into_iter().collect());
    let outcome = change(&mut machines);
    if let Ok(lease) = &outcome
        && let Some(machine) = machines.0.get(&lease.machine_id)
    {
        let cells = encode_machine(lease.machine_id, machine);
        insert_row(connection, "INSERT OR REPLACE", &MACHINE, cells)?;
    }
    Ok(outcome)
}
