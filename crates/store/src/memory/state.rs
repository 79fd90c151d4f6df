//! The maps, and what can be asked of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, CommandId, CredentialId, EventId, ExecutionId, FeedPosition, KeychainId,
    PlaybookPath, ResultId, StoredEvent, TenantId, Text, Timestamp, Version,
};

use super::outlets::OutletState;
use super::shared::Shared;
use super::vault::Kept;
use crate::error::StoreError;
use crate::machines::Machines;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, Command, Counts, Credential, DueTimer, Execution,
    ExecutionCursor, ExecutionFilter, ExecutionPage, FEED_BYTES, FeedBatch, FeedLimit,
    KeychainEntry, Loaded, LogPage, NewCatalogEntry, NewRuntime, Origin, PutRefused, Registered,
    Runtime, RuntimeKind, Snapshot, SnapshotKey, StatusCounts, StoredResult, VersionFilter, body,
    superfluous,
};

/// The log of one execution.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) events: Vec<StoredEvent>,
    pub(super) by_id: BTreeMap<EventId, Version>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) executions: BTreeMap<ExecutionId, Execution>,
    pub(super) logs: BTreeMap<ExecutionId, Log>,
    pub(super) feed: BTreeMap<FeedPosition, (ExecutionId, Version)>,
    pub(super) last_position: i64,
    pub(super) commands: BTreeMap<CommandId, Command>,
    pub(super) timers: BTreeMap<(ExecutionId, Text), Timestamp>,
    pub(super) results: BTreeMap<(ExecutionId, ResultId), StoredResult>,
    pub(super) machines: Machines,
    pub(super) snapshots: BTreeMap<(ExecutionId, SnapshotKey, Version), Snapshot>,
    catalog: BTreeMap<(TenantId, PlaybookPath), BTreeMap<u32, CatalogEntry>>,
    catalog_ids: BTreeMap<CatalogId, (TenantId, PlaybookPath, u32)>,
    pub(super) runtimes: BTreeMap<(RuntimeKind, Text), Runtime>,
    pub(super) credentials: BTreeMap<CredentialId, Credential>,
    pub(super) keychain: BTreeMap<KeychainId, KeychainEntry>,
    /// What is about more than one execution.
    pub(super) shared: Shared,
    /// What publishers and projectors use.
    pub(super) outlets: OutletState,
    /// Ranges of ids that retention has dropped.
    pub(super) dropped: Vec<(i64, i64)>,
    /// Who may come in, and what was done.
    pub(super) kept: Kept,
}

