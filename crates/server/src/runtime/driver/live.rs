//! An execution in memory: its state, and where its log stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use noetl_api::explain::At;
use noetl_engine::{Event, EventKind, ExecutionHeader, FOLD_VERSION, State, decode};
use noetl_store::{Execution, ExecutionFacts, Head, Loaded, LogPage, NewWait, Origin, SnapshotKey};
use noetl_types::limits::Priority;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, PoolName, StoredEvent, Text, Timestamp, Version, sha256,
};

use super::beyond::waits;
use super::changes::timers;
use crate::runtime::error::RuntimeError;
use crate::runtime::platform::PUBLISHER;
use crate::runtime::{Core, Definition};

/// What snapshots of the driver are called.
pub(super) const SNAPSHOT: &str = "engine_state";

/// An execution in memory.
pub(super) struct Live {
    pub(super) definition: Arc<Definition>,
    pub(super) header: ExecutionHeader,
    pub(super) state: State,
    pub(super) head: Head,
    /// What is fixed at its birth; there until the store has it.
    pub(super) birth: Option<ExecutionFacts>,
    /// The queue that its commands go to.
    pub(super) pool: PoolName,
    pub(super) priority: Priority,
    /// How far its newest snapshot goes.
    pub(super) snapshot: Version,
    /// How many events the log grows by at least before the next one.
    pub(super) snapshot_after: Arc<AtomicI64>,
    /// The step that was last entered or left.
    last_node: Option<Text>,
}

/// Which snapshots the driver can use.
pub(super) fn snapshot_key() -> SnapshotKey {
    SnapshotKey {
        kind: SNAPSHOT.into(),
        fold_version: FOLD_VERSION,
    }
}

impl Live {
    /// An execution that is about to begin.
    pub(super) fn born(
        definition: Arc<Definition>,
        execution_id: ExecutionId,
        facts: ExecutionFacts,
    ) -> Self {
        Self {
            header: ExecutionHeader {
                execution_id,
                tenant_id: facts.tenant_id.clone(),
                organization_id: facts.organization_id.clone(),
                path: definition.entry.path.clone(),
            },
            state: State::new(&definition.plan),
            head: Head::START,
            pool: facts.pool.within(&facts.tenant_id),
            priority: facts.priority,
            birth: Some(facts),
            snapshot: Version::EMPTY,
            snapshot_after: Arc::default(),
            last_node: None,
            definition,
        }
    }

    /// Reads an execution from the store; nothing where there is none.
    pub(super) async fn load(
        core: &Core,
        execution_id: ExecutionId,
    ) -> Result<Option<Self>, RuntimeError> {
        let loaded = core
            .store
            .load(execution_id, &snapshot_key(), LogPage::MAX)
            .await?;
        let Some(loaded) = loaded else {
            return Ok(None);
        };
        let mut live = Self::found(core, &loaded.execution).await?;
        live.seed(&loaded);
        live.fold(&loaded.tail)?;
        if loaded.has_more || live.head.version < loaded.execution.head.version {
            live.catch_up(core).await?;
        }
        Ok(Some(live))
    }

    /// Reads an execution as it was at a moment, from its log alone.
    pub(super) async fn load_at(
        core: &Core,
        execution: &Execution,
        at: At,
    ) -> Result<Self, RuntimeError> {
        let is_then = |event: &StoredEvent| match at {
            At::Seq(seq) => event.record.seq <= seq,
            At::Time(time) => event.record.ingest_time <= time,
        };
        let mut live = Self::found(core, execution).await?;
        loop {
            let (id, after) = (execution.execution_id, live.head.version);
            let mut page = core.store.events(id, after, LogPage::MAX).await?;
            let there = page.len();
            let then = page.iter().take_while(|event| is_then(event)).count();
            page.truncate(then);
            live.fold(&page)?;
            if there == 0 || then < there {
                return Ok(live);
            }
        }
    }

