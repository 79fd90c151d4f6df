//! The maps and the queries on them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, CommandId, CredentialId, EventId, ExecutionId, ExecutionVersion, FeedPosition,
    KeychainId, PlaybookPath, ResultId, StoredEvent, TenantId, Text, Timestamp,
};

use super::coordination_state::CoordinationState;
use super::identities::IdentityState;
use super::publishing::PublishingState;
use crate::error::StoreError;
use crate::machine_ids::MachineTable;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, Command, Credential, DueTimer,
    Execution, ExecutionCursor, ExecutionFilter, ExecutionOrigin, ExecutionPage, FeedBatch,
    FeedLimit, KeychainEntry, LoadedLog, LogPageLimit, MAX_FEED_BATCH_BYTES, NewCatalogEntry,
    PutResultError, RegisterOutcome, RegisteredRuntime, RuntimeKind, RuntimeRegistration, Snapshot,
    SnapshotKey, StatusCounts, StoredResult, TenantCounts, encode_event_body, redundant_snapshot,
};

#[derive(Debug, Default)]
pub(super) struct ExecutionLog {
    pub(super) events: Vec<StoredEvent>,
    pub(super) by_id: BTreeMap<EventId, ExecutionVersion>,
}

#[derive(Debug, Default)]
pub(super) struct MemoryState {
    pub(super) executions: BTreeMap<ExecutionId, Execution>,
    pub(super) logs: BTreeMap<ExecutionId, ExecutionLog>,
    pub(super) feed: BTreeMap<FeedPosition, (ExecutionId, ExecutionVersion)>,
    pub(super) last_position: i64,
    pub(super) commands: BTreeMap<CommandId, Command>,
    pub(super) timers: BTreeMap<(ExecutionId, Text), Timestamp>,
    pub(super) results: BTreeMap<(ExecutionId, ResultId), StoredResult>,
    pub(super) machines: MachineTable,
    pub(super) snapshots: BTreeMap<(ExecutionId, SnapshotKey, ExecutionVersion), Snapshot>,
    catalog: BTreeMap<(TenantId, PlaybookPath), BTreeMap<u32, CatalogEntry>>,
    catalog_ids: BTreeMap<CatalogId, (TenantId, PlaybookPath, u32)>,
    pub(super) runtimes: BTreeMap<(RuntimeKind, Text), RegisteredRuntime>,
    pub(super) credentials: BTreeMap<CredentialId, Credential>,
    pub(super) keychain: BTreeMap<KeychainId, KeychainEntry>,
    pub(super) coordination: CoordinationState,
    /// State of publishers and projectors.
    pub(super) publishing: PublishingState,
    /// Id ranges that retention has dropped.
    pub(super) dropped: Vec<(i64, i64)>,
    /// Tokens and the audit log.
    pub(super) identities: IdentityState,
}

