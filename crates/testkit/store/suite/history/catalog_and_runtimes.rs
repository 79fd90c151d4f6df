//! Random calls about snapshots, definitions, runtimes and lists.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ExecutionStatus, PlaybookPath, RuntimeId, TenantId, Text, sha256};

use super::super::fixture::all_executions;
use super::RandomHistory;
use crate::{
    CatalogFilter, CatalogKey, CatalogVersionFilter, CommandFilter, CommandStatusFilter,
    LogPageLimit, NewCatalogEntry, RuntimeKind, RuntimeRegistration, Snapshot, SnapshotKey, Store,
};

impl RandomHistory {
    pub(super) async fn write_and_load_snapshot(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let index = self.random_index(self.runs.len());
        let run = self.runs[index].clone();
        let key = SnapshotKey {
            kind: Text::from("engine_state"),
            fold_version: u32::try_from(1 + self.rng.next_below(2)).unwrap(),
        };
        if self.rng.one_in(2) {
            let state = format!("state {}", self.rng.next_below(1_000)).into_bytes();
            let snapshot = Snapshot {
                execution_id: run.id,
                key: key.clone(),
                head: run.head,
                checksum: sha256(&state),
                state,
            };
            let written = store.write_snapshot(snapshot).await;
            self.record_answer(&written);
        }
        let page = LogPageLimit::clamped(u32::try_from(1 + self.rng.next_below(20)).unwrap());
        let loaded = store.load_execution(run.id, &key, page).await;
        // Feed positions differ between backends.
        let loaded = loaded.map(|loaded| {
            loaded.map(|it| {
                let tail: Vec<_> = it.tail.into_iter().map(|it| (it.record, it.chain)).collect();
                (it.execution, it.snapshot, tail, it.has_more)
            })
        });
        self.record_answer(&loaded);
    }

    pub(super) async fn register_definition(&mut self, store: &dyn Store) {
        let path = format!("lane{}/p{}", self.lane, self.rng.next_below(3));
        let path = PlaybookPath::new(path.as_str()).unwrap();
        let content = format!("content {}", self.rng.next_below(3));
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(self.next_catalog).unwrap(),
            tenant_id: TenantId::default(),
            path: path.clone(),
            kind: Text::from("playbook"),
            sha256: sha256(&content),
            content: Text::from(content.as_str()),
            meta: None,
            now: self.now,
        };
        self.next_catalog += 1;
        let registered = store.register_definition(entry).await;
        self.record_answer(&registered);
        if self.rng.one_in(3) {
            let since = self.rng.one_in(2).then_some(self.now);
            let archived = store.set_definition_archived(&TenantId::default(), &path, since).await;
            self.record_answer(&archived);
        }
        let versions = CatalogVersionFilter {
            tenant_id: TenantId::default(),
            path: path.clone(),
            before: self.rng.one_in(2).then_some(3),
            limit: PageLimit::clamped(1 + self.random_below(3)),
        };
        let versions = store.list_catalog_versions(versions).await;
        self.record_answer(&versions);
        let version = u32::try_from(1 + self.rng.next_below(3)).unwrap();
        let key = CatalogKey::Version(path, version);
        let found = store.find_catalog_entry(&TenantId::default(), key).await;
        self.record_answer(&found);
    }

    pub(super) async fn change_runtime(&mut self, store: &dyn Store) {
        let kind = RuntimeKind::WorkerPool;
        let number = self.random_below(3);
        let name = Text::from(self.worker_name(u64::try_from(number).unwrap()));
        match self.rng.next_below(3) {
            0 => {
                let runtime = RuntimeRegistration {
                    runtime_id: RuntimeId::new(self.lane * 10 + number + 1).unwrap(),
                    kind,
                    name,
                    uri: None,
                    detail: None,
                    now: self.now,
                };
                let registered = store.register_runtime(runtime).await;
                self.record_answer(&registered);
            }
            1 => {
                let is_known = store.record_heartbeat(kind, &name, self.now).await;
                self.record_answer(&is_known);
            }
            _ => {
                let was_known = store.remove_runtime(kind, &name).await;
                self.record_answer(&was_known);
            }
        }
    }

    pub(super) async fn list_commands_and_executions(&mut self, store: &dyn Store) {
        let limit = PageLimit::clamped(1 + self.random_below(5));
        let after = self.commands.first().map(|(_, command_id)| *command_id);
        let filter = CommandFilter {
            status: [CommandStatusFilter::All, CommandStatusFilter::Open][self.random_index(2)],
            pool: Some(self.lane_pool()),
            after: after.filter(|_| self.rng.one_in(2)),
            execution_id: None,
            limit,
            ..CommandFilter::open_in_execution(TenantId::default(), super::TestExecution::new(1).id)
        };
        let page = store.list_commands(filter).await;
        self.record_answer(&page);
        if !self.is_exclusive {
            return;
        }
        let mut filter = all_executions();
        filter.limit = limit;
        filter.status = self.rng.one_in(2).then_some(ExecutionStatus::Running);
        let executions = store.list_executions(filter).await;
        self.record_answer(&executions);
        let counts = store.pool_counts().await;
        self.record_answer(&counts);
        let definitions = CatalogFilter {
            tenant_id: TenantId::default(),
            kind: None,
            include_archived: self.rng.one_in(2),
            after: None,
            limit,
        };
        let definitions = store.list_catalog(definitions).await;
        self.record_answer(&definitions);
        let runtimes = store.list_runtimes(RuntimeKind::WorkerPool).await;
        self.record_answer(&runtimes);
    }
}
