//! Projection: copies events of other systems into the log and advances read models.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_api::internal::{
    AdvanceFailure, AdvanceRequest, AdvanceResponse, AdvancedExecution, MaterializeResponse,
    ProjectRequest, ProjectResponse, RawEvent, RejectedEvent,
};
use noetl_api::replay::ReplayQuery;
use noetl_engine::decode_record;
use noetl_store::{
    Execution, ExecutionOrigin, LogPageLimit, ProjectOutcome, ProjectionBatch, ProjectionScope,
    QuarantinedItem, project_events, rebuild_execution_view, verify_log,
};
use noetl_types::error::RejectCode;
use noetl_types::json::to_canonical;
use noetl_types::record::{
    EventRejection, ProjectedEvent, ProjectionContext, parse_projected_event,
};
use noetl_types::replay::ExecutionEntry;
use noetl_types::{
    EventId, EventType, ExecutionId, ExecutionStatus, ExecutionVersion, Json, JsonMap, StoredEvent,
    Text,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::access::CallContext;
use crate::driver::{Driver, ExecutionOutcome};
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::waiters::Waiters;
use crate::services::{Infrastructure, Queries};

/// Maximum executions per advance request.
const MAX_ADVANCE_EXECUTIONS: usize = 1000;

/// Characters of a rejected event that the quarantine stores.
const MAX_QUARANTINED_CHARS: usize = 64 << 10;

/// Locks of the logs that batches append to.
pub(crate) const LOG_LOCKS: usize = 64;

/// Events at the end of a log that are searched for the terminal event. Few events follow it.
const TERMINAL_SCAN_EVENTS: u32 = 50;

/// Field names of worker reports and the corresponding envelope fields.
const ENVELOPE_FIELD_NAMES: [(&str, &str); 5] = [
    ("name", "event_type"),
    ("step", "node_name"),
    ("payload", "context"),
    ("result_uri", "payload_ref"),
    ("id", "event_id"),
];

/// Outcome of a copy request.
#[derive(Default)]
struct CopyTotals {
    projected: u64,
    duplicates: u64,
    rejected: Vec<RejectedEvent>,
}

/// Copies events of other systems into the log, and advances read models.
pub struct Projection {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) queries: Arc<Queries>,
    pub(crate) waiters: Arc<Waiters>,
    /// Locks of the logs that batches append to, by execution id.
    pub(crate) log_locks: [Mutex<()>; LOG_LOCKS],
}

impl Projection {
    /// Copies events into the log, which must accept them.
    #[cfg(test)]
    pub(crate) async fn project_test_events(&self, events: Vec<Json>) -> ProjectResponse {
        let (ctx, scope) = (CallContext::server(), ProjectionScope::ExecutionOwner);
        self.project_events(ctx, ProjectRequest::new(events), scope).await.unwrap()
    }

    /// Copies events into the log. Rejected events go to the quarantine and do not fail the others.
    pub async fn project_events(
        &self,
        ctx: &CallContext,
        request: ProjectRequest,
        scope: ProjectionScope,
    ) -> Result<ProjectResponse> {
        let totals = self.copy_events(ctx, "projector", request.events, scope).await?;
        Ok(ProjectResponse {
            projected: totals.projected,
            duplicates: totals.duplicates,
            rejected: totals.rejected,
        })
    }

    /// Copies events in the format of worker reports into the log, without any effects.
    pub async fn materialize_events(
        &self,
        ctx: &CallContext,
        mut events: Vec<RawEvent>,
        scope: ProjectionScope,
    ) -> Result<MaterializeResponse> {
        for event in events.iter_mut().filter_map(|event| event.0.as_mut().ok()) {
            *event = self.to_event_envelope(std::mem::take(event))?;
        }
        let totals = self.copy_events(ctx, "materializer", events, scope).await?;
        self.infra.metrics.platform.materialized_events.inc_by(totals.projected);
        Ok(MaterializeResponse {
            materialized: totals.projected,
            duplicates: totals.duplicates,
            rejected: totals.rejected,
        })
    }

