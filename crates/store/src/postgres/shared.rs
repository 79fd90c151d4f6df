//! What is asked of what executions share.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, TenantId, Text, Timestamp};

use super::bind::{failure, read_all};
use super::block::Shape;
use super::pool::Pool;
use super::query::{Param, insert, lock_name, params, rows, select};
use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MAX_GRANTS,
    MatchKey, OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChoice, Swept, Taken, Var,
    WaitChoice, WaitFilter, grant, oldest,
};
use crate::row::{
    self, ANSWERED, Act, BROADCAST, CACHE, DEDUP, ERRAND, SLOT, SLOT_ID, SharedRow, TAKE_REQUEST,
    ToCell as _, VAR, WAIT, broadcast_row, request_row, slot_id_row, swept_table, under_way,
    var_row,
};

/// Behind a place among the waits.
const BEHIND: &str = "($2::bigint IS NULL
        OR (execution_id, command_id, number) > ($2::bigint, $3::bigint, $4::bigint))
    ORDER BY execution_id, command_id, number LIMIT $5::bigint";

static WAITS_FOR: LazyLock<String> = LazyLock::new(|| {
    let by_name = "WHERE tenant_id = $1 AND name = $6 AND (match_key IS NULL OR match_key = $7)";
    select(&WAIT, &format!("{by_name} AND {BEHIND}"))
});

static WAITS_FOR_PEOPLE: LazyLock<String> = LazyLock::new(|| {
    let people = "WHERE tenant_id = $1 AND kind = 'approval' AND number = 0";
    select(&WAIT, &format!("{people} AND {BEHIND}"))
});

static WAITS_OF: LazyLock<String> = LazyLock::new(|| {
    let of = "WHERE tenant_id = $1 AND execution_id = $6";
    select(&WAIT, &format!("{of} AND {BEHIND}"))
});

static PUT_BROADCAST: LazyLock<String> =
    LazyLock::new(|| insert(&BROADCAST, "ON CONFLICT DO NOTHING"));

static BROADCASTS_NAMED: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
        ORDER BY received_at, signal_id LIMIT $4::bigint";
    select(&BROADCAST, named)
});

static BROADCASTS_KEYED: LazyLock<String> = LazyLock::new(|| {
    let keyed = "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
        AND match_key = $5 ORDER BY received_at, signal_id LIMIT $4::bigint";
    select(&BROADCAST, keyed)
});

static SELECT_ERRANDS: LazyLock<String> = LazyLock::new(|| {
    let due = "WHERE due_at <= $1::timestamptz
        ORDER BY due_at, execution_id, errand_id LIMIT $2::bigint";
    select(&ERRAND, due)
});

/// Those that an append has in hand are skipped: it frees them, or grants come again after it.
static SLOTS_NEXT: LazyLock<String> = LazyLock::new(|| {
    let waiting = "WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NULL
        ORDER BY priority DESC, arrived_at, execution_id, step_name, run LIMIT $3::bigint
        FOR NO KEY UPDATE SKIP LOCKED";
    select(&SLOT, waiting)
});

/// Those that are held and those that wait in one look, or one that is granted between two would be
/// in neither.
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
    select(&SLOT, all)
});

static SLOTS_UNCONFIRMED: LazyLock<String> = LazyLock::new(|| {
    let unconfirmed = "WHERE held_at <= $1::timestamptz AND NOT confirmed
        ORDER BY held_at, tenant_id, slot_key, execution_id, step_name, run LIMIT $2::bigint";
    select(&SLOT, unconfirmed)
});

/// The names of slots, as one block.
static SLOT_IDS: LazyLock<Shape> = LazyLock::new(|| {
    let (id, _) = SLOT.columns.split_at(SLOT_ID);
    Shape::new(&[id])
});

static HOLD_SLOTS: LazyLock<String> = LazyLock::new(|| {
    let mut used = 0;
    let wanted = SLOT_IDS.unnest(&mut used);
    let now = used + 1;
    format!(
        "UPDATE concurrency_slot AS slot
         SET held_at = ${now}::timestamptz, confirmed = false
         FROM ({wanted}) AS granted
         WHERE slot.tenant_id = granted.tenant_id AND slot.slot_key = granted.slot_key
             AND slot.execution_id = granted.execution_id
             AND slot.step_name = granted.step_name AND slot.run = granted.run"
    )
});

