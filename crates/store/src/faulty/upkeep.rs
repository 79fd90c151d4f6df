//! What keeps a store in order, with faults.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Timestamp, Version};

use super::{FaultyStore, Method};
use crate::error::StoreError;
use crate::model::{
    EnabledOutlets, ExecutionView, LogPart, MissingWall, OldPart, Pinned, StoreFacts,
};
use crate::store::Store;
use crate::upkeep::Upkeep;

#[async_trait]
impl<S: Store> Upkeep for FaultyStore<S> {
    async fn keep_months(&self, now: Timestamp, ahead: u32) -> Result<(), StoreError> {
        let answer = self.fault(Method::KeepMonths).await?;
        answer.of(self.inner.keep_months(now, ahead).await)
    }

    async fn months_until(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = self.fault(Method::MonthsUntil).await?;
        answer.of(self.inner.months_until().await)
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = self.fault(Method::Clock).await?;
        answer.of(self.inner.clock().await)
    }

    async fn old_parts(
        &self,
        before: Timestamp,
        outlets: &EnabledOutlets,
    ) -> Result<Vec<OldPart>, StoreError> {
        let answer = self.fault(Method::OldParts).await?;
        answer.of(self.inner.old_parts(before, outlets).await)
    }

    async fn drop_part(
        &self,
        part: &LogPart,
        outlets: &EnabledOutlets,
        now: Timestamp,
    ) -> Result<Option<Pinned>, StoreError> {
        let answer = self.fault(Method::DropPart).await?;
        answer.of(self.inner.drop_part(part, outlets, now).await)
    }

    async fn clean_dropped(&self, now: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let answer = self.fault(Method::CleanDropped).await?;
        answer.of(self.inner.clean_dropped(now, limit).await)
    }

    async fn old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::OldCommands).await?;
        answer.of(self.inner.old_commands(before).await)
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let answer = self.fault(Method::PurgeCommands).await?;
        answer.of(self.inner.purge_commands(before, limit).await)
    }

    async fn old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        let answer = self.fault(Method::OldRuntimes).await?;
        answer.of(self.inner.old_runtimes(before).await)
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let answer = self.fault(Method::PurgeRuntimes).await?;
        answer.of(self.inner.purge_runtimes(before, limit).await)
    }

    async fn rewrite_view(
        &self,
        execution_id: ExecutionId,
        version: Version,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let answer = self.fault(Method::RewriteView).await?;
        answer.of(self.inner.rewrite_view(execution_id, version, view).await)
    }

    async fn facts(&self) -> Result<StoreFacts, StoreError> {
        let answer = self.fault(Method::Facts).await?;
        answer.of(self.inner.facts().await)
    }

    async fn tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        let answer = self.fault(Method::Tables).await?;
        answer.of(self.inner.tables().await)
    }

    async fn missing_walls(&self) -> Result<Vec<MissingWall>, StoreError> {
        let answer = self.fault(Method::MissingWalls).await?;
        answer.of(self.inner.missing_walls().await)
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let answer = self.fault(Method::Integrity).await?;
        answer.of(self.inner.integrity().await)
    }

    async fn execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let answer = self.fault(Method::ExecutionIds).await?;
        answer.of(self.inner.execution_ids(after, limit).await)
    }

    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let answer = self.fault(Method::Backup).await?;
        answer.of(self.inner.backup(to).await)
    }
}
