//! What is about more than one execution: what an append does to it, and what is asked of it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, TenantId, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{all, execute, failure, first, micros, places};
use crate::error::StoreError;
use crate::model::{
    Answered, AppendRefused, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome,
    MAX_GRANTS, MatchKey, OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChoice, Taken,
    Var, WaitChoice, WaitFilter, grant, oldest,
};
use crate::row::{
    self, ANSWERED, Act, BROADCAST, CACHE, Cell, Cells, DEDUP, ERRAND, Rows, SLOT, SharedRow,
    TAKE_REQUEST, Table, ToCell as _, VAR, WAIT, broadcast_row, request_row, slot_id_row,
    under_way, var_row,
};

pub(super) fn select(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.list(), table.name)
}

pub(super) fn insert(verb: &str, table: &Table) -> String {
    let (name, columns) = (table.name, table.list());
    let places = places(table.columns.len());
    format!("{verb} INTO {name} ({columns}) VALUES ({places})")
}

/// The condition that a row is a slot.
const IS_SLOT: &str = "WHERE tenant_id = ?1 AND slot_key = ?2 AND execution_id = ?3
    AND step_name = ?4 AND run = ?5";

/// Behind a place among the waits.
const BEHIND: &str = "(?2 IS NULL OR (execution_id, command_id, number) > (?2, ?3, ?4))
    ORDER BY execution_id, command_id, number LIMIT ?5";

static PUT_WAIT: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &WAIT));
static PUT_ERRAND: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &ERRAND));
static PUT_SLOT: LazyLock<String> = LazyLock::new(|| insert("INSERT OR IGNORE", &SLOT));
static PUT_CACHE: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &CACHE));
static PUT_DEDUP: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &DEDUP));
static PUT_ANSWERED: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &ANSWERED));
static PUT_BROADCAST: LazyLock<String> = LazyLock::new(|| insert("INSERT OR IGNORE", &BROADCAST));
static PUT_VAR: LazyLock<String> = LazyLock::new(|| insert("INSERT OR REPLACE", &VAR));

static CONFIRM_SLOT: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE concurrency_slot SET confirmed = 1 {IS_SLOT} AND held_at IS NOT NULL")
});

static HOLD_SLOT: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE concurrency_slot SET held_at = ?6, confirmed = 0 {IS_SLOT}"));

static FREE_SLOT: LazyLock<String> =
    LazyLock::new(|| format!("DELETE FROM concurrency_slot {IS_SLOT}"));

static SELECT_DEDUP: LazyLock<String> =
    LazyLock::new(|| select(&DEDUP, "WHERE subscription_id = ?1 AND dedup_key = ?2"));

static SELECT_ANSWERED: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3 AND expires_at > ?4";
    select(&ANSWERED, &format!("{by_key} AND status >= 0"))
});

static TAKE: LazyLock<String> = LazyLock::new(|| {
    let take = TAKE_REQUEST
        .replace("{now}", "?9")
        .replace("{micros}", "?9");
    format!("{} {take}", insert("INSERT", &ANSWERED))
});

static SELECT_REQUEST: LazyLock<String> = LazyLock::new(|| {
    select(
        &ANSWERED,
        "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3",
    )
});

/// The condition that a request is worked on under an id.
const IS_AT_WORK: &str = "WHERE tenant_id = ?1 AND route = ?2 AND key_sha256 = ?3
    AND execution_id = ?4 AND status < 0";

static SELECT_CACHED: LazyLock<String> = LazyLock::new(|| {
    let by_key = "WHERE tenant_id = ?1 AND scope = ?2 AND key_sha256 = ?3 AND expires_at > ?4";
    select(&CACHE, by_key)
});

static WAITS_FOR: LazyLock<String> = LazyLock::new(|| {
    let by_name = "WHERE tenant_id = ?1 AND name = ?6 AND (match_key IS NULL OR match_key = ?7)";
    select(&WAIT, &format!("{by_name} AND {BEHIND}"))
});

static WAITS_FOR_PEOPLE: LazyLock<String> = LazyLock::new(|| {
    let people = "WHERE tenant_id = ?1 AND kind = 'approval' AND number = 0";
    select(&WAIT, &format!("{people} AND {BEHIND}"))
});

static WAITS_OF: LazyLock<String> = LazyLock::new(|| {
    let of = "WHERE tenant_id = ?1 AND execution_id = ?6";
    select(&WAIT, &format!("{of} AND {BEHIND}"))
});

