//! Statements on the coordination tables (waits, follow-ups, slots, caches, keys, broadcasts,
//! variables), both for appends and for queries.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, TenantId, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{
    execute_cached, placeholder_list, query_all, query_first, to_micros, to_store_error,
};
use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, AppendError, BroadcastFilter, BroadcastSignal, CachedStepResult,
    DedupReservation, ExecutionVar, FollowUpOutcome, MAX_SLOT_GRANTS, MatchKey, OpenWait,
    RequestKey, RequestOutcome, RequestReservation, ReserveOutcome, Slot, SlotSelector,
    StoredFollowUp, WaitFilter, WaitSelector, grant_waiting_slots, merge_oldest_first,
};
use crate::row::{
    self, AppendRows, BROADCAST, CACHE, Cell, CoordinationRow, DEDUP, FOLLOW_UP, IDEMPOTENCY,
    RESERVE_REQUEST, RowCells, RowChange, SLOT, Table, ToCell as _, VAR, WAIT, encode_broadcast,
    encode_reservation, encode_slot_id, encode_var, in_progress_status,
};

pub(super) fn select_sql(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.column_list(), table.name)
}

pub(super) fn insert_sql(verb: &str, table: &Table) -> String {
    let (name, columns) = (table.name, table.column_list());
    let placeholders = placeholder_list(table.columns.len());
    format!("{verb} INTO {name} ({columns}) VALUES ({placeholders})")
}

/// Condition that selects one slot.
const IS_SLOT: &str = "WHERE tenant_id = ?1 AND slot_key = ?2 AND execution_id = ?3
    AND step_name = ?4 AND run = ?5";

/// Condition and order for a page of waits after a position.
const AFTER_WAIT_POSITION: &str =
    "(?2 IS NULL OR (execution_id, command_id, number) > (?2, ?3, ?4))
    ORDER BY execution_id, command_id, number LIMIT ?5";

static PUT_WAIT: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &WAIT));
static PUT_FOLLOW_UP: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR REPLACE", &FOLLOW_UP));
static PUT_SLOT: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR IGNORE", &SLOT));
static PUT_CACHE: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &CACHE));
static PUT_DEDUP: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &DEDUP));
static PUT_IDEMPOTENCY_RECORD: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR REPLACE", &IDEMPOTENCY));
static PUT_BROADCAST: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR IGNORE", &BROADCAST));
static PUT_VAR: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &VAR));

static CONFIRM_SLOT: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE concurrency_slot SET confirmed = 1 {IS_SLOT} AND held_at IS NOT NULL")
});

static HOLD_SLOT: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE concurrency_slot SET held_at = ?6, confirmed = 0 {IS_SLOT}"));

static RELEASE_SLOT: LazyLock<String> =
    LazyLock::new(|| format!("DELETE FROM concurrency_slot {IS_SLOT}"));

static SELECT_DEDUP: LazyLock<String> =
    LazyLock::new(|| select_sql(&DEDUP, "WHERE subscription_id = ?1 AND dedup_key = ?2"));

static SELECT_ANSWERED_REQUEST: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3 AND expires_at > ?4";
    select_sql(&IDEMPOTENCY, &format!("{by_key} AND status >= 0"))
});

static INSERT_RESERVATION: LazyLock<String> = LazyLock::new(|| {
    let on_conflict = RESERVE_REQUEST.replace("{now}", "?9").replace("{micros}", "?9");
    format!("{} {on_conflict}", insert_sql("INSERT", &IDEMPOTENCY))
});

static SELECT_REQUEST: LazyLock<String> = LazyLock::new(|| {
    select_sql(&IDEMPOTENCY, "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3")
});

/// Condition that selects a request in progress under a work id.
const IS_IN_PROGRESS: &str = "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3
    AND execution_id = ?4 AND status < 0";

static SELECT_CACHED_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = ?1 AND scope = ?2 AND key_sha256 = ?3 AND expires_at > ?4";
    select_sql(&CACHE, by_key)
});

