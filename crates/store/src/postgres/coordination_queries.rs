//! Statements on the coordination tables (waits, follow-ups, slots, caches, keys, broadcasts,
//! variables) outside of appends.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, TenantId, Text, Timestamp};

use super::bind::{decode_rows, to_store_error};
use super::column_arrays::BlockShape;
use super::pool::ConnectionPool;
use super::query::{Param, insert_sql, lock_by_name, query_rows, select_sql, to_params};
use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, BroadcastFilter, BroadcastSignal, CachedStepResult, DedupReservation,
    ExecutionVar, FollowUpOutcome, GcTarget, MAX_SLOT_GRANTS, MatchKey, OpenWait, RequestKey,
    RequestOutcome, RequestReservation, ReserveOutcome, Slot, SlotSelector, StoredFollowUp,
    WaitFilter, WaitSelector, grant_waiting_slots, merge_oldest_first,
};
use crate::row::{
    self, BROADCAST, CACHE, CoordinationRow, DEDUP, FOLLOW_UP, IDEMPOTENCY, RESERVE_REQUEST,
    RowChange, SLOT, SLOT_ID_COLUMNS, ToCell as _, VAR, WAIT, encode_broadcast, encode_reservation,
    encode_slot_id, encode_var, expiring_table, in_progress_status,
};

/// Condition and order for a page of waits after a position.
const AFTER_WAIT_POSITION: &str = "($2::bigint IS NULL
        OR (execution_id, command_id, number) > ($2::bigint, $3::bigint, $4::bigint))
    ORDER BY execution_id, command_id, number LIMIT $5::bigint";

static WAITS_BY_NAME: LazyLock<String> = LazyLock::new(|| {
    let by_name = "WHERE tenant_id = $1 AND name = $6 AND (match_key IS NULL OR match_key = $7)";
    select_sql(&WAIT, &format!("{by_name} AND {AFTER_WAIT_POSITION}"))
});

static APPROVAL_WAITS: LazyLock<String> = LazyLock::new(|| {
    let approvals = "WHERE tenant_id = $1 AND kind = 'approval' AND number = 0";
    select_sql(&WAIT, &format!("{approvals} AND {AFTER_WAIT_POSITION}"))
});

static WAITS_IN_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    let by_execution = "WHERE tenant_id = $1 AND execution_id = $6";
    select_sql(&WAIT, &format!("{by_execution} AND {AFTER_WAIT_POSITION}"))
});

static PUT_BROADCAST: LazyLock<String> =
    LazyLock::new(|| insert_sql(&BROADCAST, "ON CONFLICT DO NOTHING"));

static BROADCASTS_NAMED: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
        ORDER BY received_at, signal_id LIMIT $4::bigint";
    select_sql(&BROADCAST, named)
});

static BROADCASTS_KEYED: LazyLock<String> = LazyLock::new(|| {
    let keyed = "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
        AND match_key = $5 ORDER BY received_at, signal_id LIMIT $4::bigint";
    select_sql(&BROADCAST, keyed)
});

static SELECT_DUE_FOLLOW_UPS: LazyLock<String> = LazyLock::new(|| {
    let due = "WHERE due_at <= $1::timestamptz
        ORDER BY due_at, execution_id, errand_id LIMIT $2::bigint";
    select_sql(&FOLLOW_UP, due)
});

/// Selects the next waiting slots. Slots locked by an append are skipped: the append releases them,
/// or slots are granted again after it.
static NEXT_WAITING_SLOTS: LazyLock<String> = LazyLock::new(|| {
    let waiting = "WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NULL
        ORDER BY priority DESC, arrived_at, execution_id, step_name, run LIMIT $3::bigint
        FOR NO KEY UPDATE SKIP LOCKED";
    select_sql(&SLOT, waiting)
});

/// Selects held and waiting slots in one statement. With two statements, a slot granted between
/// them would be in neither result.
static SLOTS_OF_KEY: LazyLock<String> = LazyLock::new(|| {
    let all = "WHERE tenant_id = $1 AND slot_key = $2
        ORDER BY
            held_at NULLS LAST,
            CASE WHEN held_at IS NULL THEN priority END DESC,
            CASE WHEN held_at IS NULL THEN arrived_at END,
            execution_id,
            step_name,
            run
        LIMIT $3::bigint";
    select_sql(&SLOT, all)
});

