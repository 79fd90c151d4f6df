//! Retention and statistics in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, ExecutionVersion, Month, Text, Timestamp};

use super::MemoryStore;
use super::state::{MemoryState, to_usize};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::model::{
    EnabledPublishers, ExecutionView, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
    RuntimeKind, StoreStats,
};

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl MemoryState {
    fn executions_in_partition(
        &self,
        partition: &LogPartition,
    ) -> impl Iterator<Item = ExecutionId> {
        let executions = self.executions.keys().copied();
        executions.filter(|id| partition.contains_execution(*id))
    }

    fn pin_reason(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
    ) -> Option<PinReason> {
        let is_live = |id: &ExecutionId| {
            let execution = self.executions.get(id);
            execution.is_some_and(|it| !it.view.status.is_terminal())
        };
        if let Some(id) = self.executions_in_partition(partition).find(is_live) {
            return Some(PinReason::NotEnded(id));
        }
        if let Some(id) =
            self.executions_in_partition(partition).find(|id| self.coordination.has_follow_up(*id))
        {
            return Some(PinReason::PendingFollowUp(id));
        }
        let mut executions = self.executions_in_partition(partition);
        if publishers.outbox
            && let Some(id) = executions.find(|id| self.publishing.is_unpublished(*id))
        {
            return Some(PinReason::Outbox(id));
        }
        let events = self.feed.iter();
        let last = events.rev().find(|(_, (id, _))| partition.contains_execution(*id));
        let last = last.map(|(position, _)| *position)?;
        let is_behind = |name: &&Text| !self.publishing.has_published(name, last);
        let lagging = publishers.streams.iter().find(is_behind);
        lagging.cloned().map(PinReason::Stream)
    }

    fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Vec<OldPartition> {
        let months: BTreeSet<_> =
            self.executions.keys().map(|id| Month::from_timestamp(id.time())).collect();
        let partitions = months.into_iter().map(LogPartition::for_month);
        let cutoff_id = noetl_types::id::first_id_at(before.as_unix_ms());
        partitions
            .filter(|partition| partition.end_id <= cutoff_id)
            .map(|partition| OldPartition {
                pin_reason: self.pin_reason(&partition, publishers),
                partition,
            })
            .collect()
    }

    /// Deletes a range of executions with everything that belongs to them.
    pub(super) fn drop_range(&mut self, lo: i64, hi: i64) {
        self.dropped.push((lo, hi));
        let is_kept = |id: &ExecutionId| !(lo..hi).contains(&id.get());
        self.executions.retain(|id, _| is_kept(id));
        self.logs.retain(|id, _| is_kept(id));
        self.results.retain(|(id, _), _| is_kept(id));
        self.feed.retain(|_, (id, _)| is_kept(id));
        self.commands.retain(|_, it| is_kept(&it.execution_id));
        self.timers.retain(|(id, _), _| is_kept(id));
        self.snapshots.retain(|(id, ..), _| is_kept(id));
        self.coordination.retain_executions(is_kept);
        self.publishing.retain_executions(is_kept);
    }

    fn ended_before(&self, before: Timestamp) -> BTreeSet<(Timestamp, CommandId)> {
        let commands = self.commands.values();
        let ended = commands.filter_map(|it| Some((it.completed_at?, it.command_id)));
        ended.filter(|(ended_at, _)| *ended_at < before).collect()
    }

    fn stale_worker_pools(&self, before: Timestamp) -> Vec<(RuntimeKind, Text)> {
        let pools = self.runtimes.iter();
        let is_old = |kind: RuntimeKind, heartbeat: Timestamp| {
            kind == RuntimeKind::WorkerPool && heartbeat < before
        };
        pools
            .filter(|((kind, _), it)| is_old(*kind, it.heartbeat))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

#[async_trait]
impl MaintenanceStore for MemoryStore {
    async fn ensure_log_partitions(
        &self,
        _now: Timestamp,
        _months_ahead: u32,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError> {
        Ok(self.lock().list_old_partitions(before, publishers))
    }

    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        _now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError> {
        let mut state = self.lock();
        let pin_reason = state.pin_reason(partition, publishers);
        if pin_reason.is_none() {
            let mut events = state.feed.iter();
            let last = events.rfind(|(_, (id, _))| partition.contains_execution(*id));
            let last = last.map_or(0, |(feed, _)| feed.position);
            state.publishing.last_dropped = state.publishing.last_dropped.max(last);
            state.drop_range(partition.first_id, partition.end_id);
        }
        Ok(pin_reason)
    }

    async fn purge_dropped_executions(
        &self,
        _now: Timestamp,
        _limit: PageLimit,
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(to_u64(self.lock().ended_before(before).len()))
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let old = state.ended_before(before);
        let old: Vec<_> = old.into_iter().take(to_usize(limit.get())).collect();
        for (_, id) in &old {
            state.commands.remove(id);
        }
        Ok(to_u64(old.len()))
    }

    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(to_u64(self.lock().stale_worker_pools(before).len()))
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut old = state.stale_worker_pools(before);
        old.truncate(to_usize(limit.get()));
        for key in &old {
            state.runtimes.remove(key);
        }
        Ok(to_u64(old.len()))
    }

    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let execution = state.executions.get_mut(&execution_id);
        let execution = execution.filter(|it| it.head.version == version);
        Ok(execution.map(|it| it.view = view).is_some())
    }

    async fn store_stats(&self) -> Result<StoreStats, StoreError> {
        let state = self.lock();
        Ok(StoreStats {
            backend: "memory",
            schema_version: 0,
            log_epoch: state.publishing.log_epoch(),
            bytes: 0,
            rows: BTreeMap::from([
                ("execution", to_u64(state.executions.len())),
                ("event", to_u64(state.feed.len())),
                ("command", to_u64(state.commands.len())),
                ("outbox", to_u64(state.publishing.outbox_row_count())),
                ("result_store", to_u64(state.results.len())),
            ]),
        })
    }

    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        Ok(Vec::new())
    }

    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let state = self.lock();
        let ids = state.executions.keys().copied();
        let ids = ids.filter(|id| after.is_none_or(|after| *id > after));
        Ok(ids.take(to_usize(limit.get())).collect())
    }

    async fn write_backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::fatal("an in-memory store cannot be backed up"))
    }
}
