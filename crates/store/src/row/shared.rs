//! The tables that are about more than one execution, column by column.

use noetl_types::{EventId, ExecutionId, Json, StepName, TenantId, Text, Timestamp};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use super::keychain::KEYCHAIN;
use super::result::STORED_RESULT;
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{
    Answered, Awaited, Broadcast, CachePut, Cached, CachedResult, DedupClaim, Errand, ErrandChange,
    IdempotencyClaim, KeptDedup, MatchKey, OpenWait, RequestTake, Slot, SlotHolder, SlotId,
    SlotState, Swept, Taken, Var, WaitPlace,
};
use crate::seal::Sealed;

/// A name that a wait awaits. The key comes first, as in all tables here.
pub(crate) static WAIT: Table = Table {
    name: "wait",
    columns: &[
        ("execution_id", Kind::Int),
        ("command_id", Kind::Int),
        ("number", Kind::Int),
        ("tenant_id", Kind::Text),
        ("kind", Kind::Text),
        ("name", Kind::Text),
        ("match_key", Kind::Text),
        ("step_name", Kind::Text),
        ("iter_index", Kind::Int),
        ("until", Kind::Time),
        ("detail", Kind::Json),
        ("since", Kind::Time),
    ],
};

/// An errand.
pub(crate) static ERRAND: Table = Table {
    name: "errand",
    columns: &[
        ("execution_id", Kind::Int),
        ("errand_id", Kind::Text),
        ("body", Kind::Json),
        ("due_at", Kind::Time),
    ],
};

/// A slot.
pub(crate) static SLOT: Table = Table {
    name: "concurrency_slot",
    columns: &[
        ("tenant_id", Kind::Text),
        ("slot_key", Kind::Text),
        ("execution_id", Kind::Int),
        ("step_name", Kind::Text),
        ("run", Kind::Int),
        ("slot_limit", Kind::Int),
        ("priority", Kind::Int),
        ("arrived_at", Kind::Time),
        ("held_at", Kind::Time),
        ("confirmed", Kind::Bool),
    ],
};

/// Columns of a slot that say which one it is.
pub(crate) const SLOT_ID: usize = 5;

/// A result that may be taken over.
pub(crate) static CACHE: Table = Table {
    name: "step_cache",
    columns: &[
        ("tenant_id", Kind::Text),
        ("scope", Kind::Text),
        ("key_sha256", Kind::Bytes),
        ("result", Kind::Json),
        ("result_ref", Kind::Json),
        ("origin_execution_id", Kind::Int),
        ("origin_seq", Kind::Int),
        ("created_at", Kind::Time),
        ("expires_at", Kind::Time),
    ],
};

/// A message that started an execution.
pub(crate) static DEDUP: Table = Table {
    name: "subscription_dedup",
    columns: &[
        ("subscription_id", Kind::Int),
        ("dedup_key", Kind::Text),
        ("execution_id", Kind::Int),
        ("payload_sha256", Kind::Bytes),
        ("expires_at", Kind::Time),
        ("tenant_id", Kind::Text),
        ("key_prefix", Kind::Text),
        ("seen_at", Kind::Time),
    ],
};

/// A request that had its effect.
pub(crate) static ANSWERED: Table = Table {
    name: "idempotency",
    columns: &[
        ("tenant_id", Kind::Text),
        ("route", Kind::Text),
        ("key_sha256", Kind::Bytes),
        ("body_sha256", Kind::Bytes),
        ("status", Kind::Int),
        ("answer", Kind::Json),
        ("execution_id", Kind::Int),
        ("expires_at", Kind::Time),
    ],
};

/// A signal to everybody.
pub(crate) static BROADCAST: Table = Table {
    name: "signal_broadcast",
    columns: &[
        ("signal_id", Kind::Int),
        ("tenant_id", Kind::Text),
        ("name", Kind::Text),
        ("signal_key", Kind::Text),
        ("payload", Kind::Json),
        ("actor", Kind::Text),
        ("received_at", Kind::Time),
        ("expires_at", Kind::Time),
        ("match_name", Kind::Text),
        ("match_key", Kind::Text),
    ],
};

