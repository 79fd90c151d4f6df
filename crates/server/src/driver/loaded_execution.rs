//! A loaded execution: its state and its position in the log.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_api::explain::PointInTime;
use noetl_engine::{
    Event, EventKind, ExecutionHeader, ExecutionState, FOLD_VERSION, decode_record,
};
use noetl_store::{
    Execution, ExecutionFacts, ExecutionOrigin, ExecutionView, LogHead, LogPageLimit, NewWait,
    Snapshot, SnapshotKey,
};
use noetl_types::json::to_canonical;
use noetl_types::limits::Priority;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, ExecutionVersion, PoolName, StoredEvent, TenantId, Text,
    Timestamp, sha256,
};

use super::cross_run_effects::open_waits;
use super::queue_delta::open_timers;
use crate::driver::{Driver, ExecutionOutcome};
use crate::error::{Result, RuntimeError};
use crate::services::catalog::Definition;
use crate::services::system_playbooks::PUBLISHER_PATH;

/// Kind of the driver's snapshots.
pub(super) const SNAPSHOT_KIND: &str = "engine_state";

/// Snapshot bytes that are worth replaying one event. Storing a byte costs about a hundredth of
/// applying an event, and a wide loop has megabytes of state. With fewer bytes per event its
/// snapshots would cost more than its steps.
const SNAPSHOT_BYTES_PER_EVENT: usize = 128;

/// An execution loaded into memory.
pub(super) struct LoadedExecution {
    pub(super) definition: Arc<Definition>,
    pub(super) header: ExecutionHeader,
    pub(super) state: ExecutionState,
    pub(super) head: LogHead,
    /// Facts of a new execution, until the store has them.
    pub(super) new_facts: Option<ExecutionFacts>,
    /// Queue of its commands.
    pub(super) pool: PoolName,
    pub(super) priority: Priority,
    /// Version of its newest snapshot.
    pub(super) snapshot_version: ExecutionVersion,
    /// Minimum number of events before the next snapshot.
    pub(super) snapshot_after: Arc<AtomicI64>,
    /// Step that was last entered or left.
    last_node: Option<Text>,
    /// End time, and the reason if one is recorded.
    end: Option<(Timestamp, Option<Text>)>,
}

/// Key of the snapshots that the driver can use.
pub(super) fn snapshot_key() -> SnapshotKey {
    SnapshotKey { kind: SNAPSHOT_KIND.into(), fold_version: FOLD_VERSION }
}

