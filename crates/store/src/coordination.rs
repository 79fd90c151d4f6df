//! State that executions share with each other: waits, signals, follow-ups and slots.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    BroadcastFilter, BroadcastSignal, FollowUpOutcome, MAX_SLOT_GRANTS, MatchKey, OpenWait, Slot,
    SlotChange, SlotSelector, StoredFollowUp, WaitFilter, WaitSelector, grant_waiting_slots,
    merge_oldest_first,
};
use crate::row::{
    BROADCAST, CoordinationRow, FOLLOW_UP, RowChange, SLOT, ToCell as _, ToRow as _, WAIT, cells,
    encode_slot_id, slot_rows,
};
use crate::sql::{Database, Durability, PlanMode, Session, Statement, select_sql};

/// The part of a [`crate::Store`] that concerns more than one execution.
///
/// Most of these rows are written by appends. The methods here read them, and change them where no
/// event records the change. As everywhere in the store, times are arguments, and the store makes
/// no decision that a caller could make.
#[async_trait]
pub trait CoordinationStore {
    /// Returns the names that open waits await, ordered by position.
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError>;

    /// Stores a broadcast signal. An existing signal of the same id is left unchanged.
    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError>;

    /// Returns the broadcast signals that a wait may still consume, oldest first.
    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError>;

    /// Returns the follow-ups that are due, the longest due first. They remain until they are
    /// completed.
    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError>;

    /// Records the outcome of a follow-up. Returns `false` if the follow-up no longer exists.
    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError>;

    /// Grants the free slots of a key by priority, then by arrival. Returns the slots granted by
    /// this call.
    ///
    /// With any number of concurrent callers, the holders of a key never exceed the limit of any of
    /// them.
    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError>;

    /// Returns slots that are requested or held.
    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError>;

    /// Changes slots of an execution without a new event, that is, when no append can carry the
    /// change.
    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError>;
}

static WAITS_BY_NAME: Statement =
    Statement::build(|| list_waits_sql("name = $6 AND (match_key IS NULL OR match_key = $7)"));

static APPROVAL_WAITS: Statement =
    Statement::build(|| list_waits_sql("kind = 'approval' AND number = 0"));

static WAITS_IN_EXECUTION: Statement = Statement::build(|| list_waits_sql("execution_id = $6"));

/// Returns a statement that lists a page of waits after a position.
fn list_waits_sql(condition: &str) -> String {
    let rest = format!(
        "WHERE tenant_id = $1 AND {condition} AND ($2::bigint IS NULL
             OR (execution_id, command_id, number) > ($2::bigint, $3::bigint, $4::bigint))
         ORDER BY execution_id, command_id, number LIMIT $5::bigint"
    );
    select_sql(&WAIT, &rest)
}

static INSERT_BROADCAST: Statement = Statement::insert(&BROADCAST, "ON CONFLICT DO NOTHING");

static BROADCASTS_NAMED: Statement = Statement::select(
    &BROADCAST,
    "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
     ORDER BY received_at, signal_id LIMIT $4::bigint",
);

static BROADCASTS_KEYED: Statement = Statement::select(
    &BROADCAST,
    "WHERE tenant_id = $1 AND match_name = $2 AND received_at >= $3::timestamptz
         AND match_key = $5
     ORDER BY received_at, signal_id LIMIT $4::bigint",
);

static DUE_FOLLOW_UPS: Statement = Statement::select(
    &FOLLOW_UP,
    "WHERE due_at <= $1::timestamptz ORDER BY due_at, execution_id, errand_id LIMIT $2::bigint",
);

static DELETE_FOLLOW_UP: Statement =
    Statement::new("DELETE FROM errand WHERE execution_id = $1 AND errand_id = $2");

static DELAY_FOLLOW_UP: Statement = Statement::new(
    "UPDATE errand SET due_at = $3::timestamptz WHERE execution_id = $1 AND errand_id = $2",
);

static COUNT_HELD_SLOTS: Statement = Statement::new(
    "SELECT count(*) FROM concurrency_slot
     WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NOT NULL",
);

/// Selects the next waiting slots. Slots locked by an append are skipped: the append releases them,
/// or slots are granted again after it.
static WAITING_SLOTS: Statement = Statement::select(
    &SLOT,
    "WHERE tenant_id = $1 AND slot_key = $2 AND held_at IS NULL
     ORDER BY priority DESC, arrived_at, execution_id, step_name, run LIMIT $3::bigint
     FOR NO KEY UPDATE SKIP LOCKED",
);

/// Selects held and waiting slots in one statement. With two statements, a slot granted between
/// them would be in neither result.
static SLOTS_OF_KEY: Statement = Statement::select(
    &SLOT,
    "WHERE tenant_id = $1 AND slot_key = $2
     ORDER BY
         held_at NULLS LAST,
         CASE WHEN held_at IS NULL THEN priority END DESC,
         CASE WHEN held_at IS NULL THEN arrived_at END,
         execution_id,
         step_name,
         run
     LIMIT $3::bigint",
);

static UNCONFIRMED_SLOTS: Statement = Statement::select(
    &SLOT,
    "WHERE held_at <= $1::timestamptz AND confirmed = false
     ORDER BY held_at, tenant_id, slot_key, execution_id, step_name, run LIMIT $2::bigint",
);