    async fn found(core: &Core, execution: &Execution) -> Result<Self, RuntimeError> {
        let facts = &execution.facts;
        let (Some(catalog_id), Origin::Driven) = (facts.catalog_id, facts.origin) else {
            return Err(RuntimeError::refused(
                ErrorCode::IllegalTransition,
                "the execution is a copy and is not driven here",
            ));
        };
        let definition = core.definition(&facts.tenant_id, catalog_id).await?;
        Ok(Self {
            birth: None,
            last_node: execution.view.last_node_name.clone(),
            ..Self::born(definition, execution.execution_id, facts.clone())
        })
    }

    /// Whether it publishes the outbox. One that published its own steps would never come to rest.
    pub(super) fn is_publisher(&self) -> bool {
        self.header.path.as_str() == PUBLISHER
    }

    /// A copy, which costs next to nothing.
    pub(super) fn copy(&self) -> Self {
        Self {
            definition: Arc::clone(&self.definition),
            header: self.header.clone(),
            state: self.state.clone(),
            head: self.head,
            birth: self.birth.clone(),
            pool: self.pool.clone(),
            priority: self.priority,
            snapshot: self.snapshot,
            snapshot_after: Arc::clone(&self.snapshot_after),
            last_node: self.last_node.clone(),
        }
    }

    /// Its timers, by name.
    pub(super) fn open_timers(&self) -> BTreeMap<Text, Timestamp> {
        if self.definition.has_timers || self.state.start_time().is_some() {
            timers(&self.state, &self.definition.plan)
        } else {
            BTreeMap::new()
        }
    }

    /// What it waits for, by command.
    pub(super) fn open_waits(&self) -> BTreeMap<CommandId, NewWait> {
        if self.definition.has_waits {
            waits(&self.state, &self.definition.plan)
        } else {
            BTreeMap::new()
        }
    }

    /// The step that events entered or left last.
    pub(super) fn note_node(&mut self, events: &[Event]) {
        let node = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::StepEntered(entered) => Some(&entered.step),
            EventKind::StepExited(exited) => Some(&exited.step),
            _ => None,
        });
        if let Some(step) = node {
            self.last_node = Some(step.as_str().into());
        }
    }

    /// The step that was last entered or left.
    pub(super) fn last_node(&self) -> Option<Text> {
        self.last_node.clone()
    }

    /// Takes over the newest snapshot, unless it cannot be trusted: the log can.
    fn seed(&mut self, loaded: &Loaded) {
        let Some(snapshot) = &loaded.snapshot else {
            return;
        };
        let is_whole = sha256(&snapshot.state) == snapshot.checksum;
        let read = serde_json::from_slice(&snapshot.state).ok();
        let state = read
            .filter(|_| is_whole)
            .and_then(|json| State::from_snapshot(&self.definition.plan, &json).ok());
        let Some(state) = state else {
            tracing::warn!(execution_id = %self.header.execution_id, "a snapshot cannot be used");
            return;
        };
        self.state = state;
        self.head = snapshot.head;
        self.snapshot = snapshot.head.version;
    }

    /// Folds what others appended since.
    pub(super) async fn catch_up(&mut self, core: &Core) -> Result<(), RuntimeError> {
        loop {
            let id = self.header.execution_id;
            let page = core
                .store
                .events(id, self.head.version, LogPage::MAX)
                .await?;
            self.fold(&page)?;
            let full = usize::try_from(LogPage::MAX.get()).unwrap_or(usize::MAX);
            if page.len() < full {
                return Ok(());
            }
        }
    }

    fn fold(&mut self, events: &[StoredEvent]) -> Result<(), RuntimeError> {
        for stored in events {
            if Version::from(stored.record.seq) <= self.head.version {
                continue;
            }
            let event = decode(&stored.record).map_err(|error| broken(&error))?;
            self.state
                .apply(&self.definition.plan, &event)
                .map_err(|error| broken(&error))?;
            self.note_node(std::slice::from_ref(&event));
            self.head = Head::after(stored);
        }
        Ok(())
    }
}

/// A log that does not fold is stopped, rather than driven on from a wrong state.
fn broken(error: &dyn std::error::Error) -> RuntimeError {
    let causes = crate::runtime::causes(error);
    tracing::error!(error = %causes, "a log does not fold");
    RuntimeError::refused(
        ErrorCode::Internal,
        "the log of the execution does not fold",
    )
}