static SLOTS_UNCONFIRMED: LazyLock<String> = LazyLock::new(|| {
    let unconfirmed = "WHERE held_at <= $1::timestamptz AND NOT confirmed
        ORDER BY held_at, tenant_id, slot_key, execution_id, step_name, run LIMIT $2::bigint";
    select_sql(&SLOT, unconfirmed)
});

/// Shape of a block of slot ids.
static SLOT_ID_BLOCK: LazyLock<BlockShape> = LazyLock::new(|| {
    let (id, _) = SLOT.columns.split_at(SLOT_ID_COLUMNS);
    BlockShape::new(&[id])
});

static HOLD_SLOTS: LazyLock<String> = LazyLock::new(|| {
    let mut used = 0;
    let slot_ids = SLOT_ID_BLOCK.unnest_sql(&mut used);
    let now = used + 1;
    format!(
        "UPDATE concurrency_slot AS slot
         SET held_at = ${now}::timestamptz, confirmed = false
         FROM ({slot_ids}) AS granted
         WHERE slot.tenant_id = granted.tenant_id AND slot.slot_key = granted.slot_key
             AND slot.execution_id = granted.execution_id
             AND slot.step_name = granted.step_name AND slot.run = granted.run"
    )
});

static PUT_SLOT: LazyLock<String> = LazyLock::new(|| insert_sql(&SLOT, "ON CONFLICT DO NOTHING"));

const CONFIRM_SLOT: &str = "UPDATE concurrency_slot SET confirmed = true
    WHERE tenant_id = $1 AND slot_key = $2 AND execution_id = $3 AND step_name = $4 AND run = $5
        AND held_at IS NOT NULL";

const RELEASE_SLOT: &str = "DELETE FROM concurrency_slot
    WHERE tenant_id = $1 AND slot_key = $2 AND execution_id = $3 AND step_name = $4 AND run = $5";

static SELECT_CACHED_RESULT: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = $1 AND scope = $2 AND key_sha256 = $3
        AND expires_at > $4::timestamptz";
    select_sql(&CACHE, by_key)
});

static SELECT_DEDUP: LazyLock<String> =
    LazyLock::new(|| select_sql(&DEDUP, "WHERE subscription_id = $1 AND dedup_key = $2"));

static SELECT_ANSWERED_REQUEST: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3
        AND expires_at > $4::timestamptz AND status >= 0";
    select_sql(&IDEMPOTENCY, by_key)
});

static INSERT_RESERVATION: LazyLock<String> = LazyLock::new(|| {
    let on_conflict = RESERVE_REQUEST.replace("{now}", "$9::timestamptz");
    insert_sql(&IDEMPOTENCY, &on_conflict.replace("{micros}", "$10::bigint"))
});

static SELECT_REQUEST: LazyLock<String> = LazyLock::new(|| {
    select_sql(&IDEMPOTENCY, "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3")
});

const ANSWER_REQUEST: &str = "UPDATE idempotency SET status = $5, answer = $6::text::json
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

const DELETE_RESERVATION: &str = "DELETE FROM idempotency
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

const MARK_OUTCOME_UNKNOWN: &str = "UPDATE idempotency SET status = $5
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

/// Maximum attempts to reserve a request key that other processes release concurrently.
const MAX_RESERVE_ATTEMPTS: usize = 5;

static VAR_BLOCK: LazyLock<BlockShape> = LazyLock::new(|| BlockShape::new(&[VAR.columns]));

static PUT_VARS: LazyLock<String> = LazyLock::new(|| {
    let (columns, excluded) = (VAR.column_list(), VAR.prefixed_column_list("excluded."));
    let vars = VAR_BLOCK.unnest_sql(&mut 0);
    format!(
        "INSERT INTO transient ({columns}) {vars}
         ON CONFLICT (execution_id, var_name) DO UPDATE SET ({columns}) = ROW ({excluded})"
    )
});

static SELECT_VARS: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2) ORDER BY var_name";
    select_sql(&VAR, named)
});

