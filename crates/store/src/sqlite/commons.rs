//! What executions share, in the file.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use super::bind::failure;
use super::writer::Durability;
use super::{SqliteStore, shared};
use crate::commons::Commons;
use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MatchKey,
    OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, Swept, Taken, Var,
    VarsRefused, WaitFilter, check_vars,
};
use crate::row::{self, swept_table};

#[async_trait]
impl Commons for SqliteStore {
    async fn waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError> {
        self.readers
            .run(move |connection| shared::waits(connection, &filter))
            .await
    }

    async fn broadcast(&self, signal: Broadcast) -> Result<(), StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                shared::broadcast(connection, &signal)
            })
            .await
    }

    async fn broadcasts(&self, filter: BroadcastFilter) -> Result<Vec<Broadcast>, StoreError> {
        self.readers
            .run(move |connection| shared::broadcasts(connection, &filter))
            .await
    }

    async fn errands(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Errand>, StoreError> {
        self.readers
            .run(move |connection| shared::errands(connection, now, limit))
            .await
    }

    /// An errand that is settled twice does no harm, so a loss of power may forget it.
    async fn settle_errand(
        &self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> Result<bool, StoreError> {
        let errand_id = errand_id.clone();
        self.writer
            .run(Durability::Forgettable, move |connection| {
                shared::settle_errand(connection, execution_id, &errand_id, outcome)
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
            .run(Durability::Forgettable, move |connection| {
                shared::grant_slots(connection, &tenant_id, &key, now)
            })
            .await
    }

    async fn slots(&self, choice: SlotChoice, limit: PageLimit) -> Result<Vec<Slot>, StoreError> {
        self.readers
            .run(move |connection| shared::slots(connection, &choice, limit))
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
            .run(Durability::Synced, move |connection| {
                shared::change_slots(connection, &rows).map_err(failure)
            })
            .await
    }

    async fn cached(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Cached>, StoreError> {
        let key = (tenant_id.clone(), scope.clone(), key_sha256);
        self.readers
            .run(move |connection| shared::cached(connection, &key, now))
            .await
    }

    async fn answered(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Answered>, StoreError> {
        let key = (tenant_id.clone(), route.clone(), key_sha256);
        self.readers
            .run(move |connection| shared::answered(connection, &key, now))
            .await
    }

    async fn has_seen(&self, message: DedupClaim) -> Result<bool, StoreError> {
        self.readers
            .run(move |connection| shared::has_seen(connection, &message))
            .await
    }

    async fn take_request(&self, take: RequestTake) -> Result<Taken, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                shared::take_request(connection, &take)
            })
            .await
    }

    async fn settle_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        end: RequestEnd,
    ) -> Result<(), StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                shared::settle_request(connection, &key, work_id, &end)
            })
            .await
    }

    async fn set_vars(&self, execution_id: ExecutionId, vars: Vec<Var>) -> Result<(), VarsRefused> {
        let vars = check_vars(vars)?;
        let written = self
            .writer
            .run(Durability::Synced, move |connection| {
                shared::set_vars(connection, execution_id, &vars)
            })
            .await;
        Ok(written?)
    }

    async fn vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<Var>, StoreError> {
        let name = name.cloned();
        self.readers
            .run(move |connection| shared::vars(connection, execution_id, name.as_ref()))
            .await
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        let name = name.cloned();
        self.writer
            .run(Durability::Synced, move |connection| {
                shared::delete_vars(connection, execution_id, name.as_ref())
            })
            .await
    }

    async fn sweep(
        &self,
        what: Swept,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let Some(table) = swept_table(what) else {
            return self.sweep_blobs(now, limit).await;
        };
        self.writer
            .run(Durability::Forgettable, move |connection| {
                shared::sweep(connection, table.name, now, limit)
            })
            .await
    }
}

impl SqliteStore {
    async fn sweep_blobs(&self, now: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let Some(blobs) = &self.blobs else {
            return Ok(0);
        };
        let is_named = |key: String| {
            self.readers
                .run(move |connection| shared::is_in_file(connection, &key))
        };
        blobs.sweep(now, limit, is_named).await
    }
}
