//! The coordination tables, which concern more than one execution.

use noetl_types::{EventId, ExecutionId, Json, StepName, TenantId, Text, Timestamp};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use super::keychain::KEYCHAIN;
use super::result::STORED_RESULT;
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::model::{
    AnsweredRequest, AwaitedName, BroadcastSignal, CachePut, CachedResult, CachedStepResult,
    DedupRecord, DedupReservation, ExecutionVar, FollowUpChange, GcTarget, IdempotencyRecord,
    MatchKey, OpenWait, RequestReservation, ReserveOutcome, Slot, SlotHolder, SlotId, SlotState,
    StoredFollowUp, WaitPosition,
};
use crate::prepare_append::PreparedAppend;

/// A name that a wait awaits. The primary key comes first, as in all tables here.
pub(crate) static WAIT: Table = Table {
    name: "wait",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("command_id", ColumnKind::Int),
        ("number", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("kind", ColumnKind::Text),
        ("name", ColumnKind::Text),
        ("match_key", ColumnKind::Text),
        ("step_name", ColumnKind::Text),
        ("iter_index", ColumnKind::Int),
        ("until", ColumnKind::Time),
        ("detail", ColumnKind::Json),
        ("since", ColumnKind::Time),
    ],
};

/// A follow-up.
pub(crate) static FOLLOW_UP: Table = Table {
    name: "errand",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("errand_id", ColumnKind::Text),
        ("body", ColumnKind::Json),
        ("due_at", ColumnKind::Time),
    ],
};

pub(crate) static SLOT: Table = Table {
    name: "concurrency_slot",
    columns: &[
        ("tenant_id", ColumnKind::Text),
        ("slot_key", ColumnKind::Text),
        ("execution_id", ColumnKind::Int),
        ("step_name", ColumnKind::Text),
        ("run", ColumnKind::Int),
        ("slot_limit", ColumnKind::Int),
        ("priority", ColumnKind::Int),
        ("arrived_at", ColumnKind::Time),
        ("held_at", ColumnKind::Time),
        ("confirmed", ColumnKind::Bool),
    ],
};

/// Number of columns that identify a slot.
pub(crate) const SLOT_ID_COLUMNS: usize = 5;

/// A cached step result.
pub(crate) static CACHE: Table = Table {
    name: "step_cache",
    columns: &[
        ("tenant_id", ColumnKind::Text),
        ("scope", ColumnKind::Text),
        ("key_sha256", ColumnKind::Bytes),
        ("result", ColumnKind::Json),
        ("result_ref", ColumnKind::Json),
        ("origin_execution_id", ColumnKind::Int),
        ("origin_seq", ColumnKind::Int),
        ("created_at", ColumnKind::Time),
        ("expires_at", ColumnKind::Time),
    ],
};

pub(crate) static DEDUP: Table = Table {
    name: "subscription_dedup",
    columns: &[
        ("subscription_id", ColumnKind::Int),
        ("dedup_key", ColumnKind::Text),
        ("execution_id", ColumnKind::Int),
        ("payload_sha256", ColumnKind::Bytes),
        ("expires_at", ColumnKind::Time),
        ("tenant_id", ColumnKind::Text),
        ("key_prefix", ColumnKind::Text),
        ("seen_at", ColumnKind::Time),
    ],
};

/// A request that took effect or is in progress.
pub(crate) static IDEMPOTENCY: Table = Table {
    name: "idempotency",
    columns: &[
        ("tenant_id", ColumnKind::Text),
        ("route", ColumnKind::Text),
        ("key_sha256", ColumnKind::Bytes),
        ("body_sha256", ColumnKind::Bytes),
        ("status", ColumnKind::Int),
        ("answer", ColumnKind::Json),
        ("execution_id", ColumnKind::Int),
        ("expires_at", ColumnKind::Time),
    ],
};

/// A broadcast signal.
pub(crate) static BROADCAST: Table = Table {
    name: "signal_broadcast",
    columns: &[
        ("signal_id", ColumnKind::Int),
        ("tenant_id", ColumnKind::Text),
        ("name", ColumnKind::Text),
        ("signal_key", ColumnKind::Text),
        ("payload", ColumnKind::Json),
        ("actor", ColumnKind::Text),
        ("received_at", ColumnKind::Time),
        ("expires_at", ColumnKind::Time),
        ("match_name", ColumnKind::Text),
        ("match_key", ColumnKind::Text),
    ],
};