    /// Converts a reported event to an envelope. An event without an id gets a new one and is then
    /// never a duplicate.
    fn to_event_envelope(&self, event: Json) -> Result<Json> {
        let Json::Map(event) = event else {
            return Ok(event);
        };
        let mut envelope = JsonMap::new();
        for (key, value) in event.iter() {
            let renamed = ENVELOPE_FIELD_NAMES.iter().find(|(reported, _)| *reported == &**key);
            let name = renamed.map_or(&**key, |(_, name)| *name);
            // If both names are present, the envelope's name takes precedence.
            if name == &**key || !event.contains_key(name) {
                envelope.insert(name.into(), value.clone());
            }
        }
        if let Some(step) = envelope.get("node_name").cloned()
            && !envelope.contains_key("node_id")
        {
            envelope.insert("node_id".into(), step);
        }
        if envelope.get("event_id").is_none_or(Json::is_null) {
            let event_id: EventId = self.infra.mint_id()?;
            envelope.insert("event_id".into(), Json::from(event_id.to_string()));
        }
        Ok(Json::from(envelope))
    }

    async fn copy_events(
        &self,
        ctx: &CallContext,
        source: &str,
        events: Vec<RawEvent>,
        scope: ProjectionScope,
    ) -> Result<CopyTotals> {
        if events.is_empty() {
            return Err(RuntimeError::out_of_range("at least one event is required"));
        }
        let context = ProjectionContext {
            now: self.infra.now(),
            tenant_id: ctx.tenant().clone(),
            organization_id: ctx.auth.organization_id.clone(),
        };
        let mut totals = CopyTotals::default();
        let mut indexes = Vec::with_capacity(events.len());
        let mut parsed: Vec<ProjectedEvent> = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let projected = match &event.0 {
                Ok(envelope) => parse_projected_event(envelope, &context),
                Err(unstorable) => Err(EventRejection {
                    code: RejectCode::BadValue,
                    message: unstorable.problem.to_string(),
                }),
            };
            match projected {
                Ok(projected) => {
                    indexes.push(index);
                    parsed.push(projected);
                }
                Err(rejection) => totals.record_rejection(index, event, rejection),
            }
        }
        let batch = ProjectionBatch {
            events: parsed,
            scope,
            now: context.now,
            use_outbox: self.infra.outbox,
        };
        let locks = self.lock_logs(&batch.events).await;
        let outcomes = project_events(self.infra.store(), batch).await?;
        drop(locks);
        for (index, outcome) in indexes.into_iter().zip(outcomes) {
            match outcome {
                ProjectOutcome::Projected => totals.projected += 1,
                ProjectOutcome::Duplicate => totals.duplicates += 1,
                ProjectOutcome::Rejected(rejection) => {
                    if let Some(event) = events.get(index) {
                        totals.record_rejection(index, event, rejection);
                    }
                }
            }
        }
        if totals.projected > 0 {
            // Wakes the readers of the log.
            self.waiters.notify_log_growth();
        }
        totals.rejected.sort_by_key(|rejected| rejected.index);
        self.quarantine_rejected(source, &events, &totals.rejected).await?;
        Ok(totals)
    }

    /// Locks the logs of events against other batches of this server, which would otherwise have to
    /// be retried. The order of the locks excludes a deadlock. Logs with the same lock number wait
    /// for each other too.
    async fn lock_logs(&self, events: &[ProjectedEvent]) -> Vec<MutexGuard<'_, ()>> {
        let lock_number = |event: &ProjectedEvent| {
            let id = u64::try_from(event.event.execution_id.get()).unwrap_or_default();
            usize::try_from(id % LOG_LOCKS as u64).unwrap_or_default()
        };
        let numbers: BTreeSet<usize> = events.iter().map(lock_number).collect();
        let mut guards = Vec::with_capacity(numbers.len());
        for lock in numbers.into_iter().filter_map(|number| self.log_locks.get(number)) {
            guards.push(lock.lock().await);
        }
        guards
    }

    /// Stores rejected events for inspection by an operator.
    async fn quarantine_rejected(
        &self,
        source: &str,
        events: &[RawEvent],
        rejected: &[RejectedEvent],
    ) -> Result<()> {
        if rejected.is_empty() {
            return Ok(());
        }
        let now = self.infra.now();
        let mut quarantined = Vec::with_capacity(rejected.len());
        for event in rejected {
            self.infra.metrics.platform.count_rejected(event.code);
            let raw = match events.get(event.index).map(|event| &event.0) {
                Some(Ok(envelope)) => String::from_utf8(to_canonical(envelope)).unwrap_or_default(),
                Some(Err(unstorable)) => unstorable.raw.to_string(),
                None => String::new(),
            };
            let raw: String = raw.chars().take(MAX_QUARANTINED_CHARS).collect();
            quarantined.push(QuarantinedItem {
                quarantine_id: self.infra.mint_id()?,
                source: source.into(),
                raw: Text::from(raw),
                code: event.code.as_str().into(),
                message: event.message.clone(),
                created_at: now,
            });
        }
        tracing::warn!(count = quarantined.len(), source, "events could not be copied");
        Ok(self.infra.store().quarantine_items(quarantined).await?)
    }

    /// Advances the read models of executions to the end of their logs. A failure of one does not
    /// stop the others.
    pub async fn advance_read_models(
        &self,
        ctx: &CallContext,
        request: AdvanceRequest,
        scope: ProjectionScope,
    ) -> Result<AdvanceResponse> {
        let execution_ids = request.execution_ids;
        if execution_ids.is_empty() || execution_ids.len() > MAX_ADVANCE_EXECUTIONS {
            let text = format!("execution_ids must have 1 to {MAX_ADVANCE_EXECUTIONS} executions");
            return Err(RuntimeError::out_of_range(text));
        }
        let mut response = AdvanceResponse::default();
        for execution_id in execution_ids {
            match self.advance_execution(ctx, execution_id, &scope).await {
                Ok(advanced) => response.advanced.push(advanced),
                Err(error) => {
                    tracing::warn!(error = %error_chain(&error), %execution_id, "the read model of an execution was not advanced");
                    response.failed.push(AdvanceFailure {
                        execution_id: execution_id.into(),
                        error: error.into_problem().detail,
                    });
                }
            }
        }
        self.infra.metrics.platform.advanced_models.inc_by(response.advanced.len() as u64);
        Ok(response)
    }

    /// Folds the log of an execution, stores a snapshot if it is worth its cost, and checks the
    /// execution's row against the result. The row is written in the same append as the events, so
    /// a difference means that the row was damaged. It is then rebuilt.
    async fn advance_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        scope: &ProjectionScope,
    ) -> Result<AdvancedExecution> {
        let row = match (scope, self.infra.store().find_execution(execution_id).await?) {
            (ProjectionScope::ExecutionOwner, Some(row)) => row,
            (ProjectionScope::ExecutionOwner | ProjectionScope::Tenant(_), _) => {
                ctx.visible_execution(self.infra.store(), execution_id).await?
            }
        };
        let query = ReplayQuery {
            tenant_id: row.facts.tenant_id.clone(),
            organization_id: row.facts.organization_id.clone(),
            ..ReplayQuery::new(execution_id)
        };
        let folded = self.queries.refold_log(&query).await?;
        let (version, replayed) = (folded.version(), folded.replayed());
        // An append between the two reads has written the row.
        let folded_row = &replayed.execution;
        if version == row.head.version && !self.row_matches_replay(&row, folded_row).await? {
            self.repair_execution_row(&row).await?;
        }
        Ok(AdvancedExecution {
            execution_id: execution_id.into(),
            version: version.get(),
            events: u64::try_from(replayed.event_count).unwrap_or(0),
        })
    }

    /// True if the execution's row agrees with a fold and the last events of its log. If not
    /// certain, the caller compares the whole log. For a live driven execution the fold contains
    /// less than the row, so only terminal states are compared.
    async fn row_matches_replay(
        &self,
        row: &Execution,
        folded_row: &ExecutionEntry,
    ) -> Result<bool> {
        let view = &row.view;
        let status = ExecutionStatus::parse(folded_row.status.as_str()).ok();
        if terminal_status(status) != terminal_status(Some(view.status)) {
            return Ok(false);
        }
        let is_same_step = view.last_node_name == folded_row.last_node_name;
        if view.status.is_terminal() {
            return Ok(is_same_step && self.row_matches_terminal_event(row).await?);
        }
        let is_open = view.ended_at.is_none() && view.error.is_none();
        let has_same_status = status.unwrap_or(ExecutionStatus::Pending) == view.status;
        let is_driven = row.facts.origin == ExecutionOrigin::Driven;
        Ok(is_driven || is_same_step && is_open && has_same_status)
    }

    /// True if one of the last events is the terminal event that the row describes.
    async fn row_matches_terminal_event(&self, row: &Execution) -> Result<bool> {
        let last = row.head.version.get();
        let after = ExecutionVersion::new((last - i64::from(TERMINAL_SCAN_EVENTS)).max(0))
            .unwrap_or_default();
        let page = LogPageLimit::clamped(TERMINAL_SCAN_EVENTS);
        let tail = self.infra.store().read_events(row.execution_id, after, page).await?;
        let view = &row.view;
        let is_terminal_event = |event: &StoredEvent| {
            let event = &event.record.event;
            let terminal_status =
                event.event_type.resolved_type().and_then(EventType::terminal_status);
            terminal_status == Some(view.status) && Some(event.created_at) == view.ended_at
        };
        let error_of = |event: &StoredEvent| match row.facts.origin {
            ExecutionOrigin::Driven => {
                let event = decode_record(&event.record).ok()?;
                ExecutionOutcome::from_event(&event)?.error
            }
            ExecutionOrigin::Projected | ExecutionOrigin::Imported => {
                event.record.event.error.clone()
            }
        };
        let mut terminal_events = tail.iter().filter(|event| is_terminal_event(event));
        Ok(terminal_events.any(|event| error_of(event) == view.error))
    }

    /// Rebuilds the row of an execution from its log, if the row differs and the log is intact.
    async fn repair_execution_row(&self, row: &Execution) -> Result<()> {
        let execution_id = row.execution_id;
        let view = match row.facts.origin {
            ExecutionOrigin::Driven => self.driver.view_from_log(row).await?,
            ExecutionOrigin::Projected | ExecutionOrigin::Imported => {
                rebuild_execution_view(self.infra.store(), row).await?
            }
        };
        if view == row.view {
            return Ok(());
        }
        let log_status = view.status;
        if let Some(damage) = verify_log(self.infra.store(), execution_id).await? {
            let text = format!(
                "the row contradicts the log ({log_status}), and the log is damaged: {damage}"
            );
            return Err(RuntimeError::internal(text));
        }
        tracing::warn!(%execution_id, %log_status, "the row of an execution is rebuilt from its log");
        // If the log has grown meanwhile, that append has written the row.
        let version = row.head.version;
        let written = self.infra.store().rewrite_execution_view(execution_id, version, view);
        written.await.map(drop)?;
        Ok(())
    }
}

/// Returns the status if it is terminal.
fn terminal_status(status: Option<ExecutionStatus>) -> Option<ExecutionStatus> {
    status.filter(|status| status.is_terminal())
}

impl CopyTotals {
    fn record_rejection(&mut self, index: usize, event: &RawEvent, rejection: EventRejection) {
        let EventRejection { code, message } = rejection;
        if code == RejectCode::IdConflict {
            tracing::error!(%message, "an id is used for two events");
        }
        let event_id = match &event.0 {
            Ok(envelope) => envelope.get("event_id").cloned().unwrap_or(Json::Null),
            Err(unstorable) => unstorable.event_id.clone(),
        };
        self.rejected.push(RejectedEvent { index, event_id, code, message: Text::from(message) });
    }
}