/// Condition that selects one slot.
macro_rules! on_slot {
    ($statement:literal) => {
        Statement::new(concat!(
            $statement,
            " WHERE tenant_id = $1 AND slot_key = $2 AND execution_id = $3 AND step_name = $4
                 AND run = $5"
        ))
    };
}

static HOLD_SLOT: Statement =
    on_slot!("UPDATE concurrency_slot SET held_at = $6::timestamptz, confirmed = false");

pub(crate) static RELEASE_SLOT: Statement = on_slot!("DELETE FROM concurrency_slot");

pub(crate) static CONFIRM_SLOT: Statement =
    on_slot!("UPDATE concurrency_slot SET confirmed = held_at IS NOT NULL");

static INSERT_SLOT: Statement = Statement::insert(&SLOT, "ON CONFLICT DO NOTHING");

/// Grants slots under a lock per key. A process that releases or requests a slot meanwhile calls
/// this again afterwards.
async fn grant_slots(
    session: &mut dyn Session,
    tenant_id: &TenantId,
    key: &MatchKey,
    now: Timestamp,
) -> Result<Vec<Slot>, StoreError> {
    session.lock_by_name(&format!("slot {tenant_id} {}", key.as_str())).await?;
    let held = session.query_first(&COUNT_HELD_SLOTS, cells![tenant_id, key]).await?;
    let (held,): (u64,) = held.unwrap_or_default();
    let waiting = session.query(&WAITING_SLOTS, cells![tenant_id, key, MAX_SLOT_GRANTS]).await?;
    let granted = grant_waiting_slots(waiting, held, now);
    let rows = granted.iter().map(|slot| [encode_slot_id(&slot.id), cells![now]].concat());
    session.execute_many(&HOLD_SLOT, &rows.collect::<Vec<_>>()).await?;
    Ok(granted)
}

async fn change_slots(
    session: &mut dyn Session,
    rows: &[CoordinationRow],
) -> Result<(), StoreError> {
    for CoordinationRow { change, cells } in rows {
        let statement = match change {
            RowChange::Put => &INSERT_SLOT,
            RowChange::Confirm => &CONFIRM_SLOT,
            RowChange::Drop => &RELEASE_SLOT,
        };
        session.execute(statement, cells.clone()).await?;
    }
    Ok(())
}

#[async_trait]
impl<D: Database> CoordinationStore for D {
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        let after = filter.after;
        let mut params = cells![
            filter.tenant_id,
            after.map(|it| it.execution_id),
            after.map(|it| it.command_id),
            after.map(|it| it.number),
            filter.limit,
        ];
        let statement = match filter.selector {
            WaitSelector::Matching { name, key } => {
                params.extend(cells![name, key]);
                &WAITS_BY_NAME
            }
            WaitSelector::Approvals => &APPROVAL_WAITS,
            WaitSelector::InExecution(execution_id) => {
                params.push(execution_id.to_cell());
                &WAITS_IN_EXECUTION
            }
        };
        self.query(statement, params).await
    }

    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError> {
        self.execute(Durability::Synced, &INSERT_BROADCAST, signal.to_row()).await.map(drop)
    }

    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError> {
        let mut signals = Vec::new();
        for awaited in &filter.awaited {
            let mut params = cells![filter.tenant_id, awaited.name, filter.since, filter.limit];
            let statement = match &awaited.key {
                None => &BROADCASTS_NAMED,
                Some(key) => {
                    params.push(key.to_cell());
                    &BROADCASTS_KEYED
                }
            };
            signals.append(&mut self.query(statement, params).await?);
        }
        Ok(merge_oldest_first(signals, filter.limit))
    }

    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError> {
        self.query(&DUE_FOLLOW_UPS, cells![now, limit]).await
    }

    /// Completing a follow-up twice is harmless, so a power failure may lose this write.
    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError> {
        let mut params = cells![execution_id, follow_up_id];
        let statement = match outcome {
            FollowUpOutcome::Done => &DELETE_FOLLOW_UP,
            FollowUpOutcome::RetryAt(time) => {
                params.push(time.to_cell());
                &DELAY_FOLLOW_UP
            }
        };
        Ok(self.execute(Durability::Unsynced, statement, params).await? > 0)
    }

    /// The append that confirms a grant makes it durable.
    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        let args = (tenant_id.clone(), key.clone(), now);
        self.transaction(Durability::Unsynced, PlanMode::Generic, args, |session, args| {
            Box::pin(grant_slots(session, &args.0, &args.1, args.2))
        })
        .await
    }

    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError> {
        match selector {
            SlotSelector::Key { tenant_id, key } => {
                self.query(&SLOTS_OF_KEY, cells![tenant_id, key, limit]).await
            }
            SlotSelector::Unconfirmed { held_by } => {
                self.query(&UNCONFIRMED_SLOTS, cells![held_by, limit]).await
            }
        }
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let rows = slot_rows(tenant_id, execution_id, changes);
        self.transaction(Durability::Synced, PlanMode::Generic, rows, |session, rows| {
            Box::pin(change_slots(session, rows))
        })
        .await
    }
}
