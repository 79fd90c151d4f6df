//! The tables that both databases have, column by column, but for the log.

use noetl_types::id::HighWater;
use noetl_types::{ExecutionId, MachineId, Millis, Version};

use super::cell::{Cell, FromCell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::machines::Machine;
use crate::model::{
    CatalogEntry, Command, CommandPatch, DueTimer, Execution, ExecutionFacts, ExecutionView,
    ForkedFrom, Head, LeaseHold, PoolCount, Runtime, Snapshot, SnapshotKey, StepInstance,
};
use crate::seal::Sealed;

/// What every append writes of an execution.
pub(crate) static EXECUTION_CHANGING: Table = Table {
    name: "execution",
    columns: &[
        ("execution_id", Kind::Int),
        ("version", Kind::Int),
        ("chain_head", Kind::Bytes),
        ("last_ingest_time", Kind::Time),
        ("ended", Kind::Bool),
        ("status", Kind::Text),
        ("paused", Kind::Bool),
        ("last_node_name", Kind::Text),
        ("ended_at", Kind::Time),
        ("error", Kind::Text),
        ("last_event_id", Kind::Int),
        ("last_event_type", Kind::Text),
    ],
};

/// An execution with what is fixed about it.
pub(crate) static EXECUTION: Table = Table {
    name: "execution",
    columns: &[
        ("execution_id", Kind::Int),
        ("version", Kind::Int),
        ("chain_head", Kind::Bytes),
        ("last_ingest_time", Kind::Time),
        ("ended", Kind::Bool),
        ("status", Kind::Text),
        ("paused", Kind::Bool),
        ("last_node_name", Kind::Text),
        ("ended_at", Kind::Time),
        ("error", Kind::Text),
        ("last_event_id", Kind::Int),
        ("last_event_type", Kind::Text),
        ("tenant_id", Kind::Text),
        ("organization_id", Kind::Text),
        ("catalog_id", Kind::Int),
        ("path", Kind::Text),
        ("playbook_version", Kind::Int),
        ("definition_sha256", Kind::Bytes),
        ("parent_execution_id", Kind::Int),
        ("root_execution_id", Kind::Int),
        ("forked_from_id", Kind::Int),
        ("forked_from_seq", Kind::Int),
        ("origin", Kind::Text),
        ("pool", Kind::Text),
        ("priority", Kind::Int),
        ("labels", Kind::Json),
        ("started_at", Kind::Time),
    ],
};

/// A command.
pub(crate) static COMMAND: Table = Table {
    name: "command",
    columns: &[
        ("command_id", Kind::Int),
        ("execution_id", Kind::Int),
        ("step_name", Kind::Text),
        ("run", Kind::Int),
        ("iter_index", Kind::Int),
        ("frame_no", Kind::Int),
        ("segment", Kind::Int),
        ("server_retry", Kind::Int),
        ("tool_kind", Kind::Text),
        ("pool", Kind::Text),
        ("priority", Kind::Int),
        ("max_attempts", Kind::Int),
        ("deadline_ms", Kind::Int),
        ("not_before", Kind::Time),
        ("held", Kind::Bool),
        ("status", Kind::Text),
        ("attempt", Kind::Int),
        ("worker_id", Kind::Text),
        ("lease_token", Kind::Bytes),
        ("lease_until", Kind::Time),
        ("claimed_at", Kind::Time),
        ("started_at", Kind::Time),
        ("completed_at", Kind::Time),
        ("error", Kind::Text),
    ],
};

/// The change of a command; see [`CommandPatch`].
#[cfg(feature = "postgres")]
pub(crate) static PATCH: Table = Table {
    name: "command",
    columns: &[
        ("command_id", Kind::Int),
        ("execution_id", Kind::Int),
        ("status", Kind::Text),
        ("held", Kind::Bool),
        ("ends_lease", Kind::Bool),
        ("not_before", Kind::Time),
        ("started_at", Kind::Time),
        ("completed_at", Kind::Time),
        ("error", Kind::Text),
    ],
};

/// An open timer.
pub(crate) static TIMER: Table = Table {
    name: "timer",
    columns: &[
        ("execution_id", Kind::Int),
        ("timer_id", Kind::Text),
        ("fire_at", Kind::Time),
    ],
};

/// How many there are of something.
static COUNT: Table = Table {
    name: "count",
    columns: &[("what", Kind::Text), ("count", Kind::Int)],
};

/// How busy a pool is.
pub(crate) static POOL_COUNT: Table = Table {
    name: "command",
    columns: &[
        ("pool", Kind::Text),
        ("pending", Kind::Int),
        ("leased", Kind::Int),
        ("oldest_lease", Kind::Time),
    ],
};

/// A snapshot.
pub(crate) static SNAPSHOT: Table = Table {
    name: "projection_snapshot",
    columns: &[
        ("execution_id", Kind::Int),
        ("kind", Kind::Text),
        ("fold_version", Kind::Int),
        ("version", Kind::Int),
        ("chain_head", Kind::Bytes),
        ("last_ingest_time", Kind::Time),
        ("state", Kind::Bytes),
        ("checksum", Kind::Bytes),
    ],
};

/// A version of a definition.
pub(crate) static CATALOG: Table = Table {
    name: "catalog",
    columns: &[
        ("catalog_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("path", Kind::Text),
        ("version", Kind::Int),
        ("kind", Kind::Text),
        ("content", Kind::Text),
        ("sha256", Kind::Bytes),
        ("meta", Kind::Json),
        ("created_at", Kind::Time),
        ("archived_at", Kind::Time),
    ],
};

/// A process.
pub(crate) static RUNTIME: Table = Table {
    name: "runtime",
    columns: &[
        ("runtime_id", Kind::Int),
        ("kind", Kind::Text),
        ("name", Kind::Text),
        ("uri", Kind::Text),
        ("detail", Kind::Json),
        ("heartbeat", Kind::Time),
        ("created_at", Kind::Time),
    ],
};

/// The lease of a machine id.
pub(crate) static MACHINE: Table = Table {
    name: "machine",
    columns: &[
        ("machine_id", Kind::Int),
        ("owner", Kind::Text),
        ("epoch", Kind::Int),
        ("lease_until", Kind::Time),
        ("id_high_water", Kind::Int),
    ],
};

/// Takes the execution of an append apart: what changes, and what is fixed where it is new.
pub(crate) fn execution_row(sealed: &Sealed) -> Vec<Cell> {
    let append = &sealed.append;
    let view = &append.view;
    let head = &sealed.head;
    let last = sealed.last_event();
    let mut cells = cells![
        append.execution_id,
        head.version,
        head.chain,
        head.ingest_time,
    ];
    cells.extend(view_cells(view));
    cells.extend(cells![
        last.map(|(event_id, _)| event_id),
        last.map(|(_, event_type)| event_type),
    ]);
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

/// What changes of an execution, behind its id and its version.
pub(crate) fn view_row(
    execution_id: ExecutionId,
    version: Version,
    view: &ExecutionView,
) -> Vec<Cell> {
    let mut cells = cells![execution_id, version];
    cells.extend(view_cells(view));
    cells
}

fn view_cells(view: &ExecutionView) -> Vec<Cell> {
    cells![
        view.status.is_terminal(),
        view.status,
        view.paused,
        view.last_node_name,
        view.ended_at,
        view.error,
    ]
}

/// Puts an execution together.
pub(crate) fn execution(cells: Cells<'_>) -> Result<Execution, Corrupt> {
    let mut row = Reader::new(&EXECUTION, cells);
    let execution_id = row.take()?;
    let head = Head {
        version: row.take()?,
        chain: row.take()?,
        ingest_time: row.take()?,
    };
    // Whether it has ended follows from the status.
    let _: bool = row.take()?;
    let view = ExecutionView {
        status: row.take()?,
        paused: row.take()?,
        last_node_name: row.take()?,
        ended_at: row.take()?,
        error: row.take()?,
    };
    Ok(Execution {
        execution_id,
        head,
        view,
        last_event_id: row.take()?,
        last_event_type: row.take()?,
        facts: facts(&mut row)?,
    })
}

fn facts(row: &mut Reader) -> Result<ExecutionFacts, Corrupt> {
    Ok(ExecutionFacts {
        tenant_id: row.take()?,
        organization_id: row.take()?,
        catalog_id: row.take()?,
        path: row.take()?,
        playbook_version: row.take()?,
        definition_sha256: row.take()?,
        parent_execution_id: row.take()?,
        root_execution_id: row.take()?,
        forked_from: match (row.take()?, row.take()?) {
            (Some(execution_id), Some(seq)) => Some(ForkedFrom { execution_id, seq }),
            (Some(_) | None, None) | (None, Some(_)) => None,
        },
        origin: row.take()?,
        pool: row.take()?,
        priority: row.take()?,
        labels: row.take()?,
        started_at: row.take()?,
    })
}

/// Takes a command apart.
pub(crate) fn command_row(command: &Command) -> Vec<Cell> {
    let instance = &command.instance;
    cells![
        command.command_id,
        command.execution_id,
        instance.step_name,
        instance.run,
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

/// Puts a command together.
pub(crate) fn command(cells: Cells<'_>) -> Result<Command, Corrupt> {
    let mut row = Reader::new(&COMMAND, cells);
    Ok(Command {
        command_id: row.take()?,
        execution_id: row.take()?,
        instance: StepInstance {
            step_name: row.take()?,
            run: row.take()?,
            iter_index: row.take()?,
            frame_no: row.take()?,
            segment: row.take()?,
            server_retry: row.take()?,
        },
        tool_kind: row.take()?,
        pool: row.take()?,
        priority: row.take()?,
        max_attempts: row.take()?,
        deadline: row.take::<Option<u64>>()?.map(Millis::from_ms),
        not_before: row.take()?,
        held: row.take()?,
        status: row.take()?,
        attempt: row.take()?,
        worker: row.take()?,
        lease: match (row.take()?, row.take()?) {
            (Some(token), Some(until)) => Some(LeaseHold { token, until }),
            (Some(_) | None, None) | (None, Some(_)) => None,
        },
        claimed_at: row.take()?,
        started_at: row.take()?,
        completed_at: row.take()?,
        error: row.take()?,
    })
}

/// Takes the change of a command apart.
pub(crate) fn patch_row(execution_id: ExecutionId, patch: &CommandPatch) -> Vec<Cell> {
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

/// Puts a timer together.
pub(crate) fn due_timer(cells: Cells<'_>) -> Result<DueTimer, Corrupt> {
    let mut row = Reader::new(&TIMER, cells);
    Ok(DueTimer {
        execution_id: row.take()?,
        timer_id: row.take()?,
        fire_at: row.take()?,
    })
}

/// Puts together how many there are of something.
pub(crate) fn count_of<T: FromCell>(cells: Cells<'_>) -> Result<(T, u64), Corrupt> {
    let mut row = Reader::new(&COUNT, cells);
    Ok((row.take()?, row.take()?))
}

/// Puts together how busy a pool is.
pub(crate) fn pool_count(cells: Cells<'_>) -> Result<PoolCount, Corrupt> {
    let mut row = Reader::new(&POOL_COUNT, cells);
    Ok(PoolCount {
        pool: row.take()?,
        pending: row.take()?,
        leased: row.take()?,
        oldest_lease: row.take()?,
    })
}

/// Takes a snapshot apart.
pub(crate) fn snapshot_row(snapshot: &Snapshot) -> Vec<Cell> {
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

/// Puts a snapshot together.
pub(crate) fn snapshot(cells: Cells<'_>) -> Result<Snapshot, Corrupt> {
    let mut row = Reader::new(&SNAPSHOT, cells);
    Ok(Snapshot {
        execution_id: row.take()?,
        key: SnapshotKey {
            kind: row.take()?,
            fold_version: row.take()?,
        },
        head: Head {
            version: row.take()?,
            chain: row.take()?,
            ingest_time: row.take()?,
        },
        state: row.take()?,
        checksum: row.take()?,
    })
}

/// Takes a definition apart.
pub(crate) fn catalog_row(entry: &CatalogEntry) -> Vec<Cell> {
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

/// Puts a definition together.
pub(crate) fn catalog_entry(cells: Cells<'_>) -> Result<CatalogEntry, Corrupt> {
    let mut row = Reader::new(&CATALOG, cells);
    Ok(CatalogEntry {
        catalog_id: row.take()?,
        tenant_id: row.take()?,
        path: row.take()?,
        version: row.take()?,
        kind: row.take()?,
        content: row.take()?,
        sha256: row.take()?,
        meta: row.take()?,
        created_at: row.take()?,
        archived_at: row.take()?,
    })
}

/// Takes a process apart.
pub(crate) fn runtime_row(runtime: &Runtime) -> Vec<Cell> {
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

/// Puts a process together.
pub(crate) fn runtime(cells: Cells<'_>) -> Result<Runtime, Corrupt> {
    let mut row = Reader::new(&RUNTIME, cells);
    Ok(Runtime {
        runtime_id: row.take()?,
        kind: row.take()?,
        name: row.take()?,
        uri: row.take()?,
        detail: row.take()?,
        heartbeat: row.take()?,
        created_at: row.take()?,
    })
}

/// Takes the lease of a machine id apart.
pub(crate) fn machine_row(machine_id: MachineId, machine: &Machine) -> Vec<Cell> {
    cells![
        machine_id,
        machine.owner,
        machine.epoch,
        machine.lease_until,
        machine.high_water.get(),
    ]
}

/// Puts the lease of a machine id together.
pub(crate) fn machine(cells: Cells<'_>) -> Result<(MachineId, Machine), Corrupt> {
    let mut row = Reader::new(&MACHINE, cells);
    let machine_id = row.take()?;
    let machine = Machine {
        owner: row.take()?,
        epoch: row.take()?,
        lease_until: row.take()?,
        high_water: HighWater::new(row.take()?),
    };
    Ok((machine_id, machine))
}
