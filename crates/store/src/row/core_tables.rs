//! The tables of executions, commands, timers, snapshots, definitions and processes.

use noetl_types::id::HighWaterMark;
use noetl_types::{ExecutionId, ExecutionVersion, MachineId, Millis};

use super::cell::{Cell, FromCell, ToCell};
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::machine_ids::MachineRecord;
use crate::model::{
    CatalogEntry, Command, CommandLease, CommandPatch, DueTimer, Execution, ExecutionFacts,
    ExecutionView, ForkedFrom, LogHead, PoolCount, RegisteredRuntime, Snapshot, SnapshotKey,
    StepInstance,
};
use crate::prepare_append::PreparedAppend;

/// The columns of an execution that every append writes.
pub(crate) static EXECUTION_MUTABLE: Table = Table {
    name: "execution",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("version", ColumnKind::Int),
        ("chain_head", ColumnKind::Bytes),
        ("last_ingest_time", ColumnKind::Time),
        ("ended", ColumnKind::Bool),
        ("status", ColumnKind::Text),
        ("paused", ColumnKind::Bool),
        ("last_node_name", ColumnKind::Text),
        ("ended_at", ColumnKind::Time),
        ("error", ColumnKind::Text),
        ("last_event_id", ColumnKind::Int),
        ("last_event_type", ColumnKind::Text),
    ],
};

/// All columns of an execution.
pub(crate) static EXECUTION: Table = Table {
    name: "execution",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("version", ColumnKind::Int),
        ("chain_head", ColumnKind::Bytes),
        ("last_ingest_time", ColumnKind::Time),
        ("ended", ColumnKind::Bool),
        ("status", ColumnKind::Text),
        ("paused", ColumnKind::Bool),
        ("last_node_name", ColumnKind::Text),
        ("ended_at", ColumnKind::Time),
        ("error", ColumnKind::Text),
        ("last_event_id", ColumnKind::Int),
        ("last_event_type", ColumnKind::Text),
        ("tenant_id", ColumnKind::Text),
        ("organization_id", ColumnKind::Text),
        ("catalog_id", ColumnKind::Int),
        ("path", ColumnKind::Text),
        ("playbook_version", ColumnKind::Int),
        ("definition_sha256", ColumnKind::Bytes),
        ("parent_execution_id", ColumnKind::Int),
        ("root_execution_id", ColumnKind::Int),
        ("forked_from_id", ColumnKind::Int),
        ("forked_from_seq", ColumnKind::Int),
        ("origin", ColumnKind::Text),
        ("pool", ColumnKind::Text),
        ("priority", ColumnKind::Int),
        ("labels", ColumnKind::Json),
        ("started_at", ColumnKind::Time),
    ],
};

pub(crate) static COMMAND: Table = Table {
    name: "command",
    columns: &[
        ("command_id", ColumnKind::Int),
        ("execution_id", ColumnKind::Int),
        ("step_name", ColumnKind::Text),
        ("run", ColumnKind::Int),
        ("iter_index", ColumnKind::Int),
        ("frame_no", ColumnKind::Int),
        ("segment", ColumnKind::Int),
        ("server_retry", ColumnKind::Int),
        ("tool_kind", ColumnKind::Text),
        ("pool", ColumnKind::Text),
        ("priority", ColumnKind::Int),
        ("max_attempts", ColumnKind::Int),
        ("deadline_ms", ColumnKind::Int),
        ("not_before", ColumnKind::Time),
        ("held", ColumnKind::Bool),
        ("status", ColumnKind::Text),
        ("attempt", ColumnKind::Int),
        ("worker_id", ColumnKind::Text),
        ("lease_token", ColumnKind::Bytes),
        ("lease_until", ColumnKind::Time),
        ("claimed_at", ColumnKind::Time),
        ("started_at", ColumnKind::Time),
        ("completed_at", ColumnKind::Time),
        ("error", ColumnKind::Text),
    ],
};

/// The change of a command. See [`CommandPatch`].
#[cfg(feature = "postgres")]
pub(crate) static COMMAND_PATCH: Table = Table {
    name: "command",
    columns: &[
        ("command_id", ColumnKind::Int),
        ("execution_id", ColumnKind::Int),
        ("status", ColumnKind::Text),
        ("held", ColumnKind::Bool),
        ("ends_lease", ColumnKind::Bool),
        ("not_before", ColumnKind::Time),
        ("started_at", ColumnKind::Time),
        ("completed_at", ColumnKind::Time),
        ("error", ColumnKind::Text),
    ],
};

