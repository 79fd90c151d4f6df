//! What executions share, behind the lock.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::MemoryStore;
use super::shared::sweep;
use crate::commons::Commons;
use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MatchKey,
    OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, Swept, Taken, Var,
    VarsRefused, WaitFilter, check_vars,
};

#[async_trait]
impl Commons for MemoryStore {
    async fn waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        Ok(self.lock().shared.waits(&filter))
    }

    async fn broadcast(&self, signal: Broadcast) -> Result<(), StoreError> {
        self.lock().shared.broadcast(signal);
        Ok(())
    }

    async fn broadcasts(&self, filter: BroadcastFilter) -> Result<Vec<Broadcast>, StoreError> {
        Ok(self.lock().shared.broadcasts(&filter))
    }

    async fn errands(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Errand>, StoreError> {
        Ok(self.lock().shared.errands(now, limit))
    }

    async fn settle_errand(
        &self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        Ok(state.shared.settle_errand(execution_id, errand_id, outcome))
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        Ok(self.lock().shared.grant_slots(tenant_id, key, now))
    }

    async fn slots(&self, choice: SlotChoice, limit: PageLimit) -> Result<Vec<Slot>, StoreError> {
        Ok(self.lock().shared.slots(&choice, limit))
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let shared = &mut self.lock().shared;
        for change in changes {
            shared.change_slot(change, tenant_id, execution_id);
        }
        Ok(())
    }

    async fn cached(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Cached>, StoreError> {
        let key = (tenant_id.clone(), scope.clone(), key_sha256);
        Ok(self.lock().shared.cached(&key, now))
    }

    async fn answered(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Answered>, StoreError> {
        let key = (tenant_id.clone(), route.clone(), key_sha256);
        Ok(self.lock().shared.answered(&key, now))
    }

    async fn has_seen(&self, message: DedupClaim) -> Result<bool, StoreError> {
        Ok(self.lock().shared.has_seen(&message))
    }

    async fn take_request(&self, take: RequestTake) -> Result<Taken, StoreError> {
        Ok(self.lock().shared.take_request(take))
    }

    async fn settle_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        end: RequestEnd,
    ) -> Result<(), StoreError> {
        self.lock().shared.settle_request(key, work_id, end);
        Ok(())
    }

    async fn set_vars(&self, execution_id: ExecutionId, vars: Vec<Var>) -> Result<(), VarsRefused> {
        let vars = check_vars(vars)?;
        self.lock().shared.set_vars(execution_id, vars);
        Ok(())
    }

    async fn vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<Var>, StoreError> {
        Ok(self.lock().shared.vars(execution_id, name))
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        Ok(self.lock().shared.delete_vars(execution_id, name))
    }

    async fn sweep(
        &self,
        what: Swept,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(match what {
            Swept::Results => {
                // What has no end is never over.
                let expires_at =
                    |it: &crate::model::StoredResult| it.expires_at.unwrap_or(Timestamp::MAX);
                sweep(&mut state.results, expires_at, now, limit)
            }
            Swept::Keychain => sweep(&mut state.keychain, |it| it.expires_at, now, limit),
            Swept::Cache | Swept::Dedup | Swept::Idempotency | Swept::Broadcasts | Swept::Blobs => {
                state.shared.sweep(what, now, limit)
            }
        })
    }
}
