//! Projection of events from other systems into the log.
//!
//! A batch needs one read and one write, regardless of its size. The write is an ordinary append
//! with an expected head per log. If two batches race, one of them reads again.

use std::collections::{BTreeMap, BTreeSet};

use noetl_types::error::RejectCode;
use noetl_types::limits::MAX_EVENT_BATCH;
use noetl_types::record::{EventRejection, ProjectedEvent};
use noetl_types::{ExecutionId, ExecutionVersion, OrganizationId, StoredEvent, TenantId};

use crate::error::StoreError;
use crate::model::{
    AppendError, AppendRequest, EventKey, Execution, ExecutionFacts, ExecutionOrigin,
    ExecutionView, KnownEvents, LogHead, LogPageLimit, ProjectOutcome, ProjectionBatch,
    ProjectionScope,
};
use crate::store::Store;

/// Maximum number of retries because of concurrent writes to the same logs.
const MAX_CONFLICT_RETRIES: usize = 64;

/// Projects events into the log and returns the outcome of each.
///
/// Each event is added once, even if it is delivered repeatedly. A rejected event does not affect
/// the others. An unknown execution is created. An execution driven by this system accepts no
/// projected events. After an error some events may have been added, and retrying the batch detects
/// them.
pub async fn project_events(
    store: &dyn Store,
    batch: ProjectionBatch,
) -> Result<Vec<ProjectOutcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(batch.events.len());
    let ProjectionBatch { events, scope, now, use_outbox } = batch;
    let mut events = events.into_iter();
    loop {
        let chunk: Vec<_> = events.by_ref().take(MAX_EVENT_BATCH).collect();
        if chunk.is_empty() {
            return Ok(outcomes);
        }
        let round = ProjectionRound { scope: &scope, now, use_outbox };
        outcomes.append(&mut round.project_chunk(store, chunk).await?);
    }
}

struct ProjectionRound<'b> {
    scope: &'b ProjectionScope,
    now: noetl_types::Timestamp,
    use_outbox: bool,
}

/// The new events of one execution, with their indexes in the batch.
#[derive(Default)]
struct NewExecutionEvents {
    batch_indexes: Vec<usize>,
    events: Vec<ProjectedEvent>,
}

fn event_key(projected: &ProjectedEvent) -> EventKey {
    EventKey { execution_id: projected.event.execution_id, event_id: projected.event.event_id }
}