pub(crate) static VAR: Table = Table {
    name: "transient",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("var_name", ColumnKind::Text),
        ("var_type", ColumnKind::Text),
        ("var_value", ColumnKind::Json),
        ("source_step", ColumnKind::Text),
        ("set_at", ColumnKind::Time),
    ],
};

/// Returns the table of a garbage collection target, which has an `expires_at` column. Files have
/// no table.
pub(crate) fn expiring_table(target: GcTarget) -> Option<&'static Table> {
    match target {
        GcTarget::Cache => Some(&CACHE),
        GcTarget::Dedup => Some(&DEDUP),
        GcTarget::Idempotency => Some(&IDEMPOTENCY),
        GcTarget::Broadcasts => Some(&BROADCAST),
        GcTarget::Results => Some(&STORED_RESULT),
        GcTarget::Keychain => Some(&KEYCHAIN),
        GcTarget::Blobs => None,
    }
}

/// Reads a JSON column in which null is stored as SQL NULL.
fn read_nullable_json(row: &mut RowReader) -> Result<Json, CorruptRow> {
    Ok(row.read_next::<Option<Json>>()?.unwrap_or(Json::Null))
}

impl ToCell for MatchKey {
    fn to_cell(&self) -> Cell {
        self.as_str().to_cell()
    }
}

impl FromCell for MatchKey {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        Text::from_cell(cell).map(Self::from_stored)
    }
}

pub(crate) fn encode_wait(wait: &OpenWait) -> Vec<Cell> {
    let position = wait.position;
    cells![
        position.execution_id,
        position.command_id,
        position.number,
        wait.tenant_id,
        wait.kind,
        wait.awaited.name,
        wait.awaited.key,
        wait.step,
        wait.index,
        wait.until,
        wait.detail,
        wait.since,
    ]
}

/// Encodes the key of the first name that a wait no longer awaits.
pub(crate) fn encode_wait_end(
    execution_id: ExecutionId,
    command_id: i64,
    number: u32,
) -> Vec<Cell> {
    cells![execution_id, command_id, number]
}

pub(crate) fn decode_wait(cells: RowCells<'_>) -> Result<OpenWait, CorruptRow> {
    let mut row = RowReader::new(&WAIT, cells);
    Ok(OpenWait {
        position: WaitPosition {
            execution_id: row.read_next()?,
            command_id: row.read_next()?,
            number: row.read_next()?,
        },
        tenant_id: row.read_next()?,
        kind: row.read_next()?,
        awaited: AwaitedName { name: row.read_next()?, key: row.read_next()? },
        step: row.read_next()?,
        index: row.read_next()?,
        until: row.read_next()?,
        detail: row.read_next()?,
        since: row.read_next()?,
    })
}

/// Encodes the change of a follow-up: all columns, or only the key if it is done.
pub(crate) fn encode_follow_up_change(
    execution_id: ExecutionId,
    change: &FollowUpChange,
) -> Vec<Cell> {
    match change {
        FollowUpChange::Add { errand_id, body, due_at } => {
            cells![execution_id, errand_id, body, due_at]
        }
        FollowUpChange::Done { errand_id } => cells![execution_id, errand_id],
    }
}

pub(crate) fn decode_follow_up(cells: RowCells<'_>) -> Result<StoredFollowUp, CorruptRow> {
    let mut row = RowReader::new(&FOLLOW_UP, cells);
    Ok(StoredFollowUp {
        execution_id: row.read_next()?,
        follow_up_id: row.read_next()?,
        body: read_nullable_json(&mut row)?,
        due_at: row.read_next()?,
    })
}

/// Encodes the identity of a slot. For the execution as a whole, the step is empty and the run is
/// 0.
pub(crate) fn encode_slot_id(slot: &SlotId) -> Vec<Cell> {
    let (step, run) = match &slot.holder {
        SlotHolder::Execution => ("", 0),
        SlotHolder::Step { step, run } => (step.as_str(), *run),
    };
    cells![slot.tenant_id, slot.key, slot.execution_id, step, run]
}

pub(crate) fn encode_slot(slot: &Slot) -> Vec<Cell> {
    let (held_at, is_confirmed) = match slot.state {
        SlotState::Waiting => (None, false),
        SlotState::Held { since, is_confirmed } => (Some(since), is_confirmed),
    };
    let mut cells = encode_slot_id(&slot.id);
    cells.extend(cells![slot.limit, slot.priority, slot.arrived_at, held_at, is_confirmed,]);
    cells
}

