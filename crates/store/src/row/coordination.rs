//! The coordination tables, which concern more than one execution.

use noetl_types::{Digest, ExecutionId, Json, StepName, TenantId, Text, Timestamp};

use super::cell::{Cell, CellProblem, CellRef, FromCell};
use super::table::{
    ColumnKind, Columns, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, columns, table,
};
use crate::model::{
    AnsweredRequest, AwaitedName, BroadcastSignal, CachePut, CachedResult, CachedStepResult,
    DedupRecord, DedupReservation, ExecutionVar, FollowUpChange, IdempotencyRecord, MatchKey,
    OpenWait, RequestReservation, ReserveOutcome, Slot, SlotHolder, SlotId, SlotState,
    StoredFollowUp, WaitPosition,
};
use crate::prepare_append::PreparedAppend;

table! {
    /// A name that a wait awaits. The primary key comes first, as in all tables here.
    WAIT = "wait": OpenWait {
        position(execution_id: Int, command_id: Int, number: Int),
        tenant_id: Text,
        kind: Text,
        awaited(name: Text, match_key: Text),
        step(step_name: Text),
        index(iter_index: Int),
        until: Time,
        detail: Json,
        since: Time,
    }
}

table! {
    /// A follow-up.
    FOLLOW_UP = "errand": StoredFollowUp {
        execution_id: Int,
        follow_up_id(errand_id: Text),
        body: Json,
        due_at: Time,
    }
}

table! {
    SLOT = "concurrency_slot": Slot {
        id(tenant_id: Text, slot_key: Text, execution_id: Int, step_name: Text, run: Int),
        limit(slot_limit: Int),
        priority: Int,
        arrived_at: Time,
        state(held_at: Time, confirmed: Bool),
    }
}

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

table! {
    /// A broadcast signal.
    BROADCAST = "signal_broadcast": BroadcastSignal {
        signal_id: Int,
        tenant_id: Text,
        name: Text,
        key(signal_key: Text),
        payload: Json,
        actor: Text,
        received_at: Time,
        expires_at: Time,
    }
    computed { match_name: Text, match_key: Text }
}

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

columns! {
    WaitPosition { execution_id, command_id, number }
    AwaitedName { name, key }
    SlotId { tenant_id, key, execution_id, holder }
    ExecutionVar { name, kind, value, source_step, set_at }
}

/// Encodes the key of the first name that a wait no longer awaits.
pub(crate) fn encode_wait_end(
    execution_id: ExecutionId,
    command_id: i64,
    number: u32,
) -> Vec<Cell> {
    cells![execution_id, command_id, number]
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

/// Encodes the identity of a slot.
pub(crate) fn encode_slot_id(slot: &SlotId) -> Vec<Cell> {
    let mut cells = Vec::new();
    slot.write_columns(&mut cells);
    cells
}

/// For the execution as a whole, the step is empty and the run is 0.
impl Columns for SlotHolder {
    fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
        let (HolderStep(step), run) = (row.read_next()?, row.read_next()?);
        Ok(step.map_or(Self::Execution, |step| Self::Step { step, run }))
    }

    fn write_columns(&self, cells: &mut Vec<Cell>) {
        let (step, run) = match self {
            Self::Execution => ("", 0),
            Self::Step { step, run } => (step.as_str(), *run),
        };
        cells.extend(cells![step, run]);
    }
}

impl Columns for SlotState {
    fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
        let (since, is_confirmed): (Option<Timestamp>, _) = (row.read_next()?, row.read_next()?);
        Ok(since.map_or(Self::Waiting, |since| Self::Held { since, is_confirmed }))
    }

    fn write_columns(&self, cells: &mut Vec<Cell>) {
        let (held_at, is_confirmed) = match self {
            Self::Waiting => (None, false),
            Self::Held { since, is_confirmed } => (Some(since), *is_confirmed),
        };
        cells.extend(cells![held_at, is_confirmed]);
    }
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
        prepared.tenant_id, put.scope, put.key_sha256, result, reference, put.origin_execution_id,
        put.origin_seq, prepared.head.ingest_time, put.expires_at,
    ]
}