/// Statements that delete expired rows, by table. Rows are locked first, which checks their expiry
/// again, since a reservation may just have been renewed.
static DELETE_EXPIRED: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    let tables = GcTarget::ALL.iter().filter_map(|target| expiring_table(*target));
    let delete = |name| {
        format!(
            "DELETE FROM {name} WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {name} WHERE expires_at <= $1::timestamptz
                 ORDER BY expires_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
             )) RETURNING 1"
        )
    };
    tables.map(|table| (table.name, delete(table.name))).collect()
});

pub(super) async fn list_waits(
    pool: &ConnectionPool,
    filter: &WaitFilter,
) -> Result<Vec<OpenWait>, StoreError> {
    let after = filter.after;
    let mut cells = vec![
        filter.tenant_id.to_cell(),
        after.map(|it| it.execution_id).to_cell(),
        after.map(|it| it.command_id).to_cell(),
        after.map(|it| it.number).to_cell(),
        filter.limit.get().to_cell(),
    ];
    let sql: &'static str = match &filter.selector {
        WaitSelector::Matching { name, key } => {
            cells.extend([name.to_cell(), key.to_cell()]);
            &WAITS_BY_NAME
        }
        WaitSelector::Approvals => &APPROVAL_WAITS,
        WaitSelector::InExecution(execution_id) => {
            cells.push(execution_id.to_cell());
            &WAITS_IN_EXECUTION
        }
    };
    let mut client = pool.acquire().await?;
    decode_rows(&client.query_rows(sql, &to_params(&cells)).await?, row::decode_wait)
}

pub(super) async fn put_broadcast(
    pool: &ConnectionPool,
    signal: &BroadcastSignal,
) -> Result<(), StoreError> {
    let mut client = pool.acquire().await?;
    let cells = encode_broadcast(signal);
    client.query_rows(&PUT_BROADCAST, &to_params(&cells)).await?;
    Ok(())
}

pub(super) async fn list_broadcasts(
    pool: &ConnectionPool,
    filter: &BroadcastFilter,
) -> Result<Vec<BroadcastSignal>, StoreError> {
    let mut client = pool.acquire().await?;
    let mut signals = Vec::new();
    for awaited in &filter.awaited {
        let mut cells = vec![
            filter.tenant_id.to_cell(),
            awaited.name.to_cell(),
            filter.since.to_cell(),
            filter.limit.get().to_cell(),
        ];
        let sql: &'static str = match &awaited.key {
            None => &BROADCASTS_NAMED,
            Some(key) => {
                cells.push(key.to_cell());
                &BROADCASTS_KEYED
            }
        };
        let rows = client.query_rows(sql, &to_params(&cells)).await?;
        signals.append(&mut decode_rows(&rows, row::decode_broadcast)?);
    }
    Ok(merge_oldest_first(signals, filter.limit))
}

pub(super) async fn list_due_follow_ups(
    pool: &ConnectionPool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<StoredFollowUp>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&now.to_cell(), &i64::from(limit.get())];
    decode_rows(&client.query_rows(&SELECT_DUE_FOLLOW_UPS, &params).await?, row::decode_follow_up)
}

pub(super) async fn complete_follow_up(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    follow_up_id: &Text,
    outcome: FollowUpOutcome,
) -> Result<bool, StoreError> {
    let mut cells = vec![execution_id.to_cell(), follow_up_id.to_cell()];
    let sql = match outcome {
        FollowUpOutcome::Done => {
            "DELETE FROM errand WHERE execution_id = $1 AND errand_id = $2 RETURNING 1"
        }
        FollowUpOutcome::RetryAt(time) => {
            cells.push(time.to_cell());
            "UPDATE errand SET due_at = $3::timestamptz
             WHERE execution_id = $1 AND errand_id = $2 RETURNING 1"
        }
    };
    let mut client = pool.acquire().await?;
    Ok(!client.query_rows(sql, &to_params(&cells)).await?.is_empty())
}

