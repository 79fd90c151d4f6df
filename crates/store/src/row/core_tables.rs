//! The tables of executions, commands, timers, snapshots, definitions and processes.

use noetl_types::id::HighWaterMark;
use noetl_types::{ExecutionId, ExecutionVersion, MachineId, Millis};

use super::cell::Cell;
use super::table::{ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, table};
use crate::machine_ids::MachineRecord;
use crate::model::{
    CatalogEntry, Command, CommandLease, CommandPatch, DueTimer, Execution, ExecutionFacts,
    ExecutionView, ForkedFrom, LogHead, PoolCount, RegisteredRuntime, Snapshot, SnapshotKey,
    StepInstance,
};
use crate::prepare_append::PreparedAppend;

/// All columns of an execution.
pub(crate) static EXECUTION: Table = Table { name: "execution", columns: EXECUTION_COLUMNS };

/// The columns of an execution that every append writes.
pub(crate) static EXECUTION_MUTABLE: Table =
    Table { name: "execution", columns: EXECUTION_COLUMNS.split_at(12).0 };

const EXECUTION_COLUMNS: &[(&str, ColumnKind)] = &[
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
];

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

impl FromRow for Execution {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
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
        Ok(Self {
            execution_id,
            head,
            view,
            last_event_id: row.read_next()?,
            last_event_type: row.read_next()?,
            facts: decode_facts(&mut row)?,
        })
    }
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

impl ToRow for Command {
    fn to_row(&self) -> Vec<Cell> {
        let instance = &self.instance;
        cells![
            self.command_id,
            self.execution_id,
            instance.step_name,
            instance.step_pass,
            instance.iter_index,
            instance.frame_no,
            instance.segment,
            instance.server_retry,
            self.tool_kind,
            self.pool,
            self.priority,
            self.max_attempts,
            self.deadline.map(Millis::as_ms),
            self.not_before,
            self.held,
            self.status,
            self.attempt,
            self.worker,
            self.lease.map(|lease| lease.token),
            self.lease.map(|lease| lease.until),
            self.claimed_at,
            self.started_at,
            self.completed_at,
            self.error,
        ]
    }
}

impl FromRow for Command {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&COMMAND, cells);
        Ok(Self {
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

impl ToRow for Snapshot {
    fn to_row(&self) -> Vec<Cell> {
        cells![
            self.execution_id,
            self.key.kind,
            self.key.fold_version,
            self.head.version,
            self.head.chain,
            self.head.ingest_time,
            *self.state,
            self.checksum,
        ]
    }
}

impl FromRow for Snapshot {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&SNAPSHOT, cells);
        Ok(Self {
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
}

impl ToRow for (MachineId, MachineRecord) {
    fn to_row(&self) -> Vec<Cell> {
        let (machine_id, machine) = self;
        cells![
            machine_id,
            machine.owner,
            machine.epoch,
            machine.lease_until,
            machine.high_water.get()
        ]
    }
}

impl FromRow for (MachineId, MachineRecord) {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
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
}