impl ProjectionRound<'_> {
    async fn project_chunk(
        &self,
        store: &dyn Store,
        events: Vec<ProjectedEvent>,
    ) -> Result<Vec<ProjectOutcome>, StoreError> {
        let mut outcomes: Vec<Option<ProjectOutcome>> = vec![None; events.len()];
        for attempt in 0..MAX_CONFLICT_RETRIES {
            let pending_indexes = |outcomes: &[Option<ProjectOutcome>]| {
                let indexed = outcomes.iter().enumerate();
                indexed
                    .filter(|(_, outcome)| outcome.is_none())
                    .map(|(index, _)| index)
                    .collect::<Vec<_>>()
            };
            let pending = pending_indexes(&outcomes);
            if pending.is_empty() {
                break;
            }
            if attempt > 0 {
                // Lets concurrent writers of the same logs finish.
                tokio::task::yield_now().await;
            }
            let keys: BTreeSet<_> =
                pending.iter().filter_map(|it| events.get(*it)).map(event_key).collect();
            let known = store.find_known_events(keys.into_iter().collect()).await?;
            let new_events = self.classify_events(&known, &events, &pending, &mut outcomes);
            self.append_new_events(store, &known, new_events, &mut outcomes).await?;
        }
        let busy = || StoreError::retry("concurrent writes keep changing the same logs");
        outcomes.into_iter().map(|it| it.ok_or_else(busy)).collect()
    }

    /// Decides about events that are already in the log or must be rejected, and returns the rest.
    /// The second of two equal ids waits until the first is in the log.
    fn classify_events(
        &self,
        known: &KnownEvents,
        events: &[ProjectedEvent],
        pending: &[usize],
        outcomes: &mut [Option<ProjectOutcome>],
    ) -> BTreeMap<ExecutionId, NewExecutionEvents> {
        let find_stored = |key: EventKey| {
            let stored_key =
                |it: &StoredEvent| (it.record.event.execution_id, it.record.event.event_id);
            let key = (key.execution_id, key.event_id);
            let index = known.events.binary_search_by_key(&key, stored_key).ok()?;
            known.events.get(index)
        };
        let mut seen = BTreeSet::new();
        let mut new_events: BTreeMap<ExecutionId, NewExecutionEvents> = BTreeMap::new();
        for index in pending {
            let Some(projected) = events.get(*index) else {
                continue;
            };
            let key = event_key(projected);
            let execution = known_execution(known, key.execution_id);
            let outcome = match self.assign_owner(projected, execution) {
                Err(rejection) => ProjectOutcome::Rejected(rejection),
                Ok(projected) => match find_stored(key) {
                    Some(stored) if projected.is_same_as(&stored.record) => {
                        ProjectOutcome::Duplicate
                    }
                    Some(_) => ProjectOutcome::Rejected(id_conflict(key)),
                    // The log of an execution is its state: events that its driver did not decide
                    // would not fold.
                    None if execution.is_some_and(is_driven) => {
                        ProjectOutcome::Rejected(driven_execution())
                    }
                    None => {
                        if seen.insert(key) {
                            let group = new_events.entry(key.execution_id).or_default();
                            group.batch_indexes.push(*index);
                            group.events.push(projected);
                        }
                        continue;
                    }
                },
            };
            if let Some(entry) = outcomes.get_mut(*index) {
                *entry = Some(outcome);
            }
        }
        new_events
    }

    /// Returns the event with the owner of its execution. An envelope that names another owner is
    /// rejected.
    fn assign_owner(
        &self,
        projected: &ProjectedEvent,
        execution: Option<&Execution>,
    ) -> Result<ProjectedEvent, EventRejection> {
        let facts = execution.map(|execution| &execution.facts);
        let tenant = match (facts, self.scope) {
            (Some(facts), ProjectionScope::Tenant(tenant)) if facts.tenant_id != *tenant => {
                return Err(tenant_mismatch());
            }
            (Some(facts), ProjectionScope::Tenant(_) | ProjectionScope::ExecutionOwner) => {
                &facts.tenant_id
            }
            (None, ProjectionScope::Tenant(tenant)) => tenant,
            (None, ProjectionScope::ExecutionOwner) => &TenantId::default(),
        };
        let organization = match (facts, self.scope) {
            (Some(facts), _) => &facts.organization_id,
            (None, ProjectionScope::Tenant(_)) => &projected.event.organization_id,
            (None, ProjectionScope::ExecutionOwner) => &OrganizationId::default(),
        };
        let matches = |envelope: &Option<noetl_types::Text>, expected: &str| {
            envelope.as_ref().is_none_or(|name| name.as_str() == expected)
        };
        if !matches(&projected.envelope_tenant, tenant.as_str())
            || !matches(&projected.envelope_organization, organization.as_str())
        {
            return Err(tenant_mismatch());
        }
        let mut projected = projected.clone();
        projected.event.tenant_id = tenant.clone();
        projected.event.organization_id = organization.clone();
        Ok(projected)
    }

    async fn append_new_events(
        &self,
        store: &dyn Store,
        known: &KnownEvents,
        new_events: BTreeMap<ExecutionId, NewExecutionEvents>,
        outcomes: &mut [Option<ProjectOutcome>],
    ) -> Result<(), StoreError> {
        let mut batch_indexes = Vec::with_capacity(new_events.len());
        let mut appends = Vec::with_capacity(new_events.len());
        for (execution_id, group) in new_events {
            let execution = known_execution(known, execution_id);
            if let Some(append) = self.build_append(execution, group.events) {
                batch_indexes.push(group.batch_indexes);
                appends.push(append);
            }
        }
        if appends.is_empty() {
            return Ok(());
        }
        let results = store.append_events(appends).await;
        for (indexes, result) in batch_indexes.into_iter().zip(results) {
            let outcome = match result {
                Ok(_) => ProjectOutcome::Projected,
                // A concurrent write succeeded first. The event is checked again.
                Err(
                    AppendError::Conflict { .. }
                    | AppendError::AlreadyExists
                    | AppendError::NotFound
                    | AppendError::IdTaken,
                ) => continue,
                Err(AppendError::Dropped) => ProjectOutcome::Rejected(EventRejection {
                    code: RejectCode::RetentionDropped,
                    message: "the execution was dropped by retention".to_owned(),
                }),
                Err(AppendError::Store(error)) => return Err(error),
                Err(error) => ProjectOutcome::Rejected(EventRejection {
                    code: RejectCode::BadValue,
                    message: error.to_string(),
                }),
            };
            for index in indexes {
                if let Some(entry) = outcomes.get_mut(index) {
                    *entry = Some(outcome.clone());
                }
            }
        }
        Ok(())
    }

    fn build_append(
        &self,
        execution: Option<&Execution>,
        events: Vec<ProjectedEvent>,
    ) -> Option<AppendRequest> {
        let events: Vec<_> = events.into_iter().map(|it| it.event).collect();
        let first = events.first()?;
        let mut view = execution.map_or_else(ExecutionView::new_projected, |it| it.view.clone());
        for event in &events {
            view.apply_projected_event(event);
        }
        let start = execution.is_none().then(|| ExecutionFacts::from_projected_event(first));
        Some(AppendRequest {
            execution_id: first.execution_id,
            expected_head: execution.map_or(LogHead::START, |it| it.head),
            now: self.now,
            events,
            keep_checksums: true,
            is_projected: true,
            use_outbox: self.use_outbox,
            start,
            view,
            fences: Vec::new(),
            commands: Vec::new(),
            timers: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            follow_ups: Vec::new(),
            slots: Vec::new(),
            cache_puts: Vec::new(),
            dedup: None,
            idempotency: None,
        })
    }
}

