//! [`CoordinationStore`](crate::coordination::CoordinationStore) in SQLite.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::bind::to_store_error;
use super::writer::Durability;
use super::{SqliteStore, coordination_queries};
use crate::coordination::CoordinationStore;
use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, BroadcastFilter, BroadcastSignal, CachedStepResult, DedupReservation,
    ExecutionVar, FollowUpOutcome, GcTarget, MatchKey, OpenWait, RequestKey, RequestOutcome,
    RequestReservation, ReserveOutcome, SetVarsError, Slot, SlotChange, SlotSelector,
    StoredFollowUp, WaitFilter, check_vars,
};
use crate::row::{self, expiring_table};

#[async_trait]
impl CoordinationStore for SqliteStore {
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        self.readers
            .run_query(move |connection| coordination_queries::list_waits(connection, &filter))
            .await
    }

    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::put_broadcast(connection, &signal)
            })
            .await
    }

    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError> {
        self.readers
            .run_query(move |connection| coordination_queries::list_broadcasts(connection, &filter))
            .await
    }

    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError> {
        self.readers
            .run_query(move |connection| {
                coordination_queries::list_due_follow_ups(connection, now, limit)
            })
            .await
    }

    /// Completing a follow-up twice is harmless, so a power failure may lose this write.
    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError> {
        let follow_up_id = follow_up_id.clone();
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                coordination_queries::complete_follow_up(
                    connection,
                    execution_id,
                    &follow_up_id,
                    outcome,
                )
            })
            .await
    }

    /// The append that confirms a grant makes it durable.
    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        let (tenant_id, key) = (tenant_id.clone(), key.clone());
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                coordination_queries::grant_slots(connection, &tenant_id, &key, now)
            })
            .await
    }

    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError> {
        self.readers
            .run_query(move |connection| {
                coordination_queries::list_slots(connection, &selector, limit)
            })
            .await
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let rows = row::slot_rows(tenant_id, execution_id, changes);
        self.writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::change_slots(connection, &rows).map_err(to_store_error)
            })
            .await
    }

    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError> {
        let (tenant_id, scope) = (tenant_id.clone(), scope.clone());
        self.readers
            .run_query(move |connection| {
                coordination_queries::find_cached_result(
                    connection, &tenant_id, &scope, key_sha256, now,
                )
            })
            .await
    }

    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError> {
        let key = RequestKey { tenant_id: tenant_id.clone(), route: route.clone(), key_sha256 };
        self.readers
            .run_query(move |connection| {
                coordination_queries::find_answered_request(connection, &key, now)
            })
            .await
    }

    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError> {
        self.readers
            .run_query(move |connection| {
                coordination_queries::has_seen_message(connection, &message)
            })
            .await
    }

    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::reserve_request(connection, &reservation)
            })
            .await
    }

    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::complete_request(connection, &key, work_id, &outcome)
            })
            .await
    }

    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError> {
        let vars = check_vars(vars)?;
        let written = self
            .writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::set_vars(connection, execution_id, &vars)
            })
            .await;
        Ok(written?)
    }

    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError> {
        let name = name.cloned();
        self.readers
            .run_query(move |connection| {
                coordination_queries::list_vars(connection, execution_id, name.as_ref())
            })
            .await
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        let name = name.cloned();
        self.writer
            .run_write(Durability::Synced, move |connection| {
                coordination_queries::delete_vars(connection, execution_id, name.as_ref())
            })
            .await
    }

    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let Some(table) = expiring_table(target) else {
            return self.delete_unreferenced_blobs(now, limit).await;
        };
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                coordination_queries::delete_expired(connection, table.name, now, limit)
            })
            .await
    }
}

impl SqliteStore {
    async fn delete_unreferenced_blobs(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let Some(blobs) = &self.blobs else {
            return Ok(0);
        };
        let is_referenced = |key: String| {
            self.readers.run_query(move |connection| {
                coordination_queries::is_blob_referenced(connection, &key)
            })
        };
        blobs.delete_unreferenced(now, limit, is_referenced).await
    }
}
