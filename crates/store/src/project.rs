//! Copying events of others into the log.
//!
//! A batch is one look and one write, whatever its size. The write is an append like any other: it
//! names where each log stands, so of two batches that race one looks again.

use std::collections::{BTreeMap, BTreeSet};

use noetl_types::error::RejectCode;
use noetl_types::limits::MAX_EVENT_BATCH;
use noetl_types::record::{Projected, Rejection};
use noetl_types::{ExecutionId, OrganizationId, StoredEvent, TenantId, Version};

use crate::error::StoreError;
use crate::model::{
    Append, AppendRefused, Copied, CopyBatch, CopyScope, EventKey, Execution, ExecutionFacts,
    ExecutionView, Head, Known, LogPage, Origin,
};
use crate::store::Store;

/// How often a batch looks again because others write the same logs.
const MAX_TRIES: usize = 64;

/// Copies events into the log, and says of each what became of it.
///
/// An event is there once, however often it comes. One that cannot be copied fails none of its
/// neighbours; an execution that is not known is made. One that is driven here takes no copies. After
/// an error some may be copied: the same batch again finds them.
pub async fn project(store: &dyn Store, batch: CopyBatch) -> Result<Vec<Copied>, StoreError> {
    let mut verdicts = Vec::with_capacity(batch.events.len());
    let CopyBatch {
        events,
        scope,
        now,
        outbox,
    } = batch;
    let mut events = events.into_iter();
    loop {
        let part: Vec<_> = events.by_ref().take(MAX_EVENT_BATCH).collect();
        if part.is_empty() {
            return Ok(verdicts);
        }
        let round = Round {
            scope: &scope,
            now,
            outbox,
        };
        verdicts.append(&mut round.copy(store, part).await?);
    }
}

struct Round<'b> {
    scope: &'b CopyScope,
    now: noetl_types::Timestamp,
    outbox: bool,
}

/// The events of one execution that are new, with their places in the batch.
#[derive(Default)]
struct Fresh {
    places: Vec<usize>,
    events: Vec<Projected>,
}

fn key(projected: &Projected) -> EventKey {
    EventKey {
        execution_id: projected.event.execution_id,
        event_id: projected.event.event_id,
    }
}