pub(super) fn many(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl State {
    pub(super) fn is_gone(&self, execution_id: ExecutionId) -> bool {
        let mut ranges = self.dropped.iter();
        ranges.any(|(lo, hi)| (*lo..*hi).contains(&execution_id.get()))
    }

    pub(super) fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Option<&StoredEvent> {
        let log = self.logs.get(&execution_id)?;
        let version = log.by_id.get(&event_id)?;
        let place = usize::try_from(version.get()).ok()?.checked_sub(1)?;
        log.events.get(place)
    }

    pub(super) fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Vec<StoredEvent> {
        // Event n stands at place n - 1, so a version is the place behind its event.
        let first = usize::try_from(after.get()).unwrap_or(usize::MAX);
        self.logs
            .get(&execution_id)
            .and_then(|log| log.events.get(first..))
            .unwrap_or_default()
            .iter()
            .take(many(page.get()))
            .cloned()
            .collect()
    }

    pub(super) fn load(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        page: LogPage,
    ) -> Option<Loaded> {
        let execution = self.executions.get(&execution_id)?.clone();
        let snapshot = self.snapshot(execution_id, key, execution.head.version);
        let snapshot = snapshot.cloned();
        let after = snapshot
            .as_ref()
            .map_or(Version::EMPTY, |snapshot| snapshot.head.version);
        let tail = self.events(execution_id, after, page);
        Some(Loaded::of(execution, snapshot, tail, page))
    }

    pub(super) fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Option<&Snapshot> {
        let of_key = |version| (execution_id, key.clone(), version);
        let snapshots = self
            .snapshots
            .range(of_key(Version::EMPTY)..=of_key(at_most));
        snapshots.map(|(_, snapshot)| snapshot).next_back()
    }

    pub(super) fn write_snapshot(&mut self, snapshot: Snapshot) {
        let (execution_id, key) = (snapshot.execution_id, snapshot.key.clone());
        let of_key = |version| (execution_id, key.clone(), version);
        let place = of_key(snapshot.head.version);
        self.snapshots.entry(place).or_insert(snapshot);
        let last = Version::new(i64::MAX).unwrap_or_default();
        let kept = self.snapshots.range(of_key(Version::EMPTY)..=of_key(last));
        let versions: Vec<_> = kept.map(|((.., version), _)| *version).collect();
        if let Some(version) = superfluous(&versions) {
            self.snapshots.remove(&of_key(version));
        }
    }

    pub(super) fn feed(&self, after: FeedPosition, limit: FeedLimit) -> FeedBatch {
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut bytes = 0;
        let behind = self.feed.range((Bound::Excluded(after), Bound::Unbounded));
        for (_, (execution_id, version)) in behind.take(many(limit.get())) {
            let place = usize::try_from(version.get()).ok();
            let place = place.and_then(|place| place.checked_sub(1));
            let log = self.logs.get(execution_id);
            let event = log
                .zip(place)
                .and_then(|(log, place)| log.events.get(place));
            if bytes >= FEED_BYTES {
                return FeedBatch::of(events, after, limit, true);
            }
            bytes += event.map_or(0, |event| body(&event.record).len());
            events.extend(event.cloned());
        }
        FeedBatch::of(events, after, limit, false)
    }

    pub(super) fn list(&self, filter: &ExecutionFilter) -> ExecutionPage {
        let is_asked_for = |execution: &&Execution| {
            let facts = &execution.facts;
            facts.tenant_id == filter.tenant_id
                && filter
                    .status
                    .is_none_or(|status| execution.view.status == status)
                && (filter.path.is_none() || facts.path == filter.path)
                && (filter.parent_execution_id.is_none()
                    || facts.parent_execution_id == filter.parent_execution_id)
                && filter.after.is_none_or(|after| execution.cursor() < after)
        };
        let found: BTreeMap<Reverse<ExecutionCursor>, &Execution> = self
            .executions
            .values()
            .filter(is_asked_for)
            .map(|execution| (Reverse(execution.cursor()), execution))
            .collect();
        let page = found
            .into_values()
            .take(many(filter.limit.get()))
            .cloned()
            .collect();
        ExecutionPage::of(page, filter.limit)
    }

    pub(super) fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Vec<DueTimer> {
        let after = after.map(|it| (it.fire_at, it.execution_id, &it.timer_id));
        let is_paused = |id| self.executions.get(id).is_some_and(|it| it.view.paused);
        let mut due: Vec<_> = self
            .timers
            .iter()
            .filter(|((id, _), fire_at)| **fire_at <= now && !is_paused(id))
            .map(|((execution_id, timer_id), fire_at)| (*fire_at, *execution_id, timer_id))
            .filter(|timer| after.is_none_or(|after| *timer > after))
            .collect();
        due.sort();
        due.into_iter()
            .take(many(limit.get()))
            .map(|(fire_at, execution_id, timer_id)| DueTimer {
                execution_id,
                timer_id: timer_id.clone(),
                fire_at,
            })
            .collect()
    }

    pub(super) fn register(&mut self, new: NewCatalogEntry) -> Result<Registered, StoreError> {
        let place = (new.tenant_id.clone(), new.path.clone());
        let is_taken = self.catalog_ids.contains_key(&new.catalog_id);
        let versions = self.catalog.entry(place).or_default();
        let newest = versions.values().next_back().cloned();
        let registered = new.beside(newest);
        if is_taken && !registered.is_unchanged {
            return Err(StoreError::fatal("the catalog id is taken"));
        }
        for version in versions.values_mut() {
            version.archived_at = None;
        }
        if registered.is_unchanged {
            return Ok(registered);
        }
        let entry = &registered.entry;
        versions.insert(entry.version, entry.clone());
        let place = (entry.tenant_id.clone(), entry.path.clone(), entry.version);
        self.catalog_ids.insert(entry.catalog_id, place);
        Ok(registered)
    }

    pub(super) fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: &CatalogKey,
    ) -> Option<CatalogEntry> {
        let versions = |path: &PlaybookPath| self.catalog.get(&(tenant_id.clone(), path.clone()));
        match key {
            CatalogKey::Id(id) => {
                let (owner, path, version) = self.catalog_ids.get(id)?;
                (owner == tenant_id).then(|| versions(path)?.get(version).cloned())?
            }
            CatalogKey::Latest(path) => versions(path)?.values().next_back().cloned(),
            CatalogKey::Version(path, version) => versions(path)?.get(version).cloned(),
        }
    }

    pub(super) fn catalog(&self, filter: &CatalogFilter) -> Vec<CatalogEntry> {
        self.catalog
            .iter()
            .filter(|((tenant_id, path), _)| {
                *tenant_id == filter.tenant_id
                    && filter.after.as_ref().is_none_or(|after| path > after)
            })
            .filter_map(|(_, versions)| versions.values().next_back())
            .filter(|entry| filter.kind.as_ref().is_none_or(|kind| entry.kind == *kind))
            .filter(|entry| filter.archived || entry.archived_at.is_none())
            .take(many(filter.limit.get()))
            .cloned()
            .collect()
    }

    pub(super) fn catalog_versions(&self, filter: &VersionFilter) -> Vec<CatalogEntry> {
        let place = (filter.tenant_id.clone(), filter.path.clone());
        let versions = self.catalog.get(&place).into_iter().flatten();
        let mut versions: Vec<_> = versions
            .filter(|(version, _)| filter.before.is_none_or(|before| **version < before))
            .map(|(_, entry)| entry.clone())
            .collect();
        versions.reverse();
        versions.truncate(many(filter.limit.get()));
        versions
    }

    pub(super) fn archive(
        &mut self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> bool {
        let versions = self.catalog.get_mut(&(tenant_id.clone(), path.clone()));
        let mut is_changed = false;
        for entry in versions.into_iter().flat_map(BTreeMap::values_mut) {
            if entry.archived_at.is_some() != since.is_some() {
                entry.archived_at = since;
                is_changed = true;
            }
        }
        is_changed
    }

    pub(super) fn counts(&self, tenant_id: &TenantId) -> Counts {
        let mut counts = Counts::default();
        let executions = self.executions.values();
        for execution in executions.filter(|it| it.facts.tenant_id == *tenant_id) {
            *counts.executions.entry(execution.view.status).or_default() += 1;
        }
        let newest =
            |versions: &BTreeMap<u32, CatalogEntry>| versions.values().next_back().cloned();
        let definitions = self.catalog.values().filter_map(newest);
        let is_counted =
            |entry: &CatalogEntry| entry.tenant_id == *tenant_id && entry.archived_at.is_none();
        for entry in definitions.filter(is_counted) {
            *counts.definitions.entry(entry.kind).or_default() += 1;
        }
        counts
    }

    pub(super) fn executions_by_status(&self) -> StatusCounts {
        let mut counts = BTreeMap::new();
        for execution in self.executions.values() {
            *counts.entry(execution.view.status).or_default() += 1;
        }
        counts
    }

    pub(super) fn live_executions(&self, tenant_id: &TenantId, most: u32) -> u32 {
        let is_live = |it: &&Execution| {
            it.facts.tenant_id == *tenant_id
                && it.facts.origin == Origin::Driven
                && !it.view.status.is_terminal()
        };
        let live = self.executions.values().filter(is_live).take(many(most));
        u32::try_from(live.count()).unwrap_or(most)
    }

    pub(super) fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Vec<Execution> {
        let is_wanted = |execution: &&Execution| {
            execution.facts.parent_execution_id == Some(parent)
                && !execution.view.status.is_terminal()
                && after.is_none_or(|after| execution.execution_id > after)
        };
        let children = self.executions.values().filter(is_wanted);
        children.take(many(limit.get())).cloned().collect()
    }

    pub(super) fn put_result(&mut self, result: StoredResult) -> Result<(), PutRefused> {
        let key = (result.execution_id, result.result_id);
        if let Some(kept) = self.results.get(&key) {
            return result.beside(kept.sha256);
        }
        self.results.insert(key, result);
        Ok(())
    }

    pub(super) fn register_runtime(&mut self, new: NewRuntime) -> Runtime {
        let key = (new.kind, new.name.clone());
        let runtime = new.into_runtime(self.runtimes.get(&key));
        self.runtimes.insert(key, runtime.clone());
        runtime
    }

    pub(super) fn heartbeat(&mut self, kind: RuntimeKind, name: &Text, now: Timestamp) -> bool {
        let Some(runtime) = self.runtimes.get_mut(&(kind, name.clone())) else {
            return false;
        };
        runtime.heartbeat = now;
        true
    }

    pub(super) fn remove_runtime(&mut self, kind: RuntimeKind, name: &Text) -> bool {
        self.runtimes.remove(&(kind, name.clone())).is_some()
    }

    pub(super) fn runtimes_of(&self, kind: RuntimeKind) -> Vec<Runtime> {
        self.runtimes
            .values()
            .filter(|runtime| runtime.kind == kind)
            .cloned()
            .collect()
    }
}