static WAITS_BY_NAME: LazyLock<String> = LazyLock::new(|| {
    let by_name = "WHERE tenant_id = ?1 AND name = ?6 AND (match_key IS NULL OR match_key = ?7)";
    select_sql(&WAIT, &format!("{by_name} AND {AFTER_WAIT_POSITION}"))
});

static APPROVAL_WAITS: LazyLock<String> = LazyLock::new(|| {
    let approvals = "WHERE tenant_id = ?1 AND kind = 'approval' AND number = 0";
    select_sql(&WAIT, &format!("{approvals} AND {AFTER_WAIT_POSITION}"))
});

static WAITS_IN_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    let by_execution = "WHERE tenant_id = ?1 AND execution_id = ?6";
    select_sql(&WAIT, &format!("{by_execution} AND {AFTER_WAIT_POSITION}"))
});

static SELECT_DUE_FOLLOW_UPS: LazyLock<String> = LazyLock::new(|| {
    let due = "WHERE due_at <= ?1 ORDER BY due_at, execution_id, errand_id LIMIT ?2";
    select_sql(&FOLLOW_UP, due)
});

static SLOTS_WAITING: LazyLock<String> = LazyLock::new(|| {
    let waiting = "WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NULL
        ORDER BY priority DESC, arrived_at, execution_id, step_name, run LIMIT ?3";
    select_sql(&SLOT, waiting)
});

static SLOTS_HELD: LazyLock<String> = LazyLock::new(|| {
    let held = "WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NOT NULL
        ORDER BY held_at, execution_id, step_name, run LIMIT ?3";
    select_sql(&SLOT, held)
});

static SLOTS_UNCONFIRMED: LazyLock<String> = LazyLock::new(|| {
    let unconfirmed = "WHERE held_at <= ?1 AND confirmed = 0
        ORDER BY held_at, tenant_id, slot_key, execution_id, step_name, run LIMIT ?2";
    select_sql(&SLOT, unconfirmed)
});

static BROADCASTS_NAMED: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE tenant_id = ?1 AND match_name = ?2 AND received_at >= ?3
        ORDER BY received_at, signal_id LIMIT ?4";
    select_sql(&BROADCAST, named)
});

static BROADCASTS_KEYED: LazyLock<String> = LazyLock::new(|| {
    let keyed = "WHERE tenant_id = ?1 AND match_name = ?2 AND received_at >= ?3
        AND match_key = ?5 ORDER BY received_at, signal_id LIMIT ?4";
    select_sql(&BROADCAST, keyed)
});

static SELECT_VARS: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE execution_id = ?1 AND (?2 IS NULL OR var_name = ?2) ORDER BY var_name";
    select_sql(&VAR, named)
});

/// Checks the idempotency key and the dedup key of an append. The idempotency key comes first: a
/// request that was answered gets its answer, regardless of the message it contains.
pub(super) fn check_keys(connection: &Connection, rows: &AppendRows) -> Result<(), AppendError> {
    if let Some((record, now, row)) = &rows.idempotency {
        let clock = Cell::Time(to_micros(*now));
        let key = row.iter().take(3).chain([&clock]);
        let answered = query_first(
            connection,
            &SELECT_ANSWERED_REQUEST,
            params_from_iter(key),
            row::decode_answered_request,
        )?;
        if let Some(answered) = answered {
            record.check_against(answered, *now)?;
        }
    }
    if let Some((reservation, row)) = &rows.dedup {
        let key = params_from_iter(row.iter().take(2));
        let stored = query_first(connection, &SELECT_DEDUP, key, row::decode_dedup_record)?;
        if let Some(stored) = stored {
            reservation.check_against(&stored)?;
        }
    }
    Ok(())
}