static SELECT_ERRANDS: LazyLock<String> = LazyLock::new(|| {
    let due = "WHERE due_at <= ?1 ORDER BY due_at, execution_id, errand_id LIMIT ?2";
    select(&ERRAND, due)
});

static SLOTS_WAITING: LazyLock<String> = LazyLock::new(|| {
    let waiting = "WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NULL
        ORDER BY priority DESC, arrived_at, execution_id, step_name, run LIMIT ?3";
    select(&SLOT, waiting)
});

static SLOTS_HELD: LazyLock<String> = LazyLock::new(|| {
    let held = "WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NOT NULL
        ORDER BY held_at, execution_id, step_name, run LIMIT ?3";
    select(&SLOT, held)
});

static SLOTS_UNCONFIRMED: LazyLock<String> = LazyLock::new(|| {
    let unconfirmed = "WHERE held_at <= ?1 AND confirmed = 0
        ORDER BY held_at, tenant_id, slot_key, execution_id, step_name, run LIMIT ?2";
    select(&SLOT, unconfirmed)
});

static BROADCASTS_NAMED: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE tenant_id = ?1 AND match_name = ?2 AND received_at >= ?3
        ORDER BY received_at, signal_id LIMIT ?4";
    select(&BROADCAST, named)
});

static BROADCASTS_KEYED: LazyLock<String> = LazyLock::new(|| {
    let keyed = "WHERE tenant_id = ?1 AND match_name = ?2 AND received_at >= ?3
        AND match_key = ?5 ORDER BY received_at, signal_id LIMIT ?4";
    select(&BROADCAST, keyed)
});

static SELECT_VARS: LazyLock<String> = LazyLock::new(|| {
    let named = "WHERE execution_id = ?1 AND (?2 IS NULL OR var_name = ?2) ORDER BY var_name";
    select(&VAR, named)
});

/// Whether somebody did the same before: a request that was answered hears its answer, whatever
/// became of the message in it.
pub(super) fn judge(connection: &Connection, rows: &Rows) -> Result<(), AppendRefused> {
    if let Some((claim, now, row)) = &rows.idempotency {
        let clock = Cell::Time(micros(*now));
        let key = row.iter().take(3).chain([&clock]);
        let kept = first(
            connection,
            &SELECT_ANSWERED,
            params_from_iter(key),
            row::answered,
        )?;
        if let Some(kept) = kept {
            claim.beside(kept, *now)?;
        }
    }
    if let Some((claim, row)) = &rows.dedup {
        let key = params_from_iter(row.iter().take(2));
        let kept = first(connection, &SELECT_DEDUP, key, row::kept_dedup)?;
        if let Some(kept) = kept {
            claim.beside(&kept)?;
        }
    }
    Ok(())
}

/// Writes what an append shares.
pub(super) fn write(connection: &Connection, rows: &Rows) -> Result<(), rusqlite::Error> {
    let run = |sql: &str, cells: &[Cell]| execute(connection, sql, params_from_iter(cells));
    for SharedRow { act, cells } in &rows.waits {
        match act {
            Act::Put | Act::Confirm => run(&PUT_WAIT, cells)?,
            Act::Drop => run(
                "DELETE FROM wait WHERE execution_id = ?1 AND command_id = ?2 AND number >= ?3",
                cells,
            )?,
        };
    }
    for SharedRow { act, cells } in &rows.errands {
        match act {
            Act::Put | Act::Confirm => run(&PUT_ERRAND, cells)?,
            Act::Drop => run(
                "DELETE FROM errand WHERE execution_id = ?1 AND errand_id = ?2",
                cells,
            )?,
        };
    }
    change_slots(connection, &rows.slots)?;
    for cells in &rows.cached {
        run(&PUT_CACHE, cells)?;
    }
    if let Some((_, _, cells)) = &rows.idempotency {
        run(&PUT_ANSWERED, cells)?;
    }
    if let Some((_, cells)) = &rows.dedup {
        run(&PUT_DEDUP, cells)?;
    }
    Ok(())
}

pub(super) fn waits(
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
    let sql: &str = match &filter.choice {
        WaitChoice::For { name, key } => {
            params.push(name.to_cell());
            params.push(key.to_cell());
            &WAITS_FOR
        }
        WaitChoice::Approvals => &WAITS_FOR_PEOPLE,
        WaitChoice::Of(execution_id) => {
            params.push(execution_id.to_cell());
            &WAITS_OF
        }
    };
    all(connection, sql, params_from_iter(params), row::wait)
}