pub(crate) static TIMER: Table = Table {
    name: "timer",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("timer_id", ColumnKind::Text),
        ("fire_at", ColumnKind::Time),
    ],
};

/// A named count.
static COUNT: Table =
    Table { name: "count", columns: &[("what", ColumnKind::Text), ("count", ColumnKind::Int)] };

/// Load of a pool.
pub(crate) static POOL_COUNT: Table = Table {
    name: "command",
    columns: &[
        ("pool", ColumnKind::Text),
        ("pending", ColumnKind::Int),
        ("leased", ColumnKind::Int),
        ("oldest_lease", ColumnKind::Time),
    ],
};

pub(crate) static SNAPSHOT: Table = Table {
    name: "projection_snapshot",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("kind", ColumnKind::Text),
        ("fold_version", ColumnKind::Int),
        ("version", ColumnKind::Int),
        ("chain_head", ColumnKind::Bytes),
        ("last_ingest_time", ColumnKind::Time),
        ("state", ColumnKind::Bytes),
        ("checksum", ColumnKind::Bytes),
    ],
};

pub(crate) static CATALOG: Table = Table {
    name: "catalog",
    columns: &[
        ("catalog_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("path", ColumnKind::Text),
        ("version", ColumnKind::Int),
        ("kind", ColumnKind::Text),
        ("content", ColumnKind::Text),
        ("sha256", ColumnKind::Bytes),
        ("meta", ColumnKind::Json),
        ("created_at", ColumnKind::Time),
        ("archived_at", ColumnKind::Time),
    ],
};

/// A registered process.
pub(crate) static RUNTIME: Table = Table {
    name: "runtime",
    columns: &[
        ("runtime_id", ColumnKind::Int),
        ("kind", ColumnKind::Text),
        ("name", ColumnKind::Text),
        ("uri", ColumnKind::Text),
        ("detail", ColumnKind::Json),
        ("heartbeat", ColumnKind::Time),
        ("created_at", ColumnKind::Time),
    ],
};

pub(crate) static MACHINE: Table = Table {
    name: "machine",
    columns: &[
        ("machine_id", ColumnKind::Int),
        ("owner", ColumnKind::Text),
        ("epoch", ColumnKind::Int),
        ("lease_until", ColumnKind::Time),
        ("id_high_water", ColumnKind::Int),
    ],
};

/// Encodes the execution of an append. The fixed attributes are null unless it is new.
pub(crate) fn encode_execution(prepared: &PreparedAppend) -> Vec<Cell> {
    let append = &prepared.append;
    let view = &append.view;
    let head = &prepared.head;
    let last = prepared.last_event();
    let mut cells = cells![append.execution_id, head.version, head.chain, head.ingest_time,];
    cells.extend(encode_view_cells(view));
    cells
        .extend(
            cells![last.map(|(event_id, _)| event_id), last.map(|(_, event_type)| event_type),],
        );
    let facts = append.start.as_ref();
    let forked_from = facts.and_then(|facts| facts.forked_from);
    cells.extend(cells![
        facts.map(|it| &it.tenant_id),
        facts.map(|it| &it.organization_id),
        facts.and_then(|it| it.catalog_id),
        facts.and_then(|it| it.path.as_ref()),
        facts.and_then(|it| it.playbook_version),
        facts.and_then(|it| it.definition_sha256),
        facts.and_then(|it| it.parent_execution_id),
        facts.and_then(|it| it.root_execution_id),
        forked_from.map(|from| from.execution_id),
        forked_from.map(|from| from.seq),
        facts.map(|it| it.origin),
        facts.map(|it| &it.pool),
        facts.map(|it| it.priority),
        facts.and_then(|it| it.labels.as_ref()),
        facts.map(|it| it.started_at),
    ]);
    cells
}

/// Encodes the view of an execution, after its id and its version.
pub(crate) fn encode_view(
    execution_id: ExecutionId,
    version: ExecutionVersion,
    view: &ExecutionView,
) -> Vec<Cell> {
    let mut cells = cells![execution_id, version];
    cells.extend(encode_view_cells(view));
    cells
}

fn encode_view_cells(view: &ExecutionView) -> Vec<Cell> {
    cells![
        view.status.is_terminal(),
        view.status,
        view.paused,
        view.last_node_name,
        view.ended_at,
        view.error,
    ]
}

pub(crate) fn decode_execution(cells: RowCells<'_>) -> Result<Execution, CorruptRow> {
    let mut row = RowReader::new(&EXECUTION, cells);
    let execution_id = row.read_next()?;
    let head = LogHead {
        version: row.read_next()?,
        chain: row.read_next()?,
        ingest_time: row.read_next()?,
    };
    // The `ended` column is derived from the status.
    let _: bool = row.read_next()?;
    let view = ExecutionView {
        status: row.read_next()?,
        paused: row.read_next()?,
        last_node_name: row.read_next()?,
        ended_at: row.read_next()?,
        error: row.read_next()?,
    };
    Ok(Execution {
        execution_id,
        head,
        view,
        last_event_id: row.read_next()?,
        last_event_type: row.read_next()?,
        facts: decode_facts(&mut row)?,
    })
}

fn decode_facts(row: &mut RowReader) -> Result<ExecutionFacts, CorruptRow> {
    Ok(ExecutionFacts {
        tenant_id: row.read_next()?,
        organization_id: row.read_next()?,
        catalog_id: row.read_next()?,
        path: row.read_next()?,
        playbook_version: row.read_next()?,
        definition_sha256: row.read_next()?,
        parent_execution_id: row.read_next()?,
        root_execution_id: row.read_next()?,
        forked_from: match (row.read_next()?, row.read_next()?) {
            (Some(execution_id), Some(seq)) => Some(ForkedFrom { execution_id, seq }),
            (Some(_) | None, None) | (None, Some(_)) => None,
        },
        origin: row.read_next()?,
        pool: row.read_next()?,
        priority: row.read_next()?,
        labels: row.read_next()?,
        started_at: row.read_next()?,
    })
}

pub(crate) fn encode_command(command: &Command) -> Vec<Cell> {
    let instance = &command.instance;
    cells![
        command.command_id,
        command.execution_id,
        instance.step_name,
        instance.step_pass,
        instance.iter_index,
        instance.frame_no,
        instance.segment,
        instance.server_retry,
        command.tool_kind,
        command.pool,
        command.priority,
        command.max_attempts,
        command.deadline.map(Millis::as_ms),
        command.not_before,
        command.held,
        command.status,
        command.attempt,
        command.worker,
        command.lease.map(|lease| lease.token),
        command.lease.map(|lease| lease.until),
        command.claimed_at,
        command.started_at,
        command.completed_at,
        command.error,
    ]
}

pub(crate) fn decode_command(cells: RowCells<'_>) -> Result<Command, CorruptRow> {
    let mut row = RowReader::new(&COMMAND, cells);
    Ok(Command {
        command_id: row.read_next()?,
        execution_id: row.read_next()?,
        instance: StepInstance {
            step_name: row.read_next()?,
            step_pass: row.read_next()?,
            iter_index: row.read_next()?,
            frame_no: row.read_next()?,
            segment: row.read_next()?,
            server_retry: row.read_next()?,
        },
        tool_kind: row.read_next()?,
        pool: row.read_next()?,
        priority: row.read_next()?,
        max_attempts: row.read_next()?,
        deadline: row.read_next::<Option<u64>>()?.map(Millis::from_ms),
        not_before: row.read_next()?,
        held: row.read_next()?,
        status: row.read_next()?,
        attempt: row.read_next()?,
        worker: row.read_next()?,
        lease: match (row.read_next()?, row.read_next()?) {
            (Some(token), Some(until)) => Some(CommandLease { token, until }),
            (Some(_) | None, None) | (None, Some(_)) => None,
        },
        claimed_at: row.read_next()?,
        started_at: row.read_next()?,
        completed_at: row.read_next()?,
        error: row.read_next()?,
    })
}

pub(crate) fn encode_patch(execution_id: ExecutionId, patch: &CommandPatch) -> Vec<Cell> {
    cells![
        patch.command_id,
        execution_id,
        patch.status,
        patch.held,
        patch.ends_lease,
        patch.not_before,
        patch.started_at,
        patch.completed_at,
        patch.error,
    ]
}

pub(crate) fn decode_due_timer(cells: RowCells<'_>) -> Result<DueTimer, CorruptRow> {
    let mut row = RowReader::new(&TIMER, cells);
    Ok(DueTimer {
        execution_id: row.read_next()?,
        timer_id: row.read_next()?,
        fire_at: row.read_next()?,
    })
}

/// Decodes a named count.
pub(crate) fn decode_count<T: FromCell>(cells: RowCells<'_>) -> Result<(T, u64), CorruptRow> {
    let mut row = RowReader::new(&COUNT, cells);
    Ok((row.read_next()?, row.read_next()?))
}

pub(crate) fn decode_pool_count(cells: RowCells<'_>) -> Result<PoolCount, CorruptRow> {
    let mut row = RowReader::new(&POOL_COUNT, cells);
    Ok(PoolCount {
        pool: row.read_next()?,
        pending: row.read_next()?,
        leased: row.read_next()?,
        oldest_lease: row.read_next()?,
    })
}

pub(crate) fn encode_snapshot(snapshot: &Snapshot) -> Vec<Cell> {
    cells![
        snapshot.execution_id,
        snapshot.key.kind,
        snapshot.key.fold_version,
        snapshot.head.version,
        snapshot.head.chain,
        snapshot.head.ingest_time,
        *snapshot.state,
        snapshot.checksum,
    ]
}

pub(crate) fn decode_snapshot(cells: RowCells<'_>) -> Result<Snapshot, CorruptRow> {
    let mut row = RowReader::new(&SNAPSHOT, cells);
    Ok(Snapshot {
        execution_id: row.read_next()?,
        key: SnapshotKey { kind: row.read_next()?, fold_version: row.read_next()? },
        head: LogHead {
            version: row.read_next()?,
            chain: row.read_next()?,
            ingest_time: row.read_next()?,
        },
        state: row.read_next()?,
        checksum: row.read_next()?,
    })
}

pub(crate) fn encode_catalog_entry(entry: &CatalogEntry) -> Vec<Cell> {
    cells![
        entry.catalog_id,
        entry.tenant_id,
        entry.path,
        entry.version,
        entry.kind,
        entry.content,
        entry.sha256,
        entry.meta,
        entry.created_at,
        entry.archived_at,
    ]
}

pub(crate) fn decode_catalog_entry(cells: RowCells<'_>) -> Result<CatalogEntry, CorruptRow> {
    let mut row = RowReader::new(&CATALOG, cells);
    Ok(CatalogEntry {
        catalog_id: row.read_next()?,
        tenant_id: row.read_next()?,
        path: row.read_next()?,
        version: row.read_next()?,
        kind: row.read_next()?,
        content: row.read_next()?,
        sha256: row.read_next()?,
        meta: row.read_next()?,
        created_at: row.read_next()?,
        archived_at: row.read_next()?,
    })
}

pub(crate) fn encode_runtime(runtime: &RegisteredRuntime) -> Vec<Cell> {
    cells![
        runtime.runtime_id,
        runtime.kind,
        runtime.name,
        runtime.uri,
        runtime.detail,
        runtime.heartbeat,
        runtime.created_at,
    ]
}

pub(crate) fn decode_runtime(cells: RowCells<'_>) -> Result<RegisteredRuntime, CorruptRow> {
    let mut row = RowReader::new(&RUNTIME, cells);
    Ok(RegisteredRuntime {
        runtime_id: row.read_next()?,
        kind: row.read_next()?,
        name: row.read_next()?,
        uri: row.read_next()?,
        detail: row.read_next()?,
        heartbeat: row.read_next()?,
        created_at: row.read_next()?,
    })
}

pub(crate) fn encode_machine(machine_id: MachineId, machine: &MachineRecord) -> Vec<Cell> {
    cells![machine_id, machine.owner, machine.epoch, machine.lease_until, machine.high_water.get(),]
}

pub(crate) fn decode_machine(
    cells: RowCells<'_>,
) -> Result<(MachineId, MachineRecord), CorruptRow> {
    let mut row = RowReader::new(&MACHINE, cells);
    let machine_id = row.read_next()?;
    let machine = MachineRecord {
        owner: row.read_next()?,
        epoch: row.read_next()?,
        lease_until: row.read_next()?,
        high_water: HighWaterMark::new(row.read_next()?),
    };
    Ok((machine_id, machine))
}