/// A variable.
pub(crate) static VAR: Table = Table {
    name: "transient",
    columns: &[
        ("execution_id", Kind::Int),
        ("var_name", Kind::Text),
        ("var_type", Kind::Text),
        ("var_value", Kind::Json),
        ("source_step", Kind::Text),
        ("set_at", Kind::Time),
    ],
};

/// The table that a sweep forgets rows of, each with an `expires_at`; files have none.
pub(crate) fn swept_table(what: Swept) -> Option<&'static Table> {
    match what {
        Swept::Cache => Some(&CACHE),
        Swept::Dedup => Some(&DEDUP),
        Swept::Idempotency => Some(&ANSWERED),
        Swept::Broadcasts => Some(&BROADCAST),
        Swept::Results => Some(&STORED_RESULT),
        Swept::Keychain => Some(&KEYCHAIN),
        Swept::Blobs => None,
    }
}

/// A column that may be empty because null in JSON is.
fn json(row: &mut Reader) -> Result<Json, Corrupt> {
    Ok(row.take::<Option<Json>>()?.unwrap_or(Json::Null))
}

impl ToCell for MatchKey {
    fn to_cell(&self) -> Cell {
        self.as_str().to_cell()
    }
}

impl FromCell for MatchKey {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        Text::from_cell(cell).map(Self::kept)
    }
}