pub(super) fn broadcast(connection: &Connection, signal: &Broadcast) -> Result<(), StoreError> {
    let row = params_from_iter(broadcast_row(signal));
    execute(connection, &PUT_BROADCAST, row).map_err(failure)?;
    Ok(())
}

pub(super) fn broadcasts(
    connection: &Connection,
    filter: &BroadcastFilter,
) -> Result<Vec<Broadcast>, StoreError> {
    let (tenant, since) = (filter.tenant_id.as_str(), micros(filter.since));
    let limit = filter.limit.get();
    let mut found = Vec::new();
    for awaited in &filter.awaited {
        let name = awaited.name.as_str();
        found.append(&mut match &awaited.key {
            None => {
                let params = params![tenant, name, since, limit];
                all(connection, &BROADCASTS_NAMED, params, row::broadcast)?
            }
            Some(key) => {
                let params = params![tenant, name, since, limit, key.as_str()];
                all(connection, &BROADCASTS_KEYED, params, row::broadcast)?
            }
        });
    }
    Ok(oldest(found, filter.limit))
}

pub(super) fn errands(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Errand>, StoreError> {
    let params = (micros(now), limit.get());
    all(connection, &SELECT_ERRANDS, params, row::errand)
}

pub(super) fn settle_errand(
    connection: &Connection,
    execution_id: ExecutionId,
    errand_id: &Text,
    outcome: ErrandOutcome,
) -> Result<bool, StoreError> {
    let id = (execution_id.get(), errand_id.as_str());
    let changed = match outcome {
        ErrandOutcome::Done => {
            let sql = "DELETE FROM errand WHERE execution_id = ?1 AND errand_id = ?2";
            execute(connection, sql, id)
        }
        ErrandOutcome::Later(time) => {
            let sql = "UPDATE errand SET due_at = ?3 WHERE execution_id = ?1 AND errand_id = ?2";
            execute(connection, sql, (id.0, id.1, micros(time)))
        }
    };
    Ok(changed.map_err(failure)? > 0)
}

pub(super) fn grant_slots(
    connection: &Connection,
    tenant_id: &TenantId,
    key: &MatchKey,
    now: Timestamp,
) -> Result<Vec<Slot>, StoreError> {
    let of_key = (tenant_id.as_str(), key.as_str());
    let sql = "SELECT '', count(*) FROM concurrency_slot
        WHERE tenant_id = ?1 AND slot_key = ?2 AND held_at IS NOT NULL";
    let held = first(connection, sql, of_key, row::count_of::<Text>)?;
    let held = held.map_or(0, |(_, count)| count);
    let params = (of_key.0, of_key.1, MAX_GRANTS);
    let waiting = all(connection, &SLOTS_WAITING, params, row::slot)?;
    let granted = grant(waiting, held, now);
    for slot in &granted {
        let mut cells = slot_id_row(&slot.id);
        cells.push(Cell::Time(micros(now)));
        execute(connection, &HOLD_SLOT, params_from_iter(cells)).map_err(failure)?;
    }
    Ok(granted)
}

pub(super) fn slots(
    connection: &Connection,
    choice: &SlotChoice,
    limit: PageLimit,
) -> Result<Vec<Slot>, StoreError> {
    let many = limit.get();
    match choice {
        SlotChoice::Key { tenant_id, key } => {
            let params = (tenant_id.as_str(), key.as_str(), many);
            let mut slots = all(connection, &SLOTS_HELD, params, row::slot)?;
            slots.append(&mut all(connection, &SLOTS_WAITING, params, row::slot)?);
            slots.truncate(usize::try_from(many).unwrap_or(usize::MAX));
            Ok(slots)
        }
        SlotChoice::Unconfirmed { held_by } => {
            let params = (micros(*held_by), many);
            all(connection, &SLOTS_UNCONFIRMED, params, row::slot)
        }
    }
}

pub(super) fn change_slots(
    connection: &Connection,
    rows: &[SharedRow],
) -> Result<(), rusqlite::Error> {
    for SharedRow { act, cells } in rows {
        let sql: &str = match act {
            Act::Put => &PUT_SLOT,
            Act::Confirm => &CONFIRM_SLOT,
            Act::Drop => &FREE_SLOT,
        };
        execute(connection, sql, params_from_iter(cells))?;
    }
    Ok(())
}

pub(super) fn cached(
    connection: &Connection,
    key: &(TenantId, MatchKey, Digest),
    now: Timestamp,
) -> Result<Option<Cached>, StoreError> {
    let (tenant, scope, digest) = (key.0.as_str(), key.1.as_str(), key.2.as_bytes());
    let params = (tenant, scope, digest, micros(now));
    first(connection, &SELECT_CACHED, params, row::cached)
}

pub(super) fn answered(
    connection: &Connection,
    key: &(TenantId, Text, Digest),
    now: Timestamp,
) -> Result<Option<Answered>, StoreError> {
    let (tenant, route, digest) = (key.0.as_str(), key.1.as_str(), key.2.as_bytes());
    let params = (tenant, route, digest, micros(now));
    first(connection, &SELECT_ANSWERED, params, row::answered)
}

pub(super) fn has_seen(connection: &Connection, message: &DedupClaim) -> Result<bool, StoreError> {
    let key = [message.scope.to_cell(), message.match_key().to_cell()];
    let kept = first(
        connection,
        &SELECT_DEDUP,
        params_from_iter(key),
        row::kept_dedup,
    )?;
    Ok(kept.is_some_and(|kept| message.beside(&kept).is_err()))
}

pub(super) fn take_request(
    connection: &Connection,
    take: &RequestTake,
) -> Result<Taken, StoreError> {
    let now = Cell::Time(micros(take.now));
    let row = request_row(take).into_iter().chain([now]);
    let yours = first(connection, &TAKE, params_from_iter(row), row::work_id)?;
    if let Some(work_id) = yours {
        return Ok(Taken::Yours(work_id));
    }
    let key = (
        take.key.tenant_id.as_str(),
        take.key.route.as_str(),
        take.key.key_sha256.as_bytes(),
    );
    let read = |cells: Cells<'_>| row::taken(cells, take.body_sha256);
    let kept = first(connection, &SELECT_REQUEST, key, read)?;
    kept.ok_or_else(|| StoreError::fatal("a request is neither there nor can it be taken"))
}

pub(super) fn settle_request(
    connection: &Connection,
    key: &RequestKey,
    work_id: EventId,
    end: &RequestEnd,
) -> Result<(), StoreError> {
    let mut cells = vec![
        key.tenant_id.to_cell(),
        key.route.to_cell(),
        key.key_sha256.to_cell(),
        work_id.to_cell(),
    ];
    let sql = match end {
        RequestEnd::Answered { status, answer } => {
            cells.extend([status.to_cell(), Json::from(answer.clone()).to_cell()]);
            format!("UPDATE idempotency SET status = ?5, answer = ?6 {IS_AT_WORK}")
        }
        RequestEnd::Refused => format!("DELETE FROM idempotency {IS_AT_WORK}"),
        RequestEnd::Unknown { now } => {
            cells.push(under_way(*now).to_cell());
            format!("UPDATE idempotency SET status = ?5 {IS_AT_WORK}")
        }
    };
    execute(connection, &sql, params_from_iter(cells)).map_err(failure)?;
    Ok(())
}

pub(super) fn set_vars(
    connection: &Connection,
    execution_id: ExecutionId,
    vars: &BTreeMap<Text, Var>,
) -> Result<(), StoreError> {
    for var in vars.values() {
        let row = params_from_iter(var_row(execution_id, var));
        execute(connection, &PUT_VAR, row).map_err(failure)?;
    }
    Ok(())
}

pub(super) fn vars(
    connection: &Connection,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<Vec<Var>, StoreError> {
    let params = (execution_id.get(), name.map(Text::as_str));
    all(connection, &SELECT_VARS, params, row::var)
}

pub(super) fn delete_vars(
    connection: &Connection,
    execution_id: ExecutionId,
    name: Option<&Text>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM transient WHERE execution_id = ?1 AND (?2 IS NULL OR var_name = ?2)";
    let params = (execution_id.get(), name.map(Text::as_str));
    let deleted = execute(connection, sql, params).map_err(failure)?;
    u64::try_from(deleted).map_err(StoreError::fatal)
}

/// Forgets rows of a table that are over, the longest over first.
pub(super) fn sweep(
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
    let swept = execute(connection, &sql, (micros(now), limit.get())).map_err(failure)?;
    u64::try_from(swept).map_err(StoreError::fatal)
}

/// Whether a row names a file.
pub(super) fn is_in_file(connection: &Connection, object_key: &str) -> Result<bool, StoreError> {
    let sql = "SELECT '', count(*) FROM (
        SELECT 1 FROM result_store WHERE object_key = ?1 LIMIT 1
    )";
    let found = first(connection, sql, [object_key], row::count_of::<Text>)?;
    Ok(found.is_some_and(|(_, count)| count > 0))
}