impl Round<'_> {
    async fn copy(
        &self,
        store: &dyn Store,
        events: Vec<Projected>,
    ) -> Result<Vec<Copied>, StoreError> {
        let mut verdicts: Vec<Option<Copied>> = vec![None; events.len()];
        for turn in 0..MAX_TRIES {
            let open = |verdicts: &[Option<Copied>]| {
                let places = verdicts.iter().enumerate();
                places
                    .filter(|(_, verdict)| verdict.is_none())
                    .map(|(place, _)| place)
                    .collect::<Vec<_>>()
            };
            let left = open(&verdicts);
            if left.is_empty() {
                break;
            }
            if turn > 0 {
                // Whoever writes the same logs gets a chance to end.
                tokio::task::yield_now().await;
            }
            let keys: BTreeSet<_> = left
                .iter()
                .filter_map(|it| events.get(*it))
                .map(key)
                .collect();
            let known = store.known(keys.into_iter().collect()).await?;
            let fresh = self.sort_out(&known, &events, &left, &mut verdicts);
            self.write(store, &known, fresh, &mut verdicts).await?;
        }
        let busy = || StoreError::retry("others keep writing the same logs");
        verdicts.into_iter().map(|it| it.ok_or_else(busy)).collect()
    }

    /// Judges what is there already or cannot be copied, and gives the rest. The second of two equal
    /// ids waits until the first is in the log.
    fn sort_out(
        &self,
        known: &Known,
        events: &[Projected],
        left: &[usize],
        verdicts: &mut [Option<Copied>],
    ) -> BTreeMap<ExecutionId, Fresh> {
        let stored = |wanted: EventKey| {
            let key = |it: &StoredEvent| (it.record.event.execution_id, it.record.event.event_id);
            let wanted = (wanted.execution_id, wanted.event_id);
            let place = known.events.binary_search_by_key(&wanted, key).ok()?;
            known.events.get(place)
        };
        let mut seen = BTreeSet::new();
        let mut fresh: BTreeMap<ExecutionId, Fresh> = BTreeMap::new();
        for place in left {
            let Some(projected) = events.get(*place) else {
                continue;
            };
            let key = key(projected);
            let execution = execution_of(known, key.execution_id);
            let verdict = match self.owned(projected, execution) {
                Err(rejection) => Copied::Rejected(rejection),
                Ok(projected) => match stored(key) {
                    Some(stored) if projected.is_same_as(&stored.record) => Copied::Duplicate,
                    Some(_) => Copied::Rejected(conflict(key)),
                    // The log of a run is its state: what its driver did not decide would not fold.
                    None if execution.is_some_and(is_driven) => Copied::Rejected(driven()),
                    None => {
                        if seen.insert(key) {
                            let fresh = fresh.entry(key.execution_id).or_default();
                            fresh.places.push(*place);
                            fresh.events.push(projected);
                        }
                        continue;
                    }
                },
            };
            if let Some(slot) = verdicts.get_mut(*place) {
                *slot = Some(verdict);
            }
        }
        fresh
    }

    /// The event as its execution's owner has it. An envelope that names somebody else is refused.
    fn owned(
        &self,
        projected: &Projected,
        execution: Option<&Execution>,
    ) -> Result<Projected, Rejection> {
        let facts = execution.map(|execution| &execution.facts);
        let tenant = match (facts, self.scope) {
            (Some(facts), CopyScope::Tenant(tenant)) if facts.tenant_id != *tenant => {
                return Err(mismatch());
            }
            (Some(facts), CopyScope::Tenant(_) | CopyScope::OfExecution) => &facts.tenant_id,
            (None, CopyScope::Tenant(tenant)) => tenant,
            (None, CopyScope::OfExecution) => &TenantId::default(),
        };
        let organization = match (facts, self.scope) {
            (Some(facts), _) => &facts.organization_id,
            (None, CopyScope::Tenant(_)) => &projected.event.organization_id,
            (None, CopyScope::OfExecution) => &OrganizationId::default(),
        };
        let said = |said: &Option<noetl_types::Text>, is: &str| {
            said.as_ref().is_none_or(|said| said.as_str() == is)
        };
        if !said(&projected.said_tenant, tenant.as_str())
            || !said(&projected.said_organization, organization.as_str())
        {
            return Err(mismatch());
        }
        let mut projected = projected.clone();
        projected.event.tenant_id = tenant.clone();
        projected.event.organization_id = organization.clone();
        Ok(projected)
    }

    async fn write(
        &self,
        store: &dyn Store,
        known: &Known,
        fresh: BTreeMap<ExecutionId, Fresh>,
        verdicts: &mut [Option<Copied>],
    ) -> Result<(), StoreError> {
        let mut places = Vec::with_capacity(fresh.len());
        let mut appends = Vec::with_capacity(fresh.len());
        for (execution_id, fresh) in fresh {
            let execution = execution_of(known, execution_id);
            if let Some(append) = self.append(execution, fresh.events) {
                places.push(fresh.places);
                appends.push(append);
            }
        }
        if appends.is_empty() {
            return Ok(());
        }
        let answers = store.append(appends).await;
        for (places, answer) in places.into_iter().zip(answers) {
            let verdict = match answer {
                Ok(_) => Copied::Projected,
                // Somebody was faster: it is looked at again.
                Err(
                    AppendRefused::Conflict { .. }
                    | AppendRefused::AlreadyExists
                    | AppendRefused::NotFound
                    | AppendRefused::IdTaken,
                ) => continue,
                Err(AppendRefused::Gone) => Copied::Rejected(Rejection {
                    code: RejectCode::RetentionDropped,
                    message: "the execution was dropped by retention".to_owned(),
                }),
                Err(AppendRefused::Store(error)) => return Err(error),
                Err(refused) => Copied::Rejected(Rejection {
                    code: RejectCode::BadValue,
                    message: refused.to_string(),
                }),
            };
            for place in places {
                if let Some(slot) = verdicts.get_mut(place) {
                    *slot = Some(verdict.clone());
                }
            }
        }
        Ok(())
    }

    fn append(&self, execution: Option<&Execution>, events: Vec<Projected>) -> Option<Append> {
        let events: Vec<_> = events.into_iter().map(|it| it.event).collect();
        let first = events.first()?;
        let mut view = execution.map_or_else(ExecutionView::of_copy, |it| it.view.clone());
        for event in &events {
            view.follow_copy(event);
        }
        let start = execution.is_none().then(|| ExecutionFacts::of_copy(first));
        Some(Append {
            execution_id: first.execution_id,
            expected: execution.map_or(Head::START, |it| it.head),
            now: self.now,
            events,
            keep_checksums: true,
            is_copy: true,
            outbox: self.outbox,
            start,
            view,
            fences: Vec::new(),
            commands: Vec::new(),
            timers: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            errands: Vec::new(),
            slots: Vec::new(),
            cached: Vec::new(),
            dedup: None,
            idempotency: None,
        })
    }
}

/// What lists show of an execution by its log alone: as if all of it were copied now. Whether it is
/// paused is not a matter of copies, and stays.
pub async fn view_of_log(
    store: &dyn Store,
    execution: &Execution,
) -> Result<ExecutionView, StoreError> {
    let mut view = ExecutionView {
        paused: execution.view.paused,
        ..ExecutionView::of_copy()
    };
    let mut version = Version::EMPTY;
    while version < execution.head.version {
        let page = LogPage::MAX;
        let events = store.events(execution.execution_id, version, page).await?;
        let Some(last) = events.last() else {
            break;
        };
        version = last.record.seq.into();
        for event in &events {
            view.follow_copy(&event.record.event);
        }
    }
    Ok(view)
}

fn execution_of(known: &Known, execution_id: ExecutionId) -> Option<&Execution> {
    let place = known
        .executions
        .binary_search_by_key(&execution_id, |it| it.execution_id)
        .ok()?;
    known.executions.get(place)
}

fn conflict(key: EventKey) -> Rejection {
    Rejection {
        code: RejectCode::IdConflict,
        message: format!(
            "event {} of execution {} is in the log already, and says something else",
            key.event_id, key.execution_id
        ),
    }
}

fn is_driven(execution: &Execution) -> bool {
    execution.facts.origin == Origin::Driven
}

fn driven() -> Rejection {
    Rejection {
        code: RejectCode::BadValue,
        message: "the execution is driven here: only its driver writes its log".to_owned(),
    }
}

fn mismatch() -> Rejection {
    Rejection {
        code: RejectCode::TenantMismatch,
        message: "the execution is of another tenant or organization".to_owned(),
    }
}
