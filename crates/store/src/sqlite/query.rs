//! Everything but appends and leases.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    EventId, ExecutionId, ExecutionStatus, FeedPosition, PlaybookPath, ResultId, StoredEvent,
    TenantId, Text, Timestamp, Version,
};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{all, each, execute, failure, first, micros, places, within};
use crate::error::StoreError;
use crate::machines::Machines;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, Counts, DueTimer, EventKey, Execution,
    ExecutionFilter, ExecutionPage, FEED_BYTES, FeedBatch, FeedLimit, GistRows, Gists, Known,
    Loaded, LogPage, MachineLease, MachineRefused, NewCatalogEntry, NewRuntime, PutRefused,
    READ_FOR_ONE, Registered, Runtime, RuntimeKind, Snapshot, SnapshotKey, StatusCounts,
    VersionFilter, superfluous,
};
use crate::row::{
    self, CATALOG, EVENT, EXECUTION, KeptResult, MACHINE, RUNTIME, Reader, SNAPSHOT, STORED_RESULT,
    Table, catalog_row, machine_row, runtime_row, snapshot_row, stored_result_row,
};

/// One writer makes the order of commits that of positions, so all have the same `tx`.
static EVENTS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, 0, position FROM event", EVENT.list()));

static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
    format!("{events} WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")
});

static SELECT_GISTS: LazyLock<String> = LazyLock::new(|| {
    let columns = row::gist_columns("instr(meta, 'object') > 0");
    format!(
        "SELECT {columns} FROM event WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    )
});

static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
    format!("{events} WHERE execution_id = ?1 AND event_id = ?2")
});

static SELECT_FEED: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENTS;
    format!("{events} WHERE position > ?1 ORDER BY position LIMIT ?2")
});

static SELECT_EXECUTION: LazyLock<String> =
    LazyLock::new(|| select(&EXECUTION, "WHERE execution_id = ?1"));

/// Executions of any status, and of one. They are two statements since each has an index of its own,
/// and a plan is made before it is known what is asked for.
pub(super) static LIST_EXECUTIONS: LazyLock<String> =
    LazyLock::new(|| select(&EXECUTION, include_str!("sql/list_executions.sql")));

pub(super) static LIST_BY_STATUS: LazyLock<String> =
    LazyLock::new(|| LIST_EXECUTIONS.replace("?2 IS NULL", "status = ?2"));

pub(super) const LIVE: &str = include_str!("sql/live_executions.sql");

static SELECT_SNAPSHOT: LazyLock<String> = LazyLock::new(|| {
    let newest = "WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 AND version <= ?4
        ORDER BY version DESC LIMIT 1";
    select(&SNAPSHOT, newest)
});

const SNAPSHOT_VERSIONS: &str = "SELECT version FROM projection_snapshot
    WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 ORDER BY version";

const DROP_SNAPSHOT: &str = "DELETE FROM projection_snapshot
    WHERE execution_id = ?1 AND kind = ?2 AND fold_version = ?3 AND version = ?4";

static SELECT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = ?1 AND result_id = ?2";
    select(&STORED_RESULT, by_id)
});

static SELECT_CHILDREN: LazyLock<String> = LazyLock::new(|| {
    let open = "WHERE parent_execution_id = ?1 AND ended = 0 AND (?2 IS NULL OR execution_id > ?2)
        ORDER BY execution_id LIMIT ?3";
    select(&EXECUTION, open)
});

static CATALOG_VERSIONS: LazyLock<String> = LazyLock::new(|| {
    let newest_first = "WHERE tenant_id = ?1 AND path = ?2 AND (?3 IS NULL OR version < ?3)
        ORDER BY version DESC LIMIT ?4";
    select(&CATALOG, newest_first)
});

static CATALOG_BY_ID: LazyLock<String> =
    LazyLock::new(|| select(&CATALOG, "WHERE tenant_id = ?1 AND catalog_id = ?2"));

static CATALOG_BY_VERSION: LazyLock<String> = LazyLock::new(|| {
    let by_version = "WHERE tenant_id = ?1 AND path = ?2 AND version = ?3";
    select(&CATALOG, by_version)
});

static CATALOG_LATEST: LazyLock<String> = LazyLock::new(|| {
    let latest = "WHERE tenant_id = ?1 AND path = ?2 ORDER BY version DESC LIMIT 1";
    select(&CATALOG, latest)
});

static LIST_CATALOG: LazyLock<String> =
    LazyLock::new(|| select(&CATALOG, include_str!("sql/list_catalog.sql")));

