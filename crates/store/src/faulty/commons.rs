//! What executions share, with faults.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::{FaultyStore, Method};
use crate::commons::Commons;
use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MatchKey,
    OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, Swept, Taken, Var,
    VarsRefused, WaitFilter,
};
use crate::store::Store;

#[async_trait]
impl<S: Store> Commons for FaultyStore<S> {
    async fn waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        let answer = self.fault(Method::Waits).await?;
        answer.of(self.inner.waits(filter).await)
    }

    async fn broadcast(&self, signal: Broadcast) -> Result<(), StoreError> {
        let answer = self.fault(Method::Broadcast).await?;
        answer.of(self.inner.broadcast(signal).await)
    }

    async fn broadcasts(&self, filter: BroadcastFilter) -> Result<Vec<Broadcast>, StoreError> {
        let answer = self.fault(Method::Broadcasts).await?;
        answer.of(self.inner.broadcasts(filter).await)
    }

    async fn errands(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Errand>, StoreError> {
        let answer = self.fault(Method::Errands).await?;
        answer.of(self.inner.errands(now, limit).await)
    }

    async fn settle_errand(
        &self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::SettleErrand).await?;
        answer.of(self
            .inner
            .settle_errand(execution_id, errand_id, outcome)
            .await)
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        let answer = self.fault(Method::GrantSlots).await?;
        answer.of(self.inner.grant_slots(tenant_id, key, now).await)
    }

    async fn slots(&self, choice: SlotChoice, limit: PageLimit) -> Result<Vec<Slot>, StoreError> {
        let answer = self.fault(Method::Slots).await?;
        answer.of(self.inner.slots(choice, limit).await)
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let answer = self.fault(Method::ChangeSlots).await?;
        let changed = self.inner.change_slots(tenant_id, execution_id, changes);
        answer.of(changed.await)
    }

    async fn cached(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Cached>, StoreError> {
        let answer = self.fault(Method::Cached).await?;
        answer.of(self.inner.cached(tenant_id, scope, key_sha256, now).await)
    }

    async fn answered(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Answered>, StoreError> {
        let answer = self.fault(Method::Answered).await?;
        answer.of(self.inner.answered(tenant_id, route, key_sha256, now).await)
    }

    async fn has_seen(&self, message: DedupClaim) -> Result<bool, StoreError> {
        let answer = self.fault(Method::HasSeen).await?;
        answer.of(self.inner.has_seen(message).await)
    }

    async fn take_request(&self, take: RequestTake) -> Result<Taken, StoreError> {
        let answer = self.fault(Method::TakeRequest).await?;
        answer.of(self.inner.take_request(take).await)
    }

    async fn settle_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        end: RequestEnd,
    ) -> Result<(), StoreError> {
        let answer = self.fault(Method::SettleRequest).await?;
        answer.of(self.inner.settle_request(key, work_id, end).await)
    }

    async fn set_vars(&self, execution_id: ExecutionId, vars: Vec<Var>) -> Result<(), VarsRefused> {
        let answer = self.fault(Method::SetVars).await?;
        answer.of(self.inner.set_vars(execution_id, vars).await)
    }

    async fn vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<Var>, StoreError> {
        let answer = self.fault(Method::Vars).await?;
        answer.of(self.inner.vars(execution_id, name).await)
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        let answer = self.fault(Method::DeleteVars).await?;
        answer.of(self.inner.delete_vars(execution_id, name).await)
    }

    async fn sweep(
        &self,
        what: Swept,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let answer = self.fault(Method::Sweep).await?;
        answer.of(self.inner.sweep(what, now, limit).await)
    }
}