impl LoadedExecution {
    /// Builds an execution that is about to begin.
    pub(super) fn new_execution(
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
            state: ExecutionState::new(&definition.plan),
            head: LogHead::START,
            pool: facts.pool.tenant_queue(&facts.tenant_id),
            priority: facts.priority,
            new_facts: Some(facts),
            snapshot_version: ExecutionVersion::EMPTY,
            snapshot_after: Arc::default(),
            last_node: None,
            end: None,
            definition,
        }
    }

    /// Loads an execution from the store, if it exists.
    pub(super) async fn load(driver: &Driver, execution_id: ExecutionId) -> Result<Option<Self>> {
        let stored = driver
            .infra
            .store
            .load_execution(execution_id, &snapshot_key(), LogPageLimit::MAX)
            .await?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let mut execution = Self::from_row(driver, &stored.execution).await?;
        match &stored.snapshot {
            // The loaded tail starts at the snapshot, so the log must be read from its beginning.
            Some(snapshot) if !execution.restore_snapshot(snapshot) => {
                let version = snapshot.head.version;
                driver.reject_snapshot(execution_id, &snapshot.key, version).await;
            }
            Some(_) | None => execution.apply_events(&stored.tail)?,
        }
        if stored.has_more || execution.head.version < stored.execution.head.version {
            execution.catch_up(driver).await?;
        }
        Ok(Some(execution))
    }

    /// Builds the list view of an execution from its log alone.
    pub(super) async fn view_from_log(
        driver: &Driver,
        execution: &Execution,
    ) -> Result<ExecutionView> {
        let mut loaded = Self::without_events(driver, execution).await?;
        loaded.catch_up(driver).await?;
        Ok(loaded.list_view())
    }

    /// Builds the state before the first event of an execution.
    pub(super) async fn without_events(driver: &Driver, execution: &Execution) -> Result<Self> {
        Ok(Self { last_node: None, ..Self::from_row(driver, execution).await? })
    }

    /// Loads an execution as of a past moment, from its log alone.
    pub(super) async fn load_at(
        driver: &Driver,
        execution: &Execution,
        at: PointInTime,
    ) -> Result<Self> {
        let is_included = |event: &StoredEvent| match at {
            PointInTime::Seq(seq) => event.record.seq <= seq,
            PointInTime::Time(time) => event.record.ingest_time <= time,
        };
        let mut loaded = Self::from_row(driver, execution).await?;
        loop {
            let (id, after) = (execution.execution_id, loaded.head.version);
            let mut page = driver.infra.store.read_events(id, after, LogPageLimit::MAX).await?;
            let read = page.len();
            let included = page.iter().take_while(|event| is_included(event)).count();
            page.truncate(included);
            loaded.apply_events(&page)?;
            if read == 0 || included < read {
                return Ok(loaded);
            }
        }
    }

    async fn from_row(driver: &Driver, execution: &Execution) -> Result<Self> {
        let facts = &execution.facts;
        let (Some(catalog_id), ExecutionOrigin::Driven) = (facts.catalog_id, facts.origin) else {
            return Err(RuntimeError::refused(
                ErrorCode::IllegalTransition,
                "the execution is a projected copy and is not driven by this server",
            ));
        };
        let definition = driver.catalog.load_definition(&facts.tenant_id, catalog_id).await?;
        Ok(Self {
            new_facts: None,
            last_node: execution.view.last_node_name.clone(),
            ..Self::new_execution(definition, execution.execution_id, facts.clone())
        })
    }

    /// True if this is the platform's outbox publisher, whose own events must not be published:
    /// that would never end. A playbook of another tenant at the same path is not the platform's.
    pub(super) fn is_publisher(&self) -> bool {
        self.header.path.as_str() == PUBLISHER_PATH && self.header.tenant_id == TenantId::default()
    }

    /// Returns a cheap copy. The state is shared copy-on-write.
    pub(super) fn cheap_clone(&self) -> Self {
        Self {
            definition: Arc::clone(&self.definition),
            header: self.header.clone(),
            state: self.state.clone(),
            head: self.head,
            new_facts: self.new_facts.clone(),
            pool: self.pool.clone(),
            priority: self.priority,
            snapshot_version: self.snapshot_version,
            snapshot_after: Arc::clone(&self.snapshot_after),
            last_node: self.last_node.clone(),
            end: self.end.clone(),
        }
    }

    /// Open timers, by id.
    pub(super) fn open_timers(&self) -> BTreeMap<Text, Timestamp> {
        if self.definition.has_timers || self.state.scheduled_start().is_some() {
            open_timers(&self.state, &self.definition.plan)
        } else {
            BTreeMap::new()
        }
    }

    /// Open waits, by command.
    pub(super) fn open_waits(&self) -> BTreeMap<CommandId, NewWait> {
        if self.definition.has_waits {
            open_waits(&self.state, &self.definition.plan)
        } else {
            BTreeMap::new()
        }
    }

    /// Records what the list view needs from events: the step entered or left last, and the end.
    pub(super) fn record_events(&mut self, events: &[Event]) {
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
                let outcome = ExecutionOutcome::from_event(event)?;
                Some((event.time, outcome.error))
            });
        }
    }

    /// List view of the execution. Audit events after its end do not change it.
    pub(super) fn list_view(&self) -> ExecutionView {
        let (ended_at, error) = self.end.clone().unzip();
        ExecutionView {
            status: self.state.status(),
            paused: self.state.is_paused(),
            last_node_name: self.last_node.clone(),
            ended_at,
            error: error.flatten(),
        }
    }

    /// Restores the state from a snapshot. Returns false if the snapshot is invalid, and the log
    /// must be replayed.
    fn restore_snapshot(&mut self, snapshot: &Snapshot) -> bool {
        let is_intact = sha256(&snapshot.state) == snapshot.checksum;
        let json = serde_json::from_slice(&snapshot.state).ok();
        let state = json
            .filter(|_| is_intact)
            .and_then(|json| ExecutionState::from_snapshot(&self.definition.plan, &json).ok())
            .filter(|state| state.version() == snapshot.head.version);
        let Some(state) = state else {
            return false;
        };
        self.state = state;
        self.head = snapshot.head;
        self.snapshot_version = snapshot.head.version;
        true
    }

    /// Applies events that others appended since.
    pub(super) async fn catch_up(&mut self, driver: &Driver) -> Result<()> {
        loop {
            let id = self.header.execution_id;
            let page =
                driver.infra.store.read_events(id, self.head.version, LogPageLimit::MAX).await?;
            self.apply_events(&page)?;
            let page_size = usize::try_from(LogPageLimit::MAX.get()).unwrap_or(usize::MAX);
            if page.len() < page_size {
                return Ok(());
            }
        }
    }

    fn apply_events(&mut self, events: &[StoredEvent]) -> Result<()> {
        for stored in events {
            if ExecutionVersion::from(stored.record.seq) <= self.head.version {
                continue;
            }
            self.apply_event(stored).map_err(|error| unreplayable_log(&*error))?;
        }
        Ok(())
    }

    /// Applies the next event and returns it.
    pub(super) fn apply_event(&mut self, stored: &StoredEvent) -> Result<Event, Box<dyn Error>> {
        let event = decode_record(&stored.record)?;
        self.state.apply(&self.definition.plan, &event)?;
        self.record_events(std::slice::from_ref(&event));
        self.head = LogHead::after_event(stored);
        Ok(event)
    }
}

