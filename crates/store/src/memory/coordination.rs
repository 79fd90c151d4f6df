//! Coordination state in memory.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::MemoryStore;
use super::coordination_state::delete_expired_entries;
use crate::coordination::CoordinationStore;
use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, BroadcastFilter, BroadcastSignal, CachedStepResult, DedupReservation,
    ExecutionVar, FollowUpOutcome, GcTarget, MatchKey, OpenWait, RequestKey, RequestOutcome,
    RequestReservation, ReserveOutcome, SetVarsError, Slot, SlotChange, SlotSelector,
    StoredFollowUp, WaitFilter, check_vars,
};

#[async_trait]
impl CoordinationStore for MemoryStore {
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        Ok(self.lock().coordination.list_waits(&filter))
    }

    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError> {
        self.lock().coordination.put_broadcast(signal);
        Ok(())
    }

    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError> {
        Ok(self.lock().coordination.list_broadcasts(&filter))
    }

    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError> {
        Ok(self.lock().coordination.list_due_follow_ups(now, limit))
    }

    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        Ok(state.coordination.complete_follow_up(execution_id, follow_up_id, outcome))
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        Ok(self.lock().coordination.grant_slots(tenant_id, key, now))
    }

    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError> {
        Ok(self.lock().coordination.list_slots(&selector, limit))
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let coordination = &mut self.lock().coordination;
        for change in changes {
            coordination.change_slot(change, tenant_id, execution_id);
        }
        Ok(())
    }

    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError> {
        let state = self.lock();
        Ok(state.coordination.find_cached_result(tenant_id, scope, key_sha256, now))
    }

    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError> {
        let key = RequestKey { tenant_id: tenant_id.clone(), route: route.clone(), key_sha256 };
        Ok(self.lock().coordination.find_answered_request(&key, now))
    }

    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError> {
        Ok(self.lock().coordination.has_seen_message(&message))
    }

    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError> {
        Ok(self.lock().coordination.reserve_request(reservation))
    }

    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError> {
        self.lock().coordination.complete_request(key, work_id, outcome);
        Ok(())
    }

    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError> {
        let vars = check_vars(vars)?;
        self.lock().coordination.set_vars(execution_id, vars);
        Ok(())
    }

    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError> {
        Ok(self.lock().coordination.list_vars(execution_id, name))
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        Ok(self.lock().coordination.delete_vars(execution_id, name))
    }

    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(match target {
            GcTarget::Results => {
                // A result without an expiry time never expires.
                let expires_at =
                    |it: &crate::model::StoredResult| it.expires_at.unwrap_or(Timestamp::MAX);
                delete_expired_entries(&mut state.results, expires_at, now, limit)
            }
            GcTarget::Keychain => {
                delete_expired_entries(&mut state.keychain, |it| it.expires_at, now, limit)
            }
            GcTarget::Cache
            | GcTarget::Dedup
            | GcTarget::Idempotency
            | GcTarget::Broadcasts
            | GcTarget::Blobs => state.coordination.delete_expired(target, now, limit),
        })
    }
}
