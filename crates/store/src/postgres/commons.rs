//! What executions share, in the database.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::{PostgresStore, shared};
use crate::commons::Commons;
use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MatchKey,
    OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, Swept, Taken, Var,
    VarsRefused, WaitFilter, check_vars,
};
use crate::row::{self, swept_table};

#[async_trait]
impl Commons for PostgresStore {
    async fn waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        shared::waits(&self.pool, &filter).await
    }

    async fn broadcast(&self, signal: Broadcast) -> Result<(), StoreError> {
        shared::broadcast(&self.pool, &signal).await
    }

    async fn broadcasts(&self, filter: BroadcastFilter) -> Result<Vec<Broadcast>, StoreError> {
        shared::broadcasts(&self.pool, &filter).await
    }

    async fn errands(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Errand>, StoreError> {
        shared::errands(&self.pool, now, limit).await
    }

    async fn settle_errand(
        &self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> Result<bool, StoreError> {
        shared::settle_errand(&self.pool, execution_id, errand_id, outcome).await
    }

    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError> {
        shared::grant_slots(&self.pool, tenant_id, key, now).await
    }

    async fn slots(&self, choice: SlotChoice, limit: PageLimit) -> Result<Vec<Slot>, StoreError> {
        shared::slots(&self.pool, &choice, limit).await
    }

    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError> {
        let rows = row::slot_rows(tenant_id, execution_id, changes);
        shared::change_slots(&self.pool, &rows).await
    }

    async fn cached(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Cached>, StoreError> {
        shared::cached(&self.pool, (tenant_id, scope, key_sha256), now).await
    }

    async fn answered(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Answered>, StoreError> {
        shared::answered(&self.pool, (tenant_id, route, key_sha256), now).await
    }

    async fn has_seen(&self, message: DedupClaim) -> Result<bool, StoreError> {
        shared::has_seen(&self.pool, &message).await
    }

    async fn take_request(&self, take: RequestTake) -> Result<Taken, StoreError> {
        shared::take_request(&self.pool, &take).await
    }

    async fn settle_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        end: RequestEnd,
    ) -> Result<(), StoreError> {
        shared::settle_request(&self.pool, &key, work_id, end).await
    }

    async fn set_vars(&self, execution_id: ExecutionId, vars: Vec<Var>) -> Result<(), VarsRefused> {
        let vars = check_vars(vars)?;
        Ok(shared::set_vars(&self.pool, execution_id, &vars).await?)
    }

    async fn vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<Var>, StoreError> {
        shared::vars(&self.pool, execution_id, name).await
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        shared::delete_vars(&self.pool, execution_id, name).await
    }

    async fn sweep(
        &self,
        what: Swept,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        match (swept_table(what), &self.blobs) {
            (Some(table), _) => shared::sweep(&self.lists, table.name, now, limit).await,
            (None, None) => Ok(0),
            (None, Some(blobs)) => {
                let is_named =
                    |key: String| async move { shared::is_in_file(&self.lists, &key).await };
                blobs.sweep(now, limit, is_named).await
            }
        }
    }
}
