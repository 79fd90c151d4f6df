//! An execution in memory: its state, and where its log stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use noetl_api::explain::At;
use noetl_engine::{Event, EventKind, ExecutionHeader, FOLD_VERSION, State, decode};
use noetl_store::{
    Execution, ExecutionFacts, ExecutionView, Head, LogPage, NewWait, Origin, Snapshot, SnapshotKey,
};
use noetl_types::limits::Priority;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, PoolName, StoredEvent, TenantId, Text, Timestamp, Version,
    sha256,
};

use super::beyond::waits;
use super::changes::timers;
use crate::runtime::error::RuntimeError;
use crate::runtime::outcome::Outcome;
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
    /// When it ended, and why where that is told.
    end: Option<(Timestamp, Option<Text>)>,
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
            end: None,
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
        match &loaded.snapshot {
            // The tail is that of the snapshot, so the log is read from its beginning.
            Some(snapshot) if !live.seed(snapshot) => {
                let version = snapshot.head.version;
                core.reject_snapshot(execution_id, &snapshot.key, version)
                    .await;
            }
            Some(_) | None => live.fold(&loaded.tail)?,
        }
        if loaded.has_more || live.head.version < loaded.execution.head.version {
            live.catch_up(core).await?;
        }
        Ok(Some(live))
    }

    /// What lists show of an execution, by its log alone.
    pub(super) async fn view_by_log(
        core: &Core,
        execution: &Execution,
    ) -> Result<ExecutionView, RuntimeError> {
        let mut live = Self::found(core, execution).await?;
        live.last_node = None;
        live.catch_up(core).await?;
        Ok(live.view())
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

    /// Whether it publishes the outbox. One that published its own steps would never come to rest. What
    /// another tenant has at that path is not the platform's.
    pub(super) fn is_publisher(&self) -> bool {
        self.header.path.as_str() == PUBLISHER && self.header.tenant_id == TenantId::default()
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
            end: self.end.clone(),
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

    /// Remembers of events what lists show: the step that they entered or left last, and the end.
    pub(super) fn note(&mut self, events: &[Event]) {
        let node = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::StepEntered(entered) => Some(&entered.step),
            EventKind::StepExited(exited) => Some(&exited.step),
            _ => None,
        });
        if let Some(step) = node {
            self.last_node = Some(step.as_str().into());
        }
        if self.end.is_none() {
            self.end = events.iter().find_map(|event| {
                let outcome = Outcome::of(event)?;
                Some((event.time, outcome.error))
            });
        }
    }

    /// The execution as lists show it. What is remarked behind its end changes nothing about that.
    pub(super) fn view(&self) -> ExecutionView {
        let (ended_at, error) = self.end.clone().unzip();
        ExecutionView {
            status: self.state.status(),
            paused: self.state.is_paused(),
            last_node_name: self.last_node.clone(),
            ended_at,
            error: error.flatten(),
        }
    }

    /// Takes over a snapshot, unless it cannot be trusted: the log can.
    fn seed(&mut self, snapshot: &Snapshot) -> bool {
        let is_whole = sha256(&snapshot.state) == snapshot.checksum;
        let read = serde_json::from_slice(&snapshot.state).ok();
        let state = read
            .filter(|_| is_whole)
            .and_then(|json| State::from_snapshot(&self.definition.plan, &json).ok())
            .filter(|state| state.version() == snapshot.head.version);
        let Some(state) = state else {
            return false;
        };
        self.state = state;
        self.head = snapshot.head;
        self.snapshot = snapshot.head.version;
        true
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
            self.note(std::slice::from_ref(&event));
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