static SELECT_RUNTIME: LazyLock<String> =
    LazyLock::new(|| select(&RUNTIME, "WHERE kind = ?1 AND name = ?2"));

static LIST_RUNTIMES: LazyLock<String> =
    LazyLock::new(|| select(&RUNTIME, "WHERE kind = ?1 ORDER BY name"));

static SELECT_MACHINES: LazyLock<String> = LazyLock::new(|| select(&MACHINE, ""));

pub(super) fn select(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.list(), table.name)
}

/// Writes a row, in place of one with the same key where `verb` says so.
pub(super) fn put(
    connection: &Connection,
    verb: &str,
    table: &Table,
    cells: Vec<row::Cell>,
) -> Result<usize, StoreError> {
    let (columns, places) = (table.list(), places(cells.len()));
    let sql = format!("{verb} INTO {} ({columns}) VALUES ({places})", table.name);
    execute(connection, &sql, params_from_iter(cells)).map_err(failure)
}

pub(super) fn is_gone(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM retention_range WHERE lo <= ?1 AND ?1 < hi)";
    let found = first(connection, sql, [execution_id.get()], |cells| {
        Reader::new(&EXECUTION, cells).take()
    })?;
    Ok(found.unwrap_or(false))
}

pub(super) fn events(
    connection: &Connection,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Vec<StoredEvent>, StoreError> {
    let params = (execution_id.get(), after.get(), page.get());
    all(connection, &SELECT_EVENTS, params, row::stored_event)
}

pub(super) fn gists(
    connection: &Connection,
    execution_id: ExecutionId,
    after: Version,
    page: LogPage,
) -> Result<Gists, StoreError> {
    let mut rows = GistRows::new(execution_id);
    let mut is_current = true;
    let params = (execution_id.get(), after.get(), page.get());
    each(connection, &SELECT_GISTS, params, |cells| {
        is_current = row::push_gist(&mut rows, cells)?;
        Ok(is_current && rows.bytes() < row::GIST_BYTES)
    })?;
    if is_current {
        return Ok(Gists::Rows(rows));
    }
    events(connection, execution_id, after, page).map(Gists::Whole)
}

/// One moment for all of it, since a reader holds one for a call.
pub(super) fn known(connection: &Connection, keys: &[EventKey]) -> Result<Known, StoreError> {
    let keys: BTreeSet<_> = keys.iter().copied().collect();
    let ids: BTreeSet<_> = keys.iter().map(|key| key.execution_id).collect();
    let mut known = Known::default();
    for id in ids {
        known.executions.extend(execution(connection, id)?);
    }
    for key in keys {
        let found = event(connection, key.execution_id, key.event_id)?;
        known.events.extend(found);
    }
    Ok(known)
}

pub(super) fn event(
    connection: &Connection,
    execution_id: ExecutionId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    let params = (execution_id.get(), event_id.get());
    first(connection, &SELECT_EVENT, params, row::stored_event)
}

/// Reads on where nothing of a batch can be read: whoever finds nothing believes to be at the end.
pub(super) fn feed(
    connection: &Connection,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch, StoreError> {
    loop {
        let params = (after.position, limit.get());
        let read = row::feed_event;
        let (events, is_cut) = within(connection, &SELECT_FEED, params, FEED_BYTES, read)?;
        let batch = FeedBatch::of(events, after, limit, is_cut).readable();
        if !batch.is_passed_by() {
            return Ok(batch);
        }
        after = batch.next;
    }
}

pub(super) fn execution(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    let params = [execution_id.get()];
    first(connection, &SELECT_EXECUTION, params, row::execution)
}

pub(super) fn executions(
    connection: &Connection,
    filter: &ExecutionFilter,
) -> Result<ExecutionPage, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.status.map(ExecutionStatus::as_str),
        filter.path.as_ref().map(PlaybookPath::as_str),
        filter.parent_execution_id.map(ExecutionId::get),
        filter.after.map(|after| micros(after.started_at)),
        filter.after.map(|after| after.execution_id.get()),
        filter.limit.get(),
    ];
    let sql = match filter.status {
        Some(_) => &LIST_BY_STATUS,
        None => &LIST_EXECUTIONS,
    };
    let executions = all(connection, sql, params, row::execution)?;
    Ok(ExecutionPage::of(executions, filter.limit))
}

pub(super) fn load(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    page: LogPage,
) -> Result<Option<Loaded>, StoreError> {
    let Some(execution) = execution(connection, execution_id)? else {
        return Ok(None);
    };
    let snapshot = snapshot(connection, execution_id, key, execution.head.version)?;
    let after = snapshot
        .as_ref()
        .map_or(Version::EMPTY, |snapshot| snapshot.head.version);
    let tail = events(connection, execution_id, after, page)?;
    Ok(Some(Loaded::of(execution, snapshot, tail, page)))
}