pub(super) fn to_usize(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl MemoryState {
    pub(super) fn is_dropped(&self, execution_id: ExecutionId) -> bool {
        let mut ranges = self.dropped.iter();
        ranges.any(|(lo, hi)| (*lo..*hi).contains(&execution_id.get()))
    }

    pub(super) fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Option<&StoredEvent> {
        let log = self.logs.get(&execution_id)?;
        let version = log.by_id.get(&event_id)?;
        let index = usize::try_from(version.get()).ok()?.checked_sub(1)?;
        log.events.get(index)
    }

    pub(super) fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Vec<StoredEvent> {
        // Event n has index n - 1, so a version is the index after its event.
        let first = usize::try_from(after.get()).unwrap_or(usize::MAX);
        self.logs
            .get(&execution_id)
            .and_then(|log| log.events.get(first..))
            .unwrap_or_default()
            .iter()
            .take(to_usize(page.get()))
            .cloned()
            .collect()
    }

    pub(super) fn load_execution(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        page: LogPageLimit,
    ) -> Option<LoadedLog> {
        let execution = self.executions.get(&execution_id)?.clone();
        let snapshot = self.find_snapshot(execution_id, key, execution.head.version);
        let snapshot = snapshot.cloned();
        let after =
            snapshot.as_ref().map_or(ExecutionVersion::EMPTY, |snapshot| snapshot.head.version);
        let tail = self.read_events(execution_id, after, page);
        Some(LoadedLog::from_page(execution, snapshot, tail, page))
    }

    pub(super) fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Option<&Snapshot> {
        let snapshot_id = |version| (execution_id, key.clone(), version);
        let snapshots =
            self.snapshots.range(snapshot_id(ExecutionVersion::EMPTY)..=snapshot_id(max_version));
        snapshots.map(|(_, snapshot)| snapshot).next_back()
    }

    pub(super) fn write_snapshot(&mut self, snapshot: Snapshot) {
        let (execution_id, key) = (snapshot.execution_id, snapshot.key.clone());
        let snapshot_id = |version| (execution_id, key.clone(), version);
        let id = snapshot_id(snapshot.head.version);
        self.snapshots.entry(id).or_insert(snapshot);
        let last = ExecutionVersion::new(i64::MAX).unwrap_or_default();
        let stored = self.snapshots.range(snapshot_id(ExecutionVersion::EMPTY)..=snapshot_id(last));
        let versions: Vec<_> = stored.map(|((.., version), _)| *version).collect();
        if let Some(version) = redundant_snapshot(&versions) {
            self.snapshots.remove(&snapshot_id(version));
        }
    }

    pub(super) fn read_feed(&self, after: FeedPosition, limit: FeedLimit) -> FeedBatch {
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut bytes = 0;
        let range = self.feed.range((Bound::Excluded(after), Bound::Unbounded));
        for (_, (execution_id, version)) in range.take(to_usize(limit.get())) {
            let index = usize::try_from(version.get()).ok();
            let index = index.and_then(|index| index.checked_sub(1));
            let log = self.logs.get(execution_id);
            let event = log.zip(index).and_then(|(log, index)| log.events.get(index));
            if bytes >= MAX_FEED_BATCH_BYTES {
                return FeedBatch::from_items(events, after, limit, true);
            }
            bytes += event.map_or(0, |event| encode_event_body(&event.record).len());
            events.extend(event.cloned());
        }
        FeedBatch::from_items(events, after, limit, false)
    }

    pub(super) fn list_executions(&self, filter: &ExecutionFilter) -> ExecutionPage {
        let is_selected = |execution: &&Execution| {
            let facts = &execution.facts;
            facts.tenant_id == filter.tenant_id
                && filter.status.is_none_or(|status| execution.view.status == status)
                && (filter.path.is_none() || facts.path == filter.path)
                && (filter.parent_execution_id.is_none()
                    || facts.parent_execution_id == filter.parent_execution_id)
                && filter.after.is_none_or(|after| execution.cursor() < after)
        };
        let sorted: BTreeMap<Reverse<ExecutionCursor>, &Execution> = self
            .executions
            .values()
            .filter(is_selected)
            .map(|execution| (Reverse(execution.cursor()), execution))
            .collect();
        let page = sorted.into_values().take(to_usize(filter.limit.get())).cloned().collect();
        ExecutionPage::from_rows(page, filter.limit)
    }

    pub(super) fn list_due_timers(
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
            .take(to_usize(limit.get()))
            .map(|(fire_at, execution_id, timer_id)| DueTimer {
                execution_id,
                timer_id: timer_id.clone(),
                fire_at,
            })
            .collect()
    }

    pub(super) fn register_definition(
        &mut self,
        new: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        let key = (new.tenant_id.clone(), new.path.clone());
        let is_id_taken = self.catalog_ids.contains_key(&new.catalog_id);
        let versions = self.catalog.entry(key).or_default();
        let newest = versions.values().next_back().cloned();
        let registered = new.register_after(newest);
        if is_id_taken && !registered.is_unchanged {
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
        let key = (entry.tenant_id.clone(), entry.path.clone(), entry.version);
        self.catalog_ids.insert(entry.catalog_id, key);
        Ok(registered)
    }

    pub(super) fn find_catalog_entry(
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

    pub(super) fn list_catalog(&self, filter: &CatalogFilter) -> Vec<CatalogEntry> {
        self.catalog
            .iter()
            .filter(|((tenant_id, path), _)| {
                *tenant_id == filter.tenant_id
                    && filter.after.as_ref().is_none_or(|after| path > after)
            })
            .filter_map(|(_, versions)| versions.values().next_back())
            .filter(|entry| filter.kind.as_ref().is_none_or(|kind| entry.kind == *kind))
            .filter(|entry| filter.include_archived || entry.archived_at.is_none())
            .take(to_usize(filter.limit.get()))
            .cloned()
            .collect()
    }

    pub(super) fn list_catalog_versions(&self, filter: &CatalogVersionFilter) -> Vec<CatalogEntry> {
        let key = (filter.tenant_id.clone(), filter.path.clone());
        let versions = self.catalog.get(&key).into_iter().flatten();
        let mut versions: Vec<_> = versions
            .filter(|(version, _)| filter.before.is_none_or(|before| **version < before))
            .map(|(_, entry)| entry.clone())
            .collect();
        versions.reverse();
        versions.truncate(to_usize(filter.limit.get()));
        versions
    }

    pub(super) fn set_definition_archived(
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

    pub(super) fn tenant_counts(&self, tenant_id: &TenantId) -> TenantCounts {
        let mut counts = TenantCounts::default();
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

    pub(super) fn live_executions(&self, tenant_id: &TenantId, max_count: u32) -> u32 {
        let is_live = |it: &&Execution| {
            it.facts.tenant_id == *tenant_id
                && it.facts.origin == ExecutionOrigin::Driven
                && !it.view.status.is_terminal()
        };
        let live = self.executions.values().filter(is_live).take(to_usize(max_count));
        u32::try_from(live.count()).unwrap_or(max_count)
    }

    pub(super) fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Vec<Execution> {
        let is_selected = |execution: &&Execution| {
            execution.facts.parent_execution_id == Some(parent)
                && !execution.view.status.is_terminal()
                && after.is_none_or(|after| execution.execution_id > after)
        };
        let children = self.executions.values().filter(is_selected);
        children.take(to_usize(limit.get())).cloned().collect()
    }

    pub(super) fn put_result(&mut self, result: StoredResult) -> Result<(), PutResultError> {
        let key = (result.execution_id, result.result_id);
        if let Some(existing) = self.results.get(&key) {
            return result.check_same_digest(existing.sha256);
        }
        self.results.insert(key, result);
        Ok(())
    }

    pub(super) fn register_runtime(&mut self, new: RuntimeRegistration) -> RegisteredRuntime {
        let key = (new.kind, new.name.clone());
        let runtime = new.into_runtime(self.runtimes.get(&key));
        self.runtimes.insert(key, runtime.clone());
        runtime
    }

    pub(super) fn record_heartbeat(
        &mut self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> bool {
        let Some(runtime) = self.runtimes.get_mut(&(kind, name.clone())) else {
            return false;
        };
        runtime.heartbeat = now;
        true
    }

    pub(super) fn remove_runtime(&mut self, kind: RuntimeKind, name: &Text) -> bool {
        self.runtimes.remove(&(kind, name.clone())).is_some()
    }

    pub(super) fn list_runtimes(&self, kind: RuntimeKind) -> Vec<RegisteredRuntime> {
        self.runtimes.values().filter(|runtime| runtime.kind == kind).cloned().collect()
    }
}