pub(crate) fn decode_slot(cells: RowCells<'_>) -> Result<Slot, CorruptRow> {
    let mut row = RowReader::new(&SLOT, cells);
    let (tenant_id, key, execution_id) = (row.read_next()?, row.read_next()?, row.read_next()?);
    let holder = match row.read_next::<HolderStep>()? {
        HolderStep(None) => {
            let _: u32 = row.read_next()?;
            SlotHolder::Execution
        }
        HolderStep(Some(step)) => SlotHolder::Step { step, run: row.read_next()? },
    };
    Ok(Slot {
        id: SlotId { tenant_id, key, execution_id, holder },
        limit: row.read_next()?,
        priority: row.read_next()?,
        arrived_at: row.read_next()?,
        state: match (row.read_next()?, row.read_next()?) {
            (Some(since), is_confirmed) => SlotState::Held { since, is_confirmed },
            (None, true | false) => SlotState::Waiting,
        },
    })
}

/// The step of a slot holder. `None` for the execution as a whole.
struct HolderStep(Option<StepName>);

impl FromCell for HolderStep {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let text = cell.text()?;
        let step = (!text.is_empty()).then(|| StepName::from_cell(cell));
        Ok(Self(step.transpose()?))
    }
}

/// Encodes a cached result.
pub(crate) fn encode_cache_put(prepared: &PreparedAppend, put: &CachePut) -> Vec<Cell> {
    let (result, reference) = match &put.result {
        CachedResult::Inline(result) => (Some(result), None),
        CachedResult::Reference(reference) => (None, Some(reference)),
    };
    cells![
        prepared.tenant_id,
        put.scope,
        put.key_sha256,
        result,
        reference,
        put.origin_execution_id,
        put.origin_seq,
        prepared.head.ingest_time,
        put.expires_at,
    ]
}

/// Decodes a cached result.
pub(crate) fn decode_cached_result(cells: RowCells<'_>) -> Result<CachedStepResult, CorruptRow> {
    let mut row = RowReader::new(&CACHE, cells);
    let _: TenantId = row.read_next()?;
    let _: MatchKey = row.read_next()?;
    let _: noetl_types::Digest = row.read_next()?;
    Ok(CachedStepResult {
        result: match (read_nullable_json(&mut row)?, row.read_next()?) {
            (_, Some(reference)) => CachedResult::Reference(reference),
            (result, None) => CachedResult::Inline(result),
        },
        origin_execution_id: row.read_next()?,
        origin_seq: row.read_next()?,
        created_at: row.read_next()?,
        expires_at: row.read_next()?,
    })
}

pub(crate) fn encode_dedup(prepared: &PreparedAppend, reservation: &DedupReservation) -> Vec<Cell> {
    cells![
        reservation.scope,
        reservation.match_key(),
        prepared.append.execution_id,
        reservation.payload_sha256,
        reservation.expires_at,
        prepared.tenant_id,
        reservation.readable_prefix(),
        reservation.seen_at,
    ]
}

/// Decodes the columns that a message is compared with.
pub(crate) fn decode_dedup_record(cells: RowCells<'_>) -> Result<DedupRecord, CorruptRow> {
    let mut row = RowReader::new(&DEDUP, cells);
    let _: i64 = row.read_next()?;
    let _: MatchKey = row.read_next()?;
    Ok(DedupRecord {
        execution_id: row.read_next()?,
        payload_sha256: row.read_next()?,
        expires_at: row.read_next()?,
    })
}

pub(crate) fn encode_idempotency_record(
    prepared: &PreparedAppend,
    record: &IdempotencyRecord,
) -> Vec<Cell> {
    cells![
        prepared.tenant_id,
        record.route,
        record.key_sha256,
        record.body_sha256,
        record.status,
        record.answer,
        prepared.append.execution_id,
        record.expires_at,
    ]
}

pub(crate) fn decode_answered_request(cells: RowCells<'_>) -> Result<AnsweredRequest, CorruptRow> {
    let mut row = RowReader::new(&IDEMPOTENCY, cells);
    let _: TenantId = row.read_next()?;
    let _: Text = row.read_next()?;
    let _: noetl_types::Digest = row.read_next()?;
    Ok(AnsweredRequest {
        body_sha256: row.read_next()?,
        status: row.read_next()?,
        answer: read_nullable_json(&mut row)?,
        execution_id: row.read_next()?,
        expires_at: row.read_next()?,
    })
}

