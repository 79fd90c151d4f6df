//! [`crate::CoordinationStore`] with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::{FaultyStore, StoreMethod};
use crate::coordination::CoordinationStore;
use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, BroadcastFilter, BroadcastSignal, CachedStepResult, DedupReservation,
    ExecutionVar, FollowUpOutcome, GcTarget, MatchKey, OpenWait, RequestKey, RequestOutcome,
    RequestReservation, ReserveOutcome, SetVarsError, Slot, SlotChange, SlotSelector,
    StoredFollowUp, WaitFilter,
};
use crate::store::Store;

#[async_trait]
impl<S: Store> CoordinationStore for FaultyStore<S> {
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListWaits).await?;
        mode.apply_to(self.inner.list_waits(filter).await)
    }

    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::PutBroadcast).await?;
        mode.apply_to(self.inner.put_broadcast(signal).await)
    }

    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListBroadcasts).await?;
        mode.apply_to(self.inner.list_broadcasts(filter).await)
    }

    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListDueFollowUps).await?;
        mode.apply_to(self.inner.list_due_follow_ups(now, limit).await)
    }

    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::CompleteFollowUp).await?;
        mode.apply_to(self.inner.complete_follow_up(execution_id, follow_up_id, outcome).await)
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        let mode = self.inject_fault(StoreMethod::GrantSlots).await?;
        mode.apply_to(self.inner.grant_slots(tenant_id, key, now).await)
    }

    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListSlots).await?;
        mode.apply_to(self.inner.list_slots(selector, limit).await)
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::ChangeSlots).await?;
        let call = self.inner.change_slots(tenant_id, execution_id, changes);
        mode.apply_to(call.await)
    }

    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindCachedResult).await?;
        mode.apply_to(self.inner.find_cached_result(tenant_id, scope, key_sha256, now).await)
    }

    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError> {
        let mode = self.inject_fault(StoreMethod::FindAnsweredRequest).await?;
        mode.apply_to(self.inner.find_answered_request(tenant_id, route, key_sha256, now).await)
    }

    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::HasSeenMessage).await?;
        mode.apply_to(self.inner.has_seen_message(message).await)
    }

    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError> {
        let mode = self.inject_fault(StoreMethod::ReserveRequest).await?;
        mode.apply_to(self.inner.reserve_request(reservation).await)
    }

    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::CompleteRequest).await?;
        mode.apply_to(self.inner.complete_request(key, work_id, outcome).await)
    }

    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError> {
        let mode = self.inject_fault(StoreMethod::SetVars).await?;
        mode.apply_to(self.inner.set_vars(execution_id, vars).await)
    }

    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListVars).await?;
        mode.apply_to(self.inner.list_vars(execution_id, name).await)
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::DeleteVars).await?;
        mode.apply_to(self.inner.delete_vars(execution_id, name).await)
    }

    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::DeleteExpired).await?;
        mode.apply_to(self.inner.delete_expired(target, now, limit).await)
    }
}