pub(super) fn snapshot(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    at_most: Version,
) -> Result<Option<Snapshot>, StoreError> {
    let params = params![
        execution_id.get(),
        key.kind.as_str(),
        key.fold_version,
        at_most.get()
    ];
    first(connection, &SELECT_SNAPSHOT, params, row::snapshot)
}

pub(super) fn write_snapshot(
    connection: &Connection,
    snapshot: &Snapshot,
) -> Result<(), StoreError> {
    let cells = snapshot_row(snapshot);
    put(connection, "INSERT OR IGNORE", &SNAPSHOT, cells)?;
    let (id, key) = (snapshot.execution_id, &snapshot.key);
    let versions = all(
        connection,
        SNAPSHOT_VERSIONS,
        params![id.get(), key.kind.as_str(), key.fold_version],
        |cells| Reader::new(&SNAPSHOT, cells).take(),
    )?;
    match superfluous(&versions) {
        Some(version) => drop_snapshot(connection, id, key, version),
        None => Ok(()),
    }
}

pub(super) fn drop_snapshot(
    connection: &Connection,
    execution_id: ExecutionId,
    key: &SnapshotKey,
    version: Version,
) -> Result<(), StoreError> {
    let params = params![
        execution_id.get(),
        key.kind.as_str(),
        key.fold_version,
        version.get()
    ];
    let dropped = execute(connection, DROP_SNAPSHOT, params);
    dropped.map(drop).map_err(failure)
}

pub(super) fn result(
    connection: &Connection,
    execution_id: ExecutionId,
    result_id: ResultId,
) -> Result<Option<KeptResult>, StoreError> {
    let params = (execution_id.get(), result_id.get());
    first(connection, &SELECT_RESULT, params, row::result)
}

/// Whether the id was free is an answer, not a failure.
pub(super) fn put_result(
    connection: &Connection,
    kept: &KeptResult,
) -> Result<Result<(), PutRefused>, StoreError> {
    let result = &kept.result;
    let sql = "SELECT sha256 FROM result_store WHERE execution_id = ?1 AND result_id = ?2";
    let id = (result.execution_id.get(), result.result_id.get());
    let there = first(connection, sql, id, |cells| {
        Reader::new(&STORED_RESULT, cells).take()
    })?;
    if let Some(there) = there {
        return Ok(result.beside(there));
    }
    let cells = stored_result_row(kept);
    put(connection, "INSERT", &STORED_RESULT, cells)?;
    Ok(Ok(()))
}

pub(super) fn open_children(
    connection: &Connection,
    parent: ExecutionId,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<Vec<Execution>, StoreError> {
    let params = (parent.get(), after.map(ExecutionId::get), limit.get());
    all(connection, &SELECT_CHILDREN, params, row::execution)
}

pub(super) fn counts(connection: &Connection, tenant_id: &TenantId) -> Result<Counts, StoreError> {
    let tenant = [tenant_id.as_str()];
    let by_status = "SELECT status, count(*) FROM execution WHERE tenant_id = ?1 GROUP BY status";
    let executions = all(
        connection,
        by_status,
        tenant,
        row::count_of::<ExecutionStatus>,
    )?;
    let by_kind = include_str!("sql/count_catalog.sql");
    let definitions = all(connection, by_kind, tenant, row::count_of::<Text>)?;
    Ok(Counts {
        executions: executions.into_iter().collect(),
        definitions: definitions.into_iter().collect(),
    })
}

pub(super) fn executions_by_status(connection: &Connection) -> Result<StatusCounts, StoreError> {
    let by_status = "SELECT status, count(*) FROM execution GROUP BY status";
    let counted = all(connection, by_status, [], row::count_of::<ExecutionStatus>)?;
    Ok(counted.into_iter().collect())
}

pub(super) fn live_executions(
    connection: &Connection,
    tenant_id: &TenantId,
    most: u32,
) -> Result<u32, StoreError> {
    let params = params![tenant_id.as_str(), i64::from(most) * READ_FOR_ONE, most];
    let mut statement = connection.prepare_cached(LIVE).map_err(failure)?;
    statement
        .query_row(params, |row| row.get(0))
        .map_err(failure)
}

pub(super) fn due(
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
        let at = micros(after.fire_at);
        (at, after.execution_id.get(), after.timer_id.as_str())
    });
    let params = params![micros(now), after.0, after.1, after.2, limit.get()];
    all(connection, sql, params, row::due_timer)
}

