//! The tables of executions, commands, timers, snapshots, definitions and processes.

use noetl_types::{ExecutionId, ExecutionVersion, MachineId};

use super::cell::Cell;
use super::table::{
    ColumnKind, Columns, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, columns, table,
};
use crate::machine_ids::MachineRecord;
use crate::model::{
    CatalogEntry, Command, CommandLease, CommandPatch, DueTimer, Execution, ExecutionFacts,
    ExecutionView, ForkedFrom, LogHead, PoolCount, RegisteredRuntime, Snapshot, SnapshotKey,
    StepInstance,
};
use crate::prepare_append::PreparedAppend;

table! {
    EXECUTION = "execution": Execution {
        execution_id: Int,
        head(version: Int, chain_head: Bytes, last_ingest_time: Time),
        view(
            ended: Bool,
            status: Text,
            paused: Bool,
            last_node_name: Text,
            ended_at: Time,
            error: Text,
        ),
        last_event_id: Int,
        last_event_type: Text,
        facts(
            tenant_id: Text,
            organization_id: Text,
            catalog_id: Int,
            path: Text,
            playbook_version: Int,
            definition_sha256: Bytes,
            parent_execution_id: Int,
            root_execution_id: Int,
            forked_from_id: Int,
            forked_from_seq: Int,
            origin: Text,
            pool: Text,
            priority: Int,
            labels: Json,
            started_at: Time,
        ),
    }
}

/// The columns of an execution that every append writes.
pub(crate) static EXECUTION_MUTABLE: Table =
    Table { name: EXECUTION.name, columns: EXECUTION.columns.split_at(12).0 };

table! {
    COMMAND = "command": Command {
        command_id: Int,
        execution_id: Int,
        instance(
            step_name: Text,
            run: Int,
            iter_index: Int,
            frame_no: Int,
            segment: Int,
            server_retry: Int,
        ),
        tool_kind: Text,
        pool: Text,
        priority: Int,
        max_attempts: Int,
        deadline(deadline_ms: Int),
        not_before: Time,
        held: Bool,
        status: Text,
        attempt: Int,
        worker(worker_id: Text),
        lease(lease_token: Bytes, lease_until: Time),
        claimed_at: Time,
        started_at: Time,
        completed_at: Time,
        error: Text,
    }
}

/// The change of a command. See [`CommandPatch`].
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

table! {
    TIMER = "timer": DueTimer {
        execution_id: Int,
        timer_id: Text,
        fire_at: Time,
    }
}

table! {
    /// Load of a pool.
    POOL_COUNT = "command": PoolCount {
        pool: Text,
        pending: Int,
        leased: Int,
        oldest_lease: Time,
    }
}

table! {
    SNAPSHOT = "projection_snapshot": Snapshot {
        execution_id: Int,
        key(kind: Text, fold_version: Int),
        head(version: Int, chain_head: Bytes, last_ingest_time: Time),
        state: Bytes,
        checksum: Bytes,
    }
}

table! {
    CATALOG = "catalog": CatalogEntry {
        catalog_id: Int,
        tenant_id: Text,
        path: Text,
        version: Int,
        kind: Text,
        content: Text,
        sha256: Bytes,
        meta: Json,
        created_at: Time,
        archived_at: Time,
    }
}

table! {
    /// A registered process.
    RUNTIME = "runtime": RegisteredRuntime {
        runtime_id: Int,
        kind: Text,
        name: Text,
        uri: Text,
        detail: Json,
        heartbeat: Time,
        created_at: Time,
    }
}

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

columns! {
    LogHead { version, chain, ingest_time }
    ExecutionFacts {
        tenant_id,
        organization_id,
        catalog_id,
        path,
        playbook_version,
        definition_sha256,
        parent_execution_id,
        root_execution_id,
        forked_from,
        origin,
        pool,
        priority,
        labels,
        started_at,
    }
    StepInstance { step_name, step_pass, iter_index, frame_no, segment, server_retry }
    SnapshotKey { kind, fold_version }
    MachineRecord { owner, epoch, lease_until, high_water }
}

columns! {
    Option<ForkedFrom> { execution_id, seq }
    Option<CommandLease> { token, until }
}

impl Columns for ExecutionView {
    fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
        // The `ended` column is derived from the status.
        let _: bool = row.read_next()?;
        Ok(Self {
            status: row.read_next()?,
            paused: row.read_next()?,
            last_node_name: row.read_next()?,
            ended_at: row.read_next()?,
            error: row.read_next()?,
        })
    }

    fn write_columns(&self, cells: &mut Vec<Cell>) {
        cells.extend(cells![
            self.status.is_terminal(),
            self.status,
            self.paused,
            self.last_node_name,
            self.ended_at,
            self.error,
        ]);
    }
}

/// Encodes the execution of an append. The fixed attributes are null unless it is new.
pub(crate) fn encode_execution(prepared: &PreparedAppend) -> Vec<Cell> {
    let append = &prepared.append;
    let (event_id, event_type) = prepared.last_event().unzip();
    let mut cells = Vec::with_capacity(EXECUTION.columns.len());
    append.execution_id.write_columns(&mut cells);
    prepared.head.write_columns(&mut cells);
    append.view.write_columns(&mut cells);
    cells.extend(cells![event_id, event_type]);
    if let Some(facts) = &append.start {
        facts.write_columns(&mut cells);
    }
    cells.resize(EXECUTION.columns.len(), Cell::Null);
    cells
}

/// Encodes the view of an execution, after its id and its version.
pub(crate) fn encode_view(
    execution_id: ExecutionId,
    version: ExecutionVersion,
    view: &ExecutionView,
) -> Vec<Cell> {
    let mut cells = cells![execution_id, version];
    view.write_columns(&mut cells);
    cells
}

pub(crate) fn encode_patch(execution_id: ExecutionId, patch: &CommandPatch) -> Vec<Cell> {
    cells![
        patch.command_id, execution_id, patch.status, patch.held, patch.ends_lease,
        patch.not_before, patch.started_at, patch.completed_at, patch.error,
    ]
}

impl ToRow for (MachineId, MachineRecord) {
    fn to_row(&self) -> Vec<Cell> {
        let mut cells = cells![self.0];
        self.1.write_columns(&mut cells);
        cells
    }
}

impl FromRow for (MachineId, MachineRecord) {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&MACHINE, cells);
        Ok((row.read_next()?, Columns::read_columns(&mut row)?))
    }
}