/// Encodes a request in progress. Its status is negative and encodes the end of the reservation.
pub(crate) fn encode_reservation(reservation: &RequestReservation) -> Vec<Cell> {
    cells![
        reservation.key.tenant_id,
        reservation.key.route,
        reservation.key.key_sha256,
        reservation.body_sha256,
        in_progress_status(reservation.until),
        Json::Null,
        reservation.work_id,
        reservation.expires_at,
    ]
}

/// Returns the status of a request that is reserved until a time.
pub(crate) fn in_progress_status(until: Timestamp) -> i64 {
    -until.as_micros().max(1)
}

/// Conflict clause that reserves a request under a key that exists. It replaces an expired request,
/// and takes over the same request if its reservation has ended. It follows the insertion in both
/// databases. `{now}` and `{micros}` stand for the time, as a timestamp and as a number.
pub(crate) const RESERVE_REQUEST: &str = "ON CONFLICT (tenant_id, route, key_sha256) DO UPDATE SET
        body_sha256 = excluded.body_sha256,
        status = excluded.status,
        answer = excluded.answer,
        execution_id = CASE WHEN idempotency.expires_at <= {now}
            THEN excluded.execution_id ELSE idempotency.execution_id END,
        expires_at = excluded.expires_at
    WHERE idempotency.expires_at <= {now} OR (
        idempotency.status < 0 AND -idempotency.status <= {micros}
        AND idempotency.body_sha256 = excluded.body_sha256
    )
    RETURNING execution_id";

/// Work id of a request.
pub(crate) static WORK_ID: Table =
    Table { name: "idempotency", columns: &[("execution_id", ColumnKind::Int)] };

pub(crate) fn decode_work_id(cells: RowCells<'_>) -> Result<EventId, CorruptRow> {
    RowReader::new(&WORK_ID, cells).read_next()
}

/// Decodes the outcome of a reservation from an existing request.
pub(crate) fn decode_reserve_outcome(
    cells: RowCells<'_>,
    body_sha256: noetl_types::Digest,
) -> Result<ReserveOutcome, CorruptRow> {
    let mut rest = cells.clone().skip(3);
    if rest.next() != Some(CellRef::Bytes(body_sha256.as_bytes())) {
        return Ok(ReserveOutcome::Mismatch);
    }
    if matches!(rest.next(), Some(CellRef::Int(status)) if status < 0) {
        return Ok(ReserveOutcome::InProgress);
    }
    decode_answered_request(cells).map(|it| ReserveOutcome::Answered(Box::new(it)))
}

pub(crate) fn encode_broadcast(signal: &BroadcastSignal) -> Vec<Cell> {
    cells![
        signal.signal_id,
        signal.tenant_id,
        signal.name,
        signal.key,
        signal.payload,
        signal.actor,
        signal.received_at,
        signal.expires_at,
        signal.match_name(),
        signal.match_key(),
    ]
}

pub(crate) fn decode_broadcast(cells: RowCells<'_>) -> Result<BroadcastSignal, CorruptRow> {
    let mut row = RowReader::new(&BROADCAST, cells);
    Ok(BroadcastSignal {
        signal_id: row.read_next()?,
        tenant_id: row.read_next()?,
        name: row.read_next()?,
        key: row.read_next()?,
        payload: read_nullable_json(&mut row)?,
        actor: row.read_next()?,
        received_at: row.read_next()?,
        expires_at: row.read_next()?,
    })
}

pub(crate) fn encode_var(execution_id: ExecutionId, var: &ExecutionVar) -> Vec<Cell> {
    cells![execution_id, var.name, var.kind, var.value, var.source_step, var.set_at,]
}

pub(crate) fn decode_var(cells: RowCells<'_>) -> Result<ExecutionVar, CorruptRow> {
    let mut row = RowReader::new(&VAR, cells);
    let _: ExecutionId = row.read_next()?;
    Ok(ExecutionVar {
        name: row.read_next()?,
        kind: row.read_next()?,
        value: read_nullable_json(&mut row)?,
        source_step: row.read_next()?,
        set_at: row.read_next()?,
    })
}