/// Takes a name that is awaited apart.
pub(crate) fn wait_row(wait: &OpenWait) -> Vec<Cell> {
    let place = wait.place;
    cells![
        place.execution_id,
        place.command_id,
        place.number,
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

/// The key of the first name that a wait does not await any more.
pub(crate) fn wait_end(execution_id: ExecutionId, place: (i64, u32)) -> Vec<Cell> {
    cells![execution_id, place.0, place.1]
}

/// Puts a name that is awaited together.
pub(crate) fn wait(cells: Cells<'_>) -> Result<OpenWait, Corrupt> {
    let mut row = Reader::new(&WAIT, cells);
    Ok(OpenWait {
        place: WaitPlace {
            execution_id: row.take()?,
            command_id: row.take()?,
            number: row.take()?,
        },
        tenant_id: row.take()?,
        kind: row.take()?,
        awaited: Awaited {
            name: row.take()?,
            key: row.take()?,
        },
        step: row.take()?,
        index: row.take()?,
        until: row.take()?,
        detail: row.take()?,
        since: row.take()?,
    })
}

/// Takes the change of an errand apart: all columns, or the key alone where it is done.
pub(crate) fn errand_row(execution_id: ExecutionId, change: &ErrandChange) -> Vec<Cell> {
    match change {
        ErrandChange::Add {
            errand_id,
            body,
            due_at,
        } => cells![execution_id, errand_id, body, due_at],
        ErrandChange::Done { errand_id } => cells![execution_id, errand_id],
    }
}

/// Puts an errand together.
pub(crate) fn errand(cells: Cells<'_>) -> Result<Errand, Corrupt> {
    let mut row = Reader::new(&ERRAND, cells);
    Ok(Errand {
        execution_id: row.take()?,
        errand_id: row.take()?,
        body: json(&mut row)?,
        due_at: row.take()?,
    })
}

/// Takes the name of a slot apart. An execution as a whole has no step and no run.
pub(crate) fn slot_id_row(slot: &SlotId) -> Vec<Cell> {
    let (step, run) = match &slot.holder {
        SlotHolder::Execution => ("", 0),
        SlotHolder::Step { step, run } => (step.as_str(), *run),
    };
    cells![slot.tenant_id, slot.key, slot.execution_id, step, run]
}

/// Takes a slot apart.
pub(crate) fn slot_row(slot: &Slot) -> Vec<Cell> {
    let (held_at, is_confirmed) = match slot.state {
        SlotState::Waiting => (None, false),
        SlotState::Held {
            since,
            is_confirmed,
        } => (Some(since), is_confirmed),
    };
    let mut cells = slot_id_row(&slot.id);
    cells.extend(cells![
        slot.limit,
        slot.priority,
        slot.arrived_at,
        held_at,
        is_confirmed,
    ]);
    cells
}

/// Puts a slot together.
pub(crate) fn slot(cells: Cells<'_>) -> Result<Slot, Corrupt> {
    let mut row = Reader::new(&SLOT, cells);
    let (tenant_id, key, execution_id) = (row.take()?, row.take()?, row.take()?);
    let holder = match row.take::<HolderStep>()? {
        HolderStep(None) => {
            let _: u32 = row.take()?;
            SlotHolder::Execution
        }
        HolderStep(Some(step)) => SlotHolder::Step {
            step,
            run: row.take()?,
        },
    };
    Ok(Slot {
        id: SlotId {
            tenant_id,
            key,
            execution_id,
            holder,
        },
        limit: row.take()?,
        priority: row.take()?,
        arrived_at: row.take()?,
        state: match (row.take()?, row.take()?) {
            (Some(since), is_confirmed) => SlotState::Held {
                since,
                is_confirmed,
            },
            (None, true | false) => SlotState::Waiting,
        },
    })
}

/// The step of a holder, unless it is an execution as a whole.
struct HolderStep(Option<StepName>);

impl FromCell for HolderStep {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let text = cell.text()?;
        let step = (!text.is_empty()).then(|| StepName::from_cell(cell));
        Ok(Self(step.transpose()?))
    }
}

/// Takes a result that may be taken over apart.
pub(crate) fn cache_row(sealed: &Sealed, put: &CachePut) -> Vec<Cell> {
    let (result, reference) = match &put.result {
        CachedResult::Inline(result) => (Some(result), None),
        CachedResult::Reference(reference) => (None, Some(reference)),
    };
    cells![
        sealed.tenant_id,
        put.scope,
        put.key_sha256,
        result,
        reference,
        put.origin_execution_id,
        put.origin_seq,
        sealed.head.ingest_time,
        put.expires_at,
    ]
}

/// Puts a result that may be taken over together.
pub(crate) fn cached(cells: Cells<'_>) -> Result<Cached, Corrupt> {
    let mut row = Reader::new(&CACHE, cells);
    let _: TenantId = row.take()?;
    let _: MatchKey = row.take()?;
    let _: noetl_types::Digest = row.take()?;
    Ok(Cached {
        result: match (json(&mut row)?, row.take()?) {
            (_, Some(reference)) => CachedResult::Reference(reference),
            (result, None) => CachedResult::Inline(result),
        },
        origin_execution_id: row.take()?,
        origin_seq: row.take()?,
        created_at: row.take()?,
        expires_at: row.take()?,
    })
}

/// Takes a message apart.
pub(crate) fn dedup_row(sealed: &Sealed, claim: &DedupClaim) -> Vec<Cell> {
    cells![
        claim.scope,
        claim.match_key(),
        sealed.append.execution_id,
        claim.payload_sha256,
        claim.expires_at,
        sealed.tenant_id,
        claim.readable(),
        claim.seen_at,
    ]
}

/// Puts together what a message is compared with.
pub(crate) fn kept_dedup(cells: Cells<'_>) -> Result<KeptDedup, Corrupt> {
    let mut row = Reader::new(&DEDUP, cells);
    let _: i64 = row.take()?;
    let _: MatchKey = row.take()?;
    Ok(KeptDedup {
        execution_id: row.take()?,
        payload_sha256: row.take()?,
        expires_at: row.take()?,
    })
}

/// Takes a request apart.
pub(crate) fn answered_row(sealed: &Sealed, claim: &IdempotencyClaim) -> Vec<Cell> {
    cells![
        sealed.tenant_id,
        claim.route,
        claim.key_sha256,
        claim.body_sha256,
        claim.status,
        claim.answer,
        sealed.append.execution_id,
        claim.expires_at,
    ]
}

/// Puts a request together.
pub(crate) fn answered(cells: Cells<'_>) -> Result<Answered, Corrupt> {
    let mut row = Reader::new(&ANSWERED, cells);
    let _: TenantId = row.take()?;
    let _: Text = row.take()?;
    let _: noetl_types::Digest = row.take()?;
    Ok(Answered {
        body_sha256: row.take()?,
        status: row.take()?,
        answer: json(&mut row)?,
        execution_id: row.take()?,
        expires_at: row.take()?,
    })
}

/// Takes a request apart that is worked on. Its status is below zero and tells until when.
pub(crate) fn request_row(take: &RequestTake) -> Vec<Cell> {
    cells![
        take.key.tenant_id,
        take.key.route,
        take.key.key_sha256,
        take.body_sha256,
        under_way(take.until),
        Json::Null,
        take.work_id,
        take.expires_at,
    ]
}

/// The status of a request that is worked on until a time.
pub(crate) fn under_way(until: Timestamp) -> i64 {
    -until.as_micros().max(1)
}

/// What a request does to one under the same key that is there: it takes the place of one that is
/// over, and goes on with the same one where nobody is at it any more. It stands
/// behind the insertion in both databases; `{now}` and `{micros}`
/// stand for the time, as a time and as a number.
pub(crate) const TAKE_REQUEST: &str = "ON CONFLICT (tenant_id, route, key_sha256) DO UPDATE SET
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

/// Under which id a request is worked on.
pub(crate) static WORK_ID: Table = Table {
    name: "idempotency",
    columns: &[("execution_id", Kind::Int)],
};

/// Puts such an id together.
pub(crate) fn work_id(cells: Cells<'_>) -> Result<EventId, Corrupt> {
    Reader::new(&WORK_ID, cells).take()
}

/// What somebody is told who wants to work on a request that is there.
pub(crate) fn taken(cells: Cells<'_>, body_sha256: noetl_types::Digest) -> Result<Taken, Corrupt> {
    let mut behind = cells.clone().skip(3);
    if behind.next() != Some(CellRef::Bytes(body_sha256.as_bytes())) {
        return Ok(Taken::Mismatch);
    }
    if matches!(behind.next(), Some(CellRef::Int(status)) if status < 0) {
        return Ok(Taken::UnderWay);
    }
    answered(cells).map(|it| Taken::Answered(Box::new(it)))
}

/// Takes a signal apart.
pub(crate) fn broadcast_row(signal: &Broadcast) -> Vec<Cell> {
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

/// Puts a signal together.
pub(crate) fn broadcast(cells: Cells<'_>) -> Result<Broadcast, Corrupt> {
    let mut row = Reader::new(&BROADCAST, cells);
    Ok(Broadcast {
        signal_id: row.take()?,
        tenant_id: row.take()?,
        name: row.take()?,
        key: row.take()?,
        payload: json(&mut row)?,
        actor: row.take()?,
        received_at: row.take()?,
        expires_at: row.take()?,
    })
}

/// Takes a variable apart.
pub(crate) fn var_row(execution_id: ExecutionId, var: &Var) -> Vec<Cell> {
    cells![
        execution_id,
        var.name,
        var.kind,
        var.value,
        var.source_step,
        var.set_at,
    ]
}

/// Puts a variable together.
pub(crate) fn var(cells: Cells<'_>) -> Result<Var, Corrupt> {
    let mut row = Reader::new(&VAR, cells);
    let _: ExecutionId = row.take()?;
    Ok(Var {
        name: row.take()?,
        kind: row.take()?,
        value: json(&mut row)?,
        source_step: row.take()?,
        set_at: row.take()?,
    })
}
