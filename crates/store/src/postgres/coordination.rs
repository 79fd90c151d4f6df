//! [`CoordinationStore`](crate::coordination::CoordinationStore) in PostgreSQL.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::{PostgresStore, coordination_queries};
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
impl CoordinationStore for PostgresStore {
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        coordination_queries::list_waits(&self.pool, &filter).await
    }

    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError> {
        coordination_queries::put_broadcast(&self.pool, &signal).await
    }

    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError> {
        coordination_queries::list_broadcasts(&self.pool, &filter).await
    }

    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError> {
        coordination_queries::list_due_follow_ups(&self.pool, now, limit).await
    }

    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError> {
        coordination_queries::complete_follow_up(&self.pool, execution_id, follow_up_id, outcome)
            .await
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        coordination_queries::grant_slots(&self.pool, tenant_id, key, now).await
    }

    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError> {
        coordination_queries::list_slots(&self.pool, &selector, limit).await
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let rows = row::slot_rows(tenant_id, execution_id, changes);
        coordination_queries::change_slots(&self.pool, &rows).await
    }

    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError> {
        coordination_queries::find_cached_result(&self.pool, tenant_id, scope, key_sha256, now)
            .await
    }

    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError> {
        coordination_queries::find_answered_request(&self.pool, tenant_id, route, key_sha256, now)
            .await
    }

    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError> {
        coordination_queries::has_seen_message(&self.pool, &message).await
    }

    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError> {
        coordination_queries::reserve_request(&self.pool, &reservation).await
    }

    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError> {
        coordination_queries::complete_request(&self.pool, &key, work_id, outcome).await
    }

    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError> {
        let vars = check_vars(vars)?;
        Ok(coordination_queries::set_vars(&self.pool, execution_id, &vars).await?)
    }

    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError> {
        coordination_queries::list_vars(&self.pool, execution_id, name).await
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        coordination_queries::delete_vars(&self.pool, execution_id, name).await
    }

    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        match (expiring_table(target), &self.blobs) {
            (Some(table), _) => {
                coordination_queries::delete_expired(&self.list_pool, table.name, now, limit).await
            }
            (None, None) => Ok(0),
            (None, Some(blobs)) => {
                let is_referenced = |key: String| async move {
                    coordination_queries::is_blob_referenced(&self.list_pool, &key).await
                };
                blobs.delete_unreferenced(now, limit, is_referenced).await
            }
        }
    }
}
