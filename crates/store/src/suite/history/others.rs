//! Snapshots, definitions, processes and lists.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ExecutionStatus, PlaybookPath, RuntimeId, TenantId, Text, sha256};

use super::super::fixture::all_executions;
use super::History;
use crate::{
    CatalogFilter, CatalogKey, CommandChoice, CommandFilter, LogPage, NewCatalogEntry, NewRuntime,
    RuntimeKind, Snapshot, SnapshotKey, Store, VersionFilter,
};

impl History {
    pub(super) async fn snapshot(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let place = self.pick(self.runs.len());
        let run = self.runs[place].clone();
        let key = SnapshotKey {
            kind: Text::from("engine_state"),
            fold_version: u32::try_from(1 + self.dice.roll(2)).unwrap(),
        };
        if self.dice.one_in(2) {
            let state = format!("state {}", self.dice.roll(1_000)).into_bytes();
            let snapshot = Snapshot {
                execution_id: run.id,
                key: key.clone(),
                head: run.head,
                checksum: sha256(&state),
                state,
            };
            let written = store.write_snapshot(snapshot).await;
            self.note(&written);
        }
        let page = LogPage::clamped(u32::try_from(1 + self.dice.roll(20)).unwrap());
        let loaded = store.load(run.id, &key, page).await;
        // The places in the feed differ between backends.
        let loaded = loaded.map(|loaded| {
            loaded.map(|it| {
                let tail: Vec<_> = it
                    .tail
                    .into_iter()
                    .map(|it| (it.record, it.chain))
                    .collect();
                (it.execution, it.snapshot, tail, it.has_more)
            })
        });
        self.note(&loaded);
    }

    pub(super) async fn define(&mut self, store: &dyn Store) {
        let path = format!("lane{}/p{}", self.lane, self.dice.roll(3));
        let path = PlaybookPath::new(path.as_str()).unwrap();
        let content = format!("content {}", self.dice.roll(3));
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
        let registered = store.register(entry).await;
        self.note(&registered);
        if self.dice.one_in(3) {
            let since = self.dice.one_in(2).then_some(self.now);
            let archived = store.archive(&TenantId::default(), &path, since).await;
            self.note(&archived);
        }
        let versions = VersionFilter {
            tenant_id: TenantId::default(),
            path: path.clone(),
            before: self.dice.one_in(2).then_some(3),
            limit: PageLimit::clamped(1 + self.small(3)),
        };
        let versions = store.catalog_versions(versions).await;
        self.note(&versions);
        let version = u32::try_from(1 + self.dice.roll(3)).unwrap();
        let key = CatalogKey::Version(path, version);
        let found = store.catalog_entry(&TenantId::default(), key).await;
        self.note(&found);
    }

    pub(super) async fn live(&mut self, store: &dyn Store) {
        let kind = RuntimeKind::WorkerPool;
        let number = self.small(3);
        let name = Text::from(self.worker(u64::try_from(number).unwrap()));
        match self.dice.roll(3) {
            0 => {
                let runtime = NewRuntime {
                    runtime_id: RuntimeId::new(self.lane * 10 + number + 1).unwrap(),
                    kind,
                    name,
                    uri: None,
                    detail: None,
                    now: self.now,
                };
                let registered = store.register_runtime(runtime).await;
                self.note(&registered);
            }
            1 => {
                let is_known = store.heartbeat(kind, &name, self.now).await;
                self.note(&is_known);
            }
            _ => {
                let was_known = store.remove_runtime(kind, &name).await;
                self.note(&was_known);
            }
        }
    }

    pub(super) async fn list(&mut self, store: &dyn Store) {
        let limit = PageLimit::clamped(1 + self.small(5));
        let after = self.commands.first().map(|(_, command_id)| *command_id);
        let filter = CommandFilter {
            choice: [CommandChoice::All, CommandChoice::Open][self.pick(2)],
            pool: Some(self.pool()),
            after: after.filter(|_| self.dice.one_in(2)),
            execution_id: None,
            limit,
            ..CommandFilter::open_of(TenantId::default(), super::Run::new(1).id)
        };
        let page = store.commands(filter).await;
        self.note(&page);
        if !self.is_alone {
            return;
        }
        let mut filter = all_executions();
        filter.limit = limit;
        filter.status = self.dice.one_in(2).then_some(ExecutionStatus::Running);
        let executions = store.executions(filter).await;
        self.note(&executions);
        let counts = store.pool_counts().await;
        self.note(&counts);
        let definitions = CatalogFilter {
            tenant_id: TenantId::default(),
            kind: None,
            archived: self.dice.one_in(2),
            after: None,
            limit,
        };
        let definitions = store.catalog(definitions).await;
        self.note(&definitions);
        let runtimes = store.runtimes(RuntimeKind::WorkerPool).await;
        self.note(&runtimes);
    }
}
