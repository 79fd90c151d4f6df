//! What is old, and how the model stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, Month, Text, Timestamp, Version};

use super::MemoryStore;
use super::state::{State, many};
use crate::error::StoreError;
use crate::model::{
    EnabledOutlets, ExecutionView, LogPart, MissingWall, OldPart, Pinned, RuntimeKind, StoreFacts,
};
use crate::upkeep::Upkeep;

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl State {
    fn in_part(&self, part: &LogPart) -> impl Iterator<Item = ExecutionId> {
        let executions = self.executions.keys().copied();
        executions.filter(|id| part.contains(*id))
    }

    fn pinned(&self, part: &LogPart, outlets: &EnabledOutlets) -> Option<Pinned> {
        let is_live = |id: &ExecutionId| {
            let execution = self.executions.get(id);
            execution.is_some_and(|it| !it.view.status.is_terminal())
        };
        if let Some(id) = self.in_part(part).find(is_live) {
            return Some(Pinned::Live(id));
        }
        if let Some(id) = self.in_part(part).find(|id| self.shared.owes(*id)) {
            return Some(Pinned::Owed(id));
        }
        let mut executions = self.in_part(part);
        if outlets.outbox
            && let Some(id) = executions.find(|id| self.outlets.is_unpublished(*id))
        {
            return Some(Pinned::Outbox(id));
        }
        let events = self.feed.iter();
        let last = events.rev().find(|(_, (id, _))| part.contains(*id));
        let last = last.map(|(position, _)| *position)?;
        let is_behind = |name: &&Text| !self.outlets.has_published(name, last);
        let behind = outlets.streams.iter().find(is_behind);
        behind.cloned().map(Pinned::Stream)
    }

    fn old_parts(&self, before: Timestamp, outlets: &EnabledOutlets) -> Vec<OldPart> {
        let months: BTreeSet<_> = self
            .executions
            .keys()
            .map(|id| Month::of(id.time()))
            .collect();
        let parts = months.into_iter().map(LogPart::of);
        let cut = noetl_types::id::first_id_at(before.as_unix_ms());
        parts
            .filter(|part| part.hi <= cut)
            .map(|part| OldPart {
                pinned: self.pinned(&part, outlets),
                part,
            })
            .collect()
    }

    /// Forgets a range of executions with everything that belongs to them.
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
        self.shared.keep(is_kept);
        self.outlets.keep(is_kept);
    }

    fn ended_before(&self, before: Timestamp) -> BTreeSet<(Timestamp, CommandId)> {
        let commands = self.commands.values();
        let ended = commands.filter_map(|it| Some((it.completed_at?, it.command_id)));
        ended.filter(|(ended_at, _)| *ended_at < before).collect()
    }

    fn silent_since(&self, before: Timestamp) -> Vec<(RuntimeKind, Text)> {
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
impl Upkeep for MemoryStore {
    async fn keep_months(&self, _now: Timestamp, _ahead: u32) -> Result<(), StoreError> {
        Ok(())
    }

    async fn months_until(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn old_parts(
        &self,
        before: Timestamp,
        outlets: &EnabledOutlets,
    ) -> Result<Vec<OldPart>, StoreError> {
        Ok(self.lock().old_parts(before, outlets))
    }

    async fn drop_part(
        &self,
        part: &LogPart,
        outlets: &EnabledOutlets,
        _now: Timestamp,
    ) -> Result<Option<Pinned>, StoreError> {
        let mut state = self.lock();
        let pinned = state.pinned(part, outlets);
        if pinned.is_none() {
            let mut events = state.feed.iter();
            let last = events.rfind(|(_, (id, _))| part.contains(*id));
            let last = last.map_or(0, |(place, _)| place.position);
            state.outlets.last_dropped = state.outlets.last_dropped.max(last);
            state.drop_range(part.lo, part.hi);
        }
        Ok(pinned)
    }

    async fn clean_dropped(&self, _now: Timestamp, _limit: PageLimit) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(count(self.lock().ended_before(before).len()))
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let old = state.ended_before(before);
        let old: Vec<_> = old.into_iter().take(many(limit.get())).collect();
        for (_, id) in &old {
            state.commands.remove(id);
        }
        Ok(count(old.len()))
    }

    async fn old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(count(self.lock().silent_since(before).len()))
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut old = state.silent_since(before);
        old.truncate(many(limit.get()));
        for key in &old {
            state.runtimes.remove(key);
        }
        Ok(count(old.len()))
    }

    async fn rewrite_view(
        &self,
        execution_id: ExecutionId,
        version: Version,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let execution = state.executions.get_mut(&execution_id);
        let execution = execution.filter(|it| it.head.version == version);
        Ok(execution.map(|it| it.view = view).is_some())
    }

    async fn facts(&self) -> Result<StoreFacts, StoreError> {
        let state = self.lock();
        Ok(StoreFacts {
            backend: "memory",
            schema_version: 0,
            log_epoch: state.outlets.log_epoch(),
            bytes: 0,
            rows: BTreeMap::from([
                ("execution", count(state.executions.len())),
                ("event", count(state.feed.len())),
                ("command", count(state.commands.len())),
                ("outbox", count(state.outlets.rows())),
                ("result_store", count(state.results.len())),
            ]),
        })
    }

    async fn tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn missing_walls(&self) -> Result<Vec<MissingWall>, StoreError> {
        Ok(Vec::new())
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let state = self.lock();
        let ids = state.executions.keys().copied();
        let ids = ids.filter(|id| after.is_none_or(|after| *id > after));
        Ok(ids.take(many(limit.get())).collect())
    }

    async fn backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::fatal("a store in memory has nothing to copy"))
    }
}