static PUT_SLOT: LazyLock<String> = LazyLock::new(|| insert(&SLOT, "ON CONFLICT DO NOTHING"));

const CONFIRM_SLOT: &str = "UPDATE concurrency_slot SET confirmed = true
    WHERE tenant_id = $1 AND slot_key = $2 AND execution_id = $3 AND step_name = $4 AND run = $5
        AND held_at IS NOT NULL";

const FREE_SLOT: &str = "DELETE FROM concurrency_slot
    WHERE tenant_id = $1 AND slot_key = $2 AND execution_id = $3 AND step_name = $4 AND run = $5";

static SELECT_CACHED: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = $1 AND scope = $2 AND key_sha256 = $3
        AND expires_at > $4::timestamptz";
    select(&CACHE, by_key)
});

static SELECT_DEDUP: LazyLock<String> =
    LazyLock::new(|| select(&DEDUP, "WHERE subscription_id = $1 AND dedup_key = $2"));

static SELECT_ANSWERED: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3
        AND expires_at > $4::timestamptz AND status >= 0";
    select(&ANSWERED, by_key)
});

static TAKE: LazyLock<String> = LazyLock::new(|| {
    let take = TAKE_REQUEST.replace("{now}", "$9::timestamptz");
    insert(&ANSWERED, &take.replace("{micros}", "$10::bigint"))
});

static SELECT_REQUEST: LazyLock<String> = LazyLock::new(|| {
    select(
        &ANSWERED,
        "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3",
    )
});

const ANSWER_REQUEST: &str = "UPDATE idempotency SET status = $5, answer = $6::text::json
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

const FREE_REQUEST: &str = "DELETE FROM idempotency
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

const LEAVE_REQUEST: &str = "UPDATE idempotency SET status = $5
    WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4 AND status < 0
    RETURNING 1";

/// How often a request is looked for that is let go of at the same moment.
const LOOKS: usize = 5;

static VARS: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[VAR.columns]));

static PUT_VARS: LazyLock<String> = LazyLock::new(|| {
    let (columns, excluded) = (VAR.list(), VAR.list_of("excluded."));
    let vars = VARS.unnest(&mut 0);
    format!(
        "INSERT INTO transient ({columns}) {vars}
         ON CONFLICT (execution_id, var_name) DO UPDATE SET ({columns}) = ROW ({excluded})"
    )
});

static SELECT_VARS: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2) ORDER BY var_name";
    select(&VAR, named)
});

/// What is over is locked first, which looks at it once more: a claim may just have been renewed.
static SWEEPS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    let tables = Swept::ALL.iter().filter_map(|what| swept_table(*what));
    let sweep = |name| {
        format!(
            "DELETE FROM {name} WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {name} WHERE expires_at <= $1::timestamptz
                 ORDER BY expires_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
             )) RETURNING 1"
        )
    };
    tables
        .map(|table| (table.name, sweep(table.name)))
        .collect()
});

pub(super) async fn waits(pool: &Pool, filter: &WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
    let after = filter.after;
    let mut cells = vec![
        filter.tenant_id.to_cell(),
        after.map(|it| it.execution_id).to_cell(),
        after.map(|it| it.command_id).to_cell(),
        after.map(|it| it.number).to_cell(),
        filter.limit.get().to_cell(),
    ];
    let sql: &'static str = match &filter.choice {
        WaitChoice::For { name, key } => {
            cells.extend([name.to_cell(), key.to_cell()]);
            &WAITS_FOR
        }
        WaitChoice::Approvals => &WAITS_FOR_PEOPLE,
        WaitChoice::Of(execution_id) => {
            cells.push(execution_id.to_cell());
            &WAITS_OF
        }
    };
    let mut client = pool.get().await?;
    read_all(&client.rows(sql, &params(&cells)).await?, row::wait)
}

pub(super) async fn broadcast(pool: &Pool, signal: &Broadcast) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let cells = broadcast_row(signal);
    client.rows(&PUT_BROADCAST, &params(&cells)).await?;
    Ok(())
}

pub(super) async fn broadcasts(
    pool: &Pool,
    filter: &BroadcastFilter,
) -> Result<Vec<Broadcast>, StoreError> {
    let mut client = pool.get().await?;
    let mut found = Vec::new();
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
        let rows = client.rows(sql, &params(&cells)).await?;
        found.append(&mut read_all(&rows, row::broadcast)?);
    }
    Ok(oldest(found, filter.limit))
}