/// Derives the view of an execution from its log alone, as if it were projected now. The paused
/// flag does not result from projection, and is preserved.
pub async fn rebuild_execution_view(
    store: &dyn Store,
    execution: &Execution,
) -> Result<ExecutionView, StoreError> {
    let mut view =
        ExecutionView { paused: execution.view.paused, ..ExecutionView::new_projected() };
    let mut version = ExecutionVersion::EMPTY;
    while version < execution.head.version {
        let page = LogPageLimit::MAX;
        let events = store.read_events(execution.execution_id, version, page).await?;
        let Some(last) = events.last() else {
            break;
        };
        version = last.record.seq.into();
        for event in &events {
            view.apply_projected_event(&event.record.event);
        }
    }
    Ok(view)
}

fn known_execution(known: &KnownEvents, execution_id: ExecutionId) -> Option<&Execution> {
    let index = known.executions.binary_search_by_key(&execution_id, |it| it.execution_id).ok()?;
    known.executions.get(index)
}

fn id_conflict(key: EventKey) -> EventRejection {
    EventRejection {
        code: RejectCode::IdConflict,
        message: format!(
            "event {} of execution {} is already in the log with different content",
            key.event_id, key.execution_id
        ),
    }
}

fn is_driven(execution: &Execution) -> bool {
    execution.facts.origin == ExecutionOrigin::Driven
}

fn driven_execution() -> EventRejection {
    EventRejection {
        code: RejectCode::BadValue,
        message: "this system drives the execution; its log accepts no projected events".to_owned(),
    }
}

fn tenant_mismatch() -> EventRejection {
    EventRejection {
        code: RejectCode::TenantMismatch,
        message: "the execution belongs to another tenant or organization".to_owned(),
    }
}