/// Error for a log that cannot be replayed. The execution is stopped rather than driven on from a
/// wrong state.
fn unreplayable_log(error: &dyn Error) -> RuntimeError {
    let causes = crate::error::error_chain(error);
    tracing::error!(error = %causes, "replaying a log failed");
    RuntimeError::internal("the log of the execution cannot be replayed; see the server's log")
}

impl Driver {
    /// Stores the state of an execution in the background once its log has grown enough.
    pub(super) fn write_snapshot_if_due(self: &Arc<Self>, execution: &mut LoadedExecution) {
        let tail = execution.head.version.get() - execution.snapshot_version.get();
        let min_events = execution.snapshot_after.load(Ordering::Relaxed);
        if execution.state.is_ended()
            || tail < min_events.max(self.infra.settings.snapshot_min_events.into())
        {
            return;
        }
        execution.snapshot_version = execution.head.version;
        let (state, head) = (execution.state.clone(), execution.head);
        let (execution_id, snapshot_after) =
            (execution.header.execution_id, Arc::clone(&execution.snapshot_after));
        let this = Arc::clone(self);
        self.infra.tasks.spawn(async move {
            // A wide loop has a large state, and its next step must not wait for serialization.
            let building =
                tokio::task::spawn_blocking(move || build_snapshot(&state, execution_id, head));
            let Ok(Some(snapshot)) = building.await else {
                tracing::warn!(%execution_id, "taking a snapshot failed");
                return;
            };
            let events = snapshot.state.len() / SNAPSHOT_BYTES_PER_EVENT;
            snapshot_after.store(i64::try_from(events).unwrap_or(i64::MAX), Ordering::Relaxed);
            if let Err(error) = this.infra.store.write_snapshot(snapshot).await {
                tracing::warn!(%error, %execution_id, "storing a snapshot failed");
            }
        });
    }
}

/// Encodes a state for a snapshot.
pub(super) fn encode_state(state: &ExecutionState) -> Option<Vec<u8>> {
    Some(to_canonical(&state.to_snapshot().ok()?))
}

fn build_snapshot(
    state: &ExecutionState,
    execution_id: ExecutionId,
    head: LogHead,
) -> Option<Snapshot> {
    let bytes = encode_state(state)?;
    Some(Snapshot {
        execution_id,
        key: snapshot_key(),
        head,
        checksum: sha256(&bytes),
        state: bytes,
    })
}