/// Grants slots under a lock per key. A process that releases or requests a slot meanwhile calls
/// this again afterwards.
pub(super) async fn grant_slots(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    key: &MatchKey,
    now: Timestamp,
) -> Result<Vec<Slot>, StoreError> {
    let mut client = pool.acquire().await?;
    let transaction = client.begin_transaction().await?;
    lock_by_name(&transaction, &format!("slot {tenant_id} {}", key.as_str())).await?;
    let (tenant, key) = (tenant_id.as_str(), key.as_str());
    let sql = "SELECT '', count(*) FROM concurrency_slot
        WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NOT NULL";
    let held = query_rows(&transaction, sql, &[&tenant, &key]).await?;
    let held = decode_rows(&held, row::decode_count::<Text>)?;
    let held = held.first().map_or(0, |(_, count)| *count);
    let params: [Param<'_>; 3] = [&tenant, &key, &i64::from(MAX_SLOT_GRANTS)];
    let waiting = query_rows(&transaction, &NEXT_WAITING_SLOTS, &params).await?;
    let granted = grant_waiting_slots(decode_rows(&waiting, row::decode_slot)?, held, now);
    if !granted.is_empty() {
        let mut block = SLOT_ID_BLOCK.empty_block();
        for slot in &granted {
            block.push(&encode_slot_id(&slot.id));
        }
        let now = now.to_cell();
        let now: Param<'_> = &now;
        let params: Vec<_> = block.as_params().chain([now]).collect();
        query_rows(&transaction, &HOLD_SLOTS, &params).await?;
    }
    transaction.commit().await.map_err(to_store_error)?;
    Ok(granted)
}

pub(super) async fn list_slots(
    pool: &ConnectionPool,
    selector: &SlotSelector,
    limit: PageLimit,
) -> Result<Vec<Slot>, StoreError> {
    let mut client = pool.acquire().await?;
    let limit = i64::from(limit.get());
    match selector {
        SlotSelector::Key { tenant_id, key } => {
            let params: [Param<'_>; 3] = [&tenant_id.as_str(), &key.as_str(), &limit];
            decode_rows(&client.query_rows(&SLOTS_OF_KEY, &params).await?, row::decode_slot)
        }
        SlotSelector::Unconfirmed { held_by } => {
            let params: [Param<'_>; 2] = [&held_by.to_cell(), &limit];
            decode_rows(&client.query_rows(&SLOTS_UNCONFIRMED, &params).await?, row::decode_slot)
        }
    }
}

pub(super) async fn change_slots(
    pool: &ConnectionPool,
    changes: &[CoordinationRow],
) -> Result<(), StoreError> {
    let mut client = pool.acquire().await?;
    let transaction = client.begin_transaction().await?;
    for CoordinationRow { change, cells } in changes {
        let sql: &str = match change {
            RowChange::Put => &PUT_SLOT,
            RowChange::Confirm => CONFIRM_SLOT,
            RowChange::Drop => RELEASE_SLOT,
        };
        query_rows(&transaction, sql, &to_params(cells)).await?;
    }
    transaction.commit().await.map_err(to_store_error)
}

pub(super) async fn find_cached_result(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    scope: &MatchKey,
    key_sha256: Digest,
    now: Timestamp,
) -> Result<Option<CachedStepResult>, StoreError> {
    let mut client = pool.acquire().await?;
    let cells = [tenant_id.to_cell(), scope.to_cell(), key_sha256.to_cell(), now.to_cell()];
    let rows = client.query_rows(&SELECT_CACHED_RESULT, &to_params(&cells)).await?;
    Ok(decode_rows(&rows, row::decode_cached_result)?.into_iter().next())
}

pub(super) async fn find_answered_request(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    route: &Text,
    key_sha256: Digest,
    now: Timestamp,
) -> Result<Option<AnsweredRequest>, StoreError> {
    let mut client = pool.acquire().await?;
    let cells = [tenant_id.to_cell(), route.to_cell(), key_sha256.to_cell(), now.to_cell()];
    let rows = client.query_rows(&SELECT_ANSWERED_REQUEST, &to_params(&cells)).await?;
    Ok(decode_rows(&rows, row::decode_answered_request)?.into_iter().next())
}

pub(super) async fn has_seen_message(
    pool: &ConnectionPool,
    message: &DedupReservation,
) -> Result<bool, StoreError> {
    let mut client = pool.acquire().await?;
    let key = [message.scope.to_cell(), message.match_key().to_cell()];
    let rows = client.query_rows(&SELECT_DEDUP, &to_params(&key)).await?;
    let stored = decode_rows(&rows, row::decode_dedup_record)?.into_iter().next();
    Ok(stored.is_some_and(|stored| message.check_against(&stored).is_err()))
}

pub(super) async fn reserve_request(
    pool: &ConnectionPool,
    reservation: &RequestReservation,
) -> Result<ReserveOutcome, StoreError> {
    let mut client = pool.acquire().await?;
    let mut row = encode_reservation(reservation);
    let key = row.get(..3).unwrap_or_default().to_vec();
    row.extend([reservation.now.to_cell(), reservation.now.as_micros().to_cell()]);
    for _ in 0..MAX_RESERVE_ATTEMPTS {
        let reserved = client.query_rows(&INSERT_RESERVATION, &to_params(&row)).await?;
        if let Some(work_id) = decode_rows(&reserved, row::decode_work_id)?.into_iter().next() {
            return Ok(ReserveOutcome::Reserved(work_id));
        }
        let existing = client.query_rows(&SELECT_REQUEST, &to_params(&key)).await?;
        let existing = decode_rows(&existing, |cells| {
            row::decode_reserve_outcome(cells, reservation.body_sha256)
        })?;
        if let Some(outcome) = existing.into_iter().next() {
            return Ok(outcome);
        }
    }
    Err(StoreError::retry("the request key is repeatedly released by other requests; try again"))
}

pub(super) async fn complete_request(
    pool: &ConnectionPool,
    key: &RequestKey,
    work_id: EventId,
    outcome: RequestOutcome,
) -> Result<(), StoreError> {
    let mut cells = vec![
        key.tenant_id.to_cell(),
        key.route.to_cell(),
        key.key_sha256.to_cell(),
        work_id.to_cell(),
    ];
    let sql = match outcome {
        RequestOutcome::Answered { status, answer } => {
            cells.extend([status.to_cell(), Json::from(answer).to_cell()]);
            ANSWER_REQUEST
        }
        RequestOutcome::Refused => DELETE_RESERVATION,
        RequestOutcome::Unknown { now } => {
            cells.push(in_progress_status(now).to_cell());
            MARK_OUTCOME_UNKNOWN
        }
    };
    let mut client = pool.acquire().await?;
    client.query_rows(sql, &to_params(&cells)).await?;
    Ok(())
}

pub(super) async fn set_vars(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    vars: &BTreeMap<Text, ExecutionVar>,
) -> Result<(), StoreError> {
    let mut block = VAR_BLOCK.empty_block();
    for var in vars.values() {
        block.push(&encode_var(execution_id, var));
    }
    let mut client = pool.acquire().await?;
    let params: Vec<_> = block.as_params().collect();
    client.query_rows(&PUT_VARS, &params).await?;
    Ok(())
}

pub(super) async fn list_vars(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<Vec<ExecutionVar>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &name.map(Text::as_str)];
    decode_rows(&client.query_rows(&SELECT_VARS, &params).await?, row::decode_var)
}

pub(super) async fn delete_vars(
    pool: &ConnectionPool,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM transient
        WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2) RETURNING 1";
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &name.map(Text::as_str)];
    let deleted = client.query_rows(sql, &params).await?;
    u64::try_from(deleted.len()).map_err(StoreError::fatal)
}

/// Deletes expired rows of a table, starting with those that expired first.
pub(super) async fn delete_expired(
    pool: &ConnectionPool,
    table: &str,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let Some(sql) = DELETE_EXPIRED.get(table) else {
        return Ok(0);
    };
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&now.to_cell(), &i64::from(limit.get())];
    let deleted = client.query_rows(sql, &params).await?;
    u64::try_from(deleted.len()).map_err(StoreError::fatal)
}

/// True if a stored result refers to the blob.
pub(super) async fn is_blob_referenced(
    pool: &ConnectionPool,
    object_key: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM result_store WHERE object_key = $1 LIMIT 1";
    let mut client = pool.acquire().await?;
    Ok(!client.query_rows(sql, &[&object_key]).await?.is_empty())
}