/// Writes the coordination rows of an append.
pub(super) fn write_coordination_rows(
    connection: &Connection,
    rows: &AppendRows,
) -> Result<(), rusqlite::Error> {
    let execute =
        |sql: &str, cells: &[Cell]| execute_cached(connection, sql, params_from_iter(cells));
    for CoordinationRow { change, cells } in &rows.waits {
        match change {
            RowChange::Put | RowChange::Confirm => execute(&PUT_WAIT, cells)?,
            RowChange::Drop => execute(
                "DELETE FROM wait WHERE execution_id = ?1 AND command_id = ?2 AND number >= ?3",
                cells,
            )?,
        };
    }
    for CoordinationRow { change, cells } in &rows.follow_ups {
        match change {
            RowChange::Put | RowChange::Confirm => execute(&PUT_FOLLOW_UP, cells)?,
            RowChange::Drop => {
                execute("DELETE FROM errand WHERE execution_id = ?1 AND errand_id = ?2", cells)?
            }
        };
    }
    change_slots(connection, &rows.slots)?;
    for cells in &rows.cache_puts {
        execute(&PUT_CACHE, cells)?;
    }
    if let Some((_, _, cells)) = &rows.idempotency {
        execute(&PUT_IDEMPOTENCY_RECORD, cells)?;
    }
    if let Some((_, cells)) = &rows.dedup {
        execute(&PUT_DEDUP, cells)?;
    }
    Ok(())
}

pub(super) fn list_waits(
    connection: &Connection,
    filter: &WaitFilter,
) -> Result<Vec<OpenWait>, StoreError> {
    let after = filter.after;
    let mut params = vec![
        filter.tenant_id.to_cell(),
        after.map(|it| it.execution_id).to_cell(),
        after.map(|it| it.command_id).to_cell(),
        after.map(|it| it.number).to_cell(),
        Cell::Int(filter.limit.get().into()),
    ];
    let sql: &str = match &filter.selector {
        WaitSelector::Matching { name, key } => {
            params.push(name.to_cell());
            params.push(key.to_cell());
            &WAITS_BY_NAME
        }
        WaitSelector::Approvals => &APPROVAL_WAITS,
        WaitSelector::InExecution(execution_id) => {
            params.push(execution_id.to_cell());
            &WAITS_IN_EXECUTION
        }
    };
    query_all(connection, sql, params_from_iter(params), row::decode_wait)
}

pub(super) fn put_broadcast(
    connection: &Connection,
    signal: &BroadcastSignal,
) -> Result<(), StoreError> {
    let row = params_from_iter(encode_broadcast(signal));
    execute_cached(connection, &PUT_BROADCAST, row).map_err(to_store_error)?;
    Ok(())
}

pub(super) fn list_broadcasts(
    connection: &Connection,
    filter: &BroadcastFilter,
) -> Result<Vec<BroadcastSignal>, StoreError> {
    let (tenant, since) = (filter.tenant_id.as_str(), to_micros(filter.since));
    let limit = filter.limit.get();
    let mut signals = Vec::new();
    for awaited in &filter.awaited {
        let name = awaited.name.as_str();
        signals.append(&mut match &awaited.key {
            None => {
                let params = params![tenant, name, since, limit];
                query_all(connection, &BROADCASTS_NAMED, params, row::decode_broadcast)?
            }
            Some(key) => {
                let params = params![tenant, name, since, limit, key.as_str()];
                query_all(connection, &BROADCASTS_KEYED, params, row::decode_broadcast)?
            }
        });
    }
    Ok(merge_oldest_first(signals, filter.limit))
}