pub(super) fn register(
    connection: &Connection,
    new: NewCatalogEntry,
) -> Result<Registered, StoreError> {
    let key = CatalogKey::Latest(new.path.clone());
    let newest = catalog_entry(connection, &new.tenant_id, &key)?;
    archive(connection, &new.tenant_id, &new.path, None)?;
    let registered = new.beside(newest);
    if !registered.is_unchanged {
        put(
            connection,
            "INSERT",
            &CATALOG,
            catalog_row(&registered.entry),
        )?;
    }
    Ok(registered)
}

pub(super) fn catalog_entry(
    connection: &Connection,
    tenant_id: &TenantId,
    key: &CatalogKey,
) -> Result<Option<CatalogEntry>, StoreError> {
    let tenant = tenant_id.as_str();
    let read = row::catalog_entry;
    match key {
        CatalogKey::Id(id) => first(connection, &CATALOG_BY_ID, (tenant, id.get()), read),
        CatalogKey::Latest(path) => {
            first(connection, &CATALOG_LATEST, (tenant, path.as_str()), read)
        }
        CatalogKey::Version(path, version) => {
            let params = (tenant, path.as_str(), version);
            first(connection, &CATALOG_BY_VERSION, params, read)
        }
    }
}

pub(super) fn catalog(
    connection: &Connection,
    filter: &CatalogFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.kind.as_deref(),
        filter.after.as_ref().map(PlaybookPath::as_str),
        filter.limit.get(),
        filter.archived,
    ];
    all(connection, &LIST_CATALOG, params, row::catalog_entry)
}

pub(super) fn catalog_versions(
    connection: &Connection,
    filter: &VersionFilter,
) -> Result<Vec<CatalogEntry>, StoreError> {
    let params = params![
        filter.tenant_id.as_str(),
        filter.path.as_str(),
        filter.before,
        filter.limit.get(),
    ];
    all(connection, &CATALOG_VERSIONS, params, row::catalog_entry)
}

pub(super) fn archive(
    connection: &Connection,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let sql = "UPDATE catalog SET archived_at = ?3 WHERE tenant_id = ?1 AND path = ?2
        AND (archived_at IS NULL) <> (?3 IS NULL)";
    let params = (tenant_id.as_str(), path.as_str(), since.map(micros));
    Ok(execute(connection, sql, params).map_err(failure)? > 0)
}

pub(super) fn register_runtime(
    connection: &Connection,
    new: NewRuntime,
) -> Result<Runtime, StoreError> {
    let params = (new.kind.as_str(), new.name.as_str());
    let known = first(connection, &SELECT_RUNTIME, params, row::runtime)?;
    let runtime = new.into_runtime(known.as_ref());
    put(
        connection,
        "INSERT OR REPLACE",
        &RUNTIME,
        runtime_row(&runtime),
    )?;
    Ok(runtime)
}

pub(super) fn heartbeat(
    connection: &Connection,
    kind: RuntimeKind,
    name: &Text,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE runtime SET heartbeat = ?3 WHERE kind = ?1 AND name = ?2";
    let params = (kind.as_str(), name.as_str(), micros(now));
    Ok(execute(connection, sql, params).map_err(failure)? > 0)
}

pub(super) fn remove_runtime(
    connection: &Connection,
    kind: RuntimeKind,
    name: &Text,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM runtime WHERE kind = ?1 AND name = ?2";
    let params = (kind.as_str(), name.as_str());
    Ok(execute(connection, sql, params).map_err(failure)? > 0)
}

pub(super) fn runtimes(
    connection: &Connection,
    kind: RuntimeKind,
) -> Result<Vec<Runtime>, StoreError> {
    all(connection, &LIST_RUNTIMES, [kind.as_str()], row::runtime)
}

/// Asks the table of machines, and writes the one row that the answer is about.
pub(super) fn change_machines(
    connection: &Connection,
    ask: impl FnOnce(&mut Machines) -> Result<MachineLease, MachineRefused>,
) -> Result<Result<MachineLease, MachineRefused>, StoreError> {
    let rows = all(connection, &SELECT_MACHINES, [], row::machine)?;
    let mut machines = Machines(rows.into_iter().collect());
    let answer = ask(&mut machines);
    if let Ok(lease) = &answer
        && let Some(machine) = machines.0.get(&lease.machine_id)
    {
        let cells = machine_row(lease.machine_id, machine);
        put(connection, "INSERT OR REPLACE", &MACHINE, cells)?;
    }
    Ok(answer)
}