/// Decodes a cached result.
impl FromRow for CachedStepResult {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&CACHE, cells);
        let _: TenantId = row.read_next()?;
        let _: MatchKey = row.read_next()?;
        let _: Digest = row.read_next()?;
        Ok(Self {
            result: match (row.read_next()?, row.read_next()?) {
                (_, Some(reference)) => CachedResult::Reference(reference),
                (result, None) => CachedResult::Inline(result),
            },
            origin_execution_id: row.read_next()?,
            origin_seq: row.read_next()?,
            created_at: row.read_next()?,
            expires_at: row.read_next()?,
        })
    }
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
impl FromRow for DedupRecord {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&DEDUP, cells);
        let _: i64 = row.read_next()?;
        let _: MatchKey = row.read_next()?;
        Ok(Self {
            execution_id: row.read_next()?,
            payload_sha256: row.read_next()?,
            expires_at: row.read_next()?,
        })
    }
}

pub(crate) fn encode_idempotency_record(
    tenant_id: &TenantId,
    execution_id: ExecutionId,
    record: &IdempotencyRecord,
) -> Vec<Cell> {
    cells![
        tenant_id, record.route, record.key_sha256, record.body_sha256, record.status,
        record.answer, execution_id, record.expires_at,
    ]
}

impl FromRow for AnsweredRequest {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&IDEMPOTENCY, cells);
        let _: TenantId = row.read_next()?;
        let _: Text = row.read_next()?;
        let _: Digest = row.read_next()?;
        Ok(Self {
            body_sha256: row.read_next()?,
            status: row.read_next()?,
            answer: row.read_next()?,
            execution_id: row.read_next()?,
            expires_at: row.read_next()?,
        })
    }
}

/// Encodes a request in progress. Its status is negative and encodes the end of the reservation.
impl ToRow for RequestReservation {
    fn to_row(&self) -> Vec<Cell> {
        cells![
            self.key.tenant_id,
            self.key.route,
            self.key.key_sha256,
            self.body_sha256,
            in_progress_status(self.until),
            Json::Null,
            self.work_id,
            self.expires_at,
        ]
    }
}

/// Returns the status of a request that is reserved until a time.
pub(crate) fn in_progress_status(until: Timestamp) -> i64 {
    -until.as_micros().max(1)
}

/// A request under a key: answered, or in progress.
pub(crate) struct StoredRequest {
    body_sha256: Digest,
    /// The response. `None` if the request is in progress.
    answer: Option<AnsweredRequest>,
}

impl FromRow for StoredRequest {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let row = RowReader::new(&IDEMPOTENCY, cells.clone());
        let (body_sha256, status): (_, i64) = (row.value_at(3)?, row.value_at(4)?);
        let answer = (status >= 0).then(|| AnsweredRequest::from_row(cells)).transpose()?;
        Ok(Self { body_sha256, answer })
    }
}

impl StoredRequest {
    /// Returns the outcome of a reservation under the same key.
    pub(crate) fn into_outcome(self, body_sha256: Digest) -> ReserveOutcome {
        match self.answer {
            _ if self.body_sha256 != body_sha256 => ReserveOutcome::Mismatch,
            None => ReserveOutcome::InProgress,
            Some(answer) => ReserveOutcome::Answered(Box::new(answer)),
        }
    }
}

pub(crate) fn encode_var(execution_id: ExecutionId, var: &ExecutionVar) -> Vec<Cell> {
    let mut cells = cells![execution_id];
    var.write_columns(&mut cells);
    cells
}

impl FromRow for ExecutionVar {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&VAR, cells);
        let _: ExecutionId = row.read_next()?;
        Self::read_columns(&mut row)
    }
}