pub(super) fn list_due_follow_ups(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<StoredFollowUp>, StoreError> {
    let params = (to_micros(now), limit.get());
    query_all(connection, &SELECT_DUE_FOLLOW_UPS, params, row::decode_follow_up)
}

pub(super) fn complete_follow_up(
    connection: &Connection,
    execution_id: ExecutionId,
    follow_up_id: &Text,
    outcome: FollowUpOutcome,
) -> Result<bool, StoreError> {
    let id = (execution_id.get(), follow_up_id.as_str());
    let changed = match outcome {
        FollowUpOutcome::Done => {
            let sql = "DELETE FROM errand WHERE execution_id = ?1 AND errand_id = ?2";
            execute_cached(connection, sql, id)
        }
        FollowUpOutcome::RetryAt(time) => {
            let sql = "UPDATE errand SET due_at = ?3 WHERE execution_id = ?1 AND errand_id = ?2";
            execute_cached(connection, sql, (id.0, id.1, to_micros(time)))
        }
    };
    Ok(changed.map_err(to_store_error)? > 0)
}

pub(super) fn grant_slots(
    connection: &Connection,
    tenant_id: &TenantId,
    key: &MatchKey,
    now: Timestamp,
) -> Result<Vec<Slot>, StoreError> {
    let slot_key = (tenant_id.as_str(), key.as_str());
    let sql = "SELECT '', count(*) FROM concurrency_slot
        WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NOT NULL";
    let held = query_first(connection, sql, slot_key, row::decode_count::<Text>)?;
    let held = held.map_or(0, |(_, count)| count);
    let params = (slot_key.0, slot_key.1, MAX_SLOT_GRANTS);
    let waiting = query_all(connection, &SLOTS_WAITING, params, row::decode_slot)?;
    let granted = grant_waiting_slots(waiting, held, now);
    for slot in &granted {
        let mut cells = encode_slot_id(&slot.id);
        cells.push(Cell::Time(to_micros(now)));
        execute_cached(connection, &HOLD_SLOT, params_from_iter(cells)).map_err(to_store_error)?;
    }
    Ok(granted)
}

pub(super) fn list_slots(
    connection: &Connection,
    selector: &SlotSelector,
    limit: PageLimit,
) -> Result<Vec<Slot>, StoreError> {
    let limit = limit.get();
    match selector {
        SlotSelector::Key { tenant_id, key } => {
            let params = (tenant_id.as_str(), key.as_str(), limit);
            let mut slots = query_all(connection, &SLOTS_HELD, params, row::decode_slot)?;
            slots.append(&mut query_all(connection, &SLOTS_WAITING, params, row::decode_slot)?);
            slots.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            Ok(slots)
        }
        SlotSelector::Unconfirmed { held_by } => {
            let params = (to_micros(*held_by), limit);
            query_all(connection, &SLOTS_UNCONFIRMED, params, row::decode_slot)
        }
    }
}

pub(super) fn change_slots(
    connection: &Connection,
    rows: &[CoordinationRow],
) -> Result<(), rusqlite::Error> {
    for CoordinationRow { change, cells } in rows {
        let sql: &str = match change {
            RowChange::Put => &PUT_SLOT,
            RowChange::Confirm => &CONFIRM_SLOT,
            RowChange::Drop => &RELEASE_SLOT,
        };
        execute_cached(connection, sql, params_from_iter(cells))?;
    }
    Ok(())
}

pub(super) fn find_cached_result(
    connection: &Connection,
    tenant_id: &TenantId,
    scope: &MatchKey,
    key_sha256: Digest,
    now: Timestamp,
) -> Result<Option<CachedStepResult>, StoreError> {
    let (tenant, scope, digest) = (tenant_id.as_str(), scope.as_str(), key_sha256.as_bytes());
    let params = (tenant, scope, digest, to_micros(now));
    query_first(connection, &SELECT_CACHED_RESULT, params, row::decode_cached_result)
}

pub(super) fn find_answered_request(
    connection: &Connection,
    key: &RequestKey,
    now: Timestamp,
) -> Result<Option<AnsweredRequest>, StoreError> {
    let params =
        (key.tenant_id.as_str(), key.route.as_str(), key.key_sha256.as_bytes(), to_micros(now));
    query_first(connection, &SELECT_ANSWERED_REQUEST, params, row::decode_answered_request)
}

pub(super) fn has_seen_message(
    connection: &Connection,
    message: &DedupReservation,
) -> Result<bool, StoreError> {
    let key = [message.scope.to_cell(), message.match_key().to_cell()];
    let stored =
        query_first(connection, &SELECT_DEDUP, params_from_iter(key), row::decode_dedup_record)?;
    Ok(stored.is_some_and(|stored| message.check_against(&stored).is_err()))
}

pub(super) fn reserve_request(
    connection: &Connection,
    reservation: &RequestReservation,
) -> Result<ReserveOutcome, StoreError> {
    let now = Cell::Time(to_micros(reservation.now));
    let row = encode_reservation(reservation).into_iter().chain([now]);
    let reserved =
        query_first(connection, &INSERT_RESERVATION, params_from_iter(row), row::decode_work_id)?;
    if let Some(work_id) = reserved {
        return Ok(ReserveOutcome::Reserved(work_id));
    }
    let key = (
        reservation.key.tenant_id.as_str(),
        reservation.key.route.as_str(),
        reservation.key.key_sha256.as_bytes(),
    );
    let decode = |cells: RowCells<'_>| row::decode_reserve_outcome(cells, reservation.body_sha256);
    let existing = query_first(connection, &SELECT_REQUEST, key, decode)?;
    existing.ok_or_else(|| StoreError::fatal("the request key could not be reserved or found"))
}

pub(super) fn complete_request(
    connection: &Connection,
    key: &RequestKey,
    work_id: EventId,
    outcome: &RequestOutcome,
) -> Result<(), StoreError> {
    let mut cells = vec![
        key.tenant_id.to_cell(),
        key.route.to_cell(),
        key.key_sha256.to_cell(),
        work_id.to_cell(),
    ];
    let sql = match outcome {
        RequestOutcome::Answered { status, answer } => {
            cells.extend([status.to_cell(), Json::from(answer.clone()).to_cell()]);
            format!("UPDATE idempotency SET status = ?5, answer = ?6 {IS_IN_PROGRESS}")
        }
        RequestOutcome::Refused => format!("DELETE FROM idempotency {IS_IN_PROGRESS}"),
        RequestOutcome::Unknown { now } => {
            cells.push(in_progress_status(*now).to_cell());
            format!("UPDATE idempotency SET status = ?5 {IS_IN_PROGRESS}")
        }
    };
    execute_cached(connection, &sql, params_from_iter(cells)).map_err(to_store_error)?;
    Ok(())
}

pub(super) fn set_vars(
    connection: &Connection,
    execution_id: ExecutionId,
    vars: &BTreeMap<Text, ExecutionVar>,
) -> Result<(), StoreError> {
    for var in vars.values() {
        let row = params_from_iter(encode_var(execution_id, var));
        execute_cached(connection, &PUT_VAR, row).map_err(to_store_error)?;
    }
    Ok(())
}

pub(super) fn list_vars(
    connection: &Connection,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<Vec<ExecutionVar>, StoreError> {
    let params = (execution_id.get(), name.map(Text::as_str));
    query_all(connection, &SELECT_VARS, params, row::decode_var)
}

pub(super) fn delete_vars(
    connection: &Connection,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM transient WHERE execution_id = ?1 AND (?2 IS NULL OR var_name = ?2)";
    let params = (execution_id.get(), name.map(Text::as_str));
    let deleted = execute_cached(connection, sql, params).map_err(to_store_error)?;
    u64::try_from(deleted).map_err(StoreError::fatal)
}

/// Deletes expired rows of a table, starting with those that expired first.
pub(super) fn delete_expired(
    connection: &Connection,
    table: &str,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM {table} WHERE rowid IN (
             SELECT rowid FROM {table} WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
         )"
    );
    let deleted =
        execute_cached(connection, &sql, (to_micros(now), limit.get())).map_err(to_store_error)?;
    u64::try_from(deleted).map_err(StoreError::fatal)
}

/// True if a stored result refers to the blob.
pub(super) fn is_blob_referenced(
    connection: &Connection,
    object_key: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM (
        SELECT 1 FROM result_store WHERE object_key = ?1 LIMIT 1
    )";
    let found = query_first(connection, sql, [object_key], row::decode_count::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}