pub(super) async fn errands(
    pool: &Pool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Errand>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&now.to_cell(), &i64::from(limit.get())];
    read_all(&client.rows(&SELECT_ERRANDS, &params).await?, row::errand)
}

pub(super) async fn settle_errand(
    pool: &Pool,
    execution_id: ExecutionId,
    errand_id: &Text,
    outcome: ErrandOutcome,
) -> Result<bool, StoreError> {
    let mut cells = vec![execution_id.to_cell(), errand_id.to_cell()];
    let sql = match outcome {
        ErrandOutcome::Done => {
            "DELETE FROM errand WHERE execution_id = $1 AND errand_id = $2 RETURNING 1"
        }
        ErrandOutcome::Later(time) => {
            cells.push(time.to_cell());
            "UPDATE errand SET due_at = $3::timestamptz
             WHERE execution_id = $1 AND errand_id = $2 RETURNING 1"
        }
    };
    let mut client = pool.get().await?;
    Ok(!client.rows(sql, &params(&cells)).await?.is_empty())
}

/// One grants at a time under a key. Who frees a slot meanwhile grants again afterwards, and so does
/// who comes to wait.
pub(super) async fn grant_slots(
    pool: &Pool,
    tenant_id: &TenantId,
    key: &MatchKey,
    now: Timestamp,
) -> Result<Vec<Slot>, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    lock_name(&transaction, &format!("slot {tenant_id} {}", key.as_str())).await?;
    let (tenant, key) = (tenant_id.as_str(), key.as_str());
    let sql = "SELECT '', count(*) FROM concurrency_slot
        WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NOT NULL";
    let held = rows(&transaction, sql, &[&tenant, &key]).await?;
    let held = read_all(&held, row::count_of::<Text>)?;
    let held = held.first().map_or(0, |(_, count)| *count);
    let next: [Param<'_>; 3] = [&tenant, &key, &i64::from(MAX_GRANTS)];
    let waiting = rows(&transaction, &SLOTS_NEXT, &next).await?;
    let granted = grant(read_all(&waiting, row::slot)?, held, now);
    if !granted.is_empty() {
        let mut block = SLOT_IDS.block();
        for slot in &granted {
            block.push(&slot_id_row(&slot.id));
        }
        let now = now.to_cell();
        let now: Param<'_> = &now;
        let params: Vec<_> = block.params().chain([now]).collect();
        rows(&transaction, &HOLD_SLOTS, &params).await?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(granted)
}

pub(super) async fn slots(
    pool: &Pool,
    choice: &SlotChoice,
    limit: PageLimit,
) -> Result<Vec<Slot>, StoreError> {
    let mut client = pool.get().await?;
    let many = i64::from(limit.get());
    match choice {
        SlotChoice::Key { tenant_id, key } => {
            let params: [Param<'_>; 3] = [&tenant_id.as_str(), &key.as_str(), &many];
            read_all(&client.rows(&SLOTS_OF_KEY, &params).await?, row::slot)
        }
        SlotChoice::Unconfirmed { held_by } => {
            let params: [Param<'_>; 2] = [&held_by.to_cell(), &many];
            read_all(&client.rows(&SLOTS_UNCONFIRMED, &params).await?, row::slot)
        }
    }
}

pub(super) async fn change_slots(pool: &Pool, changes: &[SharedRow]) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    for SharedRow { act, cells } in changes {
        let sql: &str = match act {
            Act::Put => &PUT_SLOT,
            Act::Confirm => CONFIRM_SLOT,
            Act::Drop => FREE_SLOT,
        };
        rows(&transaction, sql, &params(cells)).await?;
    }
    transaction.commit().await.map_err(failure)
}

pub(super) async fn cached(
    pool: &Pool,
    key: (&TenantId, &MatchKey, Digest),
    now: Timestamp,
) -> Result<Option<Cached>, StoreError> {
    let mut client = pool.get().await?;
    let cells = [
        key.0.to_cell(),
        key.1.to_cell(),
        key.2.to_cell(),
        now.to_cell(),
    ];
    let rows = client.rows(&SELECT_CACHED, &params(&cells)).await?;
    Ok(read_all(&rows, row::cached)?.into_iter().next())
}

pub(super) async fn answered(
    pool: &Pool,
    key: (&TenantId, &Text, Digest),
    now: Timestamp,
) -> Result<Option<Answered>, StoreError> {
    let mut client = pool.get().await?;
    let cells = [
        key.0.to_cell(),
        key.1.to_cell(),
        key.2.to_cell(),
        now.to_cell(),
    ];
    let rows = client.rows(&SELECT_ANSWERED, &params(&cells)).await?;
    Ok(read_all(&rows, row::answered)?.into_iter().next())
}

pub(super) async fn has_seen(pool: &Pool, message: &DedupClaim) -> Result<bool, StoreError> {
    let mut client = pool.get().await?;
    let key = [message.scope.to_cell(), message.match_key().to_cell()];
    let rows = client.rows(&SELECT_DEDUP, &params(&key)).await?;
    let kept = read_all(&rows, row::kept_dedup)?.into_iter().next();
    Ok(kept.is_some_and(|kept| message.beside(&kept).is_err()))
}

pub(super) async fn take_request(pool: &Pool, take: &RequestTake) -> Result<Taken, StoreError> {
    let mut client = pool.get().await?;
    let mut row = request_row(take);
    let key = row.get(..3).unwrap_or_default().to_vec();
    row.extend([take.now.to_cell(), take.now.as_micros().to_cell()]);
    for _ in 0..LOOKS {
        let yours = client.rows(&TAKE, &params(&row)).await?;
        if let Some(work_id) = read_all(&yours, row::work_id)?.into_iter().next() {
            return Ok(Taken::Yours(work_id));
        }
        let kept = client.rows(&SELECT_REQUEST, &params(&key)).await?;
        let kept = read_all(&kept, |cells| row::taken(cells, take.body_sha256))?;
        if let Some(taken) = kept.into_iter().next() {
            return Ok(taken);
        }
    }
    Err(StoreError::retry("a request is let go of again and again"))
}

pub(super) async fn settle_request(
    pool: &Pool,
    key: &RequestKey,
    work_id: EventId,
    end: RequestEnd,
) -> Result<(), StoreError> {
    let mut cells = vec![
        key.tenant_id.to_cell(),
        key.route.to_cell(),
        key.key_sha256.to_cell(),
        work_id.to_cell(),
    ];
    let sql = match end {
        RequestEnd::Answered { status, answer } => {
            cells.extend([status.to_cell(), Json::from(answer).to_cell()]);
            ANSWER_REQUEST
        }
        RequestEnd::Refused => FREE_REQUEST,
        RequestEnd::Unknown { now } => {
            cells.push(under_way(now).to_cell());
            LEAVE_REQUEST
        }
    };
    let mut client = pool.get().await?;
    client.rows(sql, &params(&cells)).await?;
    Ok(())
}

pub(super) async fn set_vars(
    pool: &Pool,
    execution_id: ExecutionId,
    vars: &BTreeMap<Text, Var>,
) -> Result<(), StoreError> {
    let mut block = VARS.block();
    for var in vars.values() {
        block.push(&var_row(execution_id, var));
    }
    let mut client = pool.get().await?;
    let params: Vec<_> = block.params().collect();
    client.rows(&PUT_VARS, &params).await?;
    Ok(())
}

pub(super) async fn vars(
    pool: &Pool,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<Vec<Var>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &name.map(Text::as_str)];
    read_all(&client.rows(&SELECT_VARS, &params).await?, row::var)
}

pub(super) async fn delete_vars(
    pool: &Pool,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM transient
        WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2) RETURNING 1";
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&execution_id.get(), &name.map(Text::as_str)];
    let deleted = client.rows(sql, &params).await?;
    u64::try_from(deleted.len()).map_err(StoreError::fatal)
}

/// Forgets rows of a table that are over, the longest over first.
pub(super) async fn sweep(
    pool: &Pool,
    table: &str,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let Some(sql) = SWEEPS.get(table) else {
        return Ok(0);
    };
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&now.to_cell(), &i64::from(limit.get())];
    let swept = client.rows(sql, &params).await?;
    u64::try_from(swept.len()).map_err(StoreError::fatal)
}

/// Whether a row names a file.
pub(super) async fn is_in_file(pool: &Pool, object_key: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM result_store WHERE object_key = $1 LIMIT 1";
    let mut client = pool.get().await?;
    Ok(!client.rows(sql, &[&object_key]).await?.is_empty())
}
