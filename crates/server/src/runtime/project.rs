//! Events of others come into the log, and read models follow it.

use noetl_api::internal::{
    AdvanceAnswer, AdvanceRequest, Advanced, MaterializeAnswer, NotAdvanced, ProjectAnswer,
    ProjectRequest, RejectedEvent,
};
use noetl_api::replay::ReplayQuery;
use noetl_engine::decode;
use noetl_store::{
    Copied, CopyBatch, CopyScope, Execution, LogPage, Origin, Quarantined, project, verify_log,
    view_of_log,
};
use noetl_types::error::RejectCode;
use noetl_types::json::to_canonical;
use noetl_types::record::{Arrival, Projected, Rejection, read_projected};
use noetl_types::replay::ExecutionEntry;
use noetl_types::{
    ErrorCode, EventId, EventType, ExecutionId, ExecutionStatus, Json, JsonMap, StoredEvent, Text,
    Version,
};

use super::Runtime;
use super::error::{RuntimeError, causes};
use super::outcome::Outcome;

/// Executions that one request may let follow their logs.
const MAX_EXECUTIONS: usize = 1000;

/// Characters of an event that cannot be taken which are kept.
const KEPT_CHARS: usize = 64 << 10;

/// Events at the end of a log among which its end is looked for first. Little follows it.
const NEAR_THE_END: u32 = 50;

/// Fields of an event that a worker tells, by what they are called in an envelope.
const RENAMED: [(&str, &str); 5] = [
    ("name", "event_type"),
    ("step", "node_name"),
    ("payload", "context"),
    ("result_uri", "payload_ref"),
    ("id", "event_id"),
];

/// What became of events that were to be copied.
#[derive(Default)]
struct Sum {
    projected: u64,
    duplicates: u64,
    rejected: Vec<RejectedEvent>,
}

impl Runtime {
    /// Copies events into the log. One that cannot be taken is put aside, and fails no other.
    pub async fn project(
        &self,
        request: ProjectRequest,
        scope: CopyScope,
    ) -> Result<ProjectAnswer, RuntimeError> {
        let sum = self.copy("projector", request.events, scope).await?;
        Ok(ProjectAnswer {
            projected: sum.projected,
            duplicates: sum.duplicates,
            rejected: sum.rejected,
        })
    }

    /// Copies events into the log that are written as workers tell them; nothing follows from them.
    pub async fn materialize(
        &self,
        events: Vec<Json>,
        scope: CopyScope,
    ) -> Result<MaterializeAnswer, RuntimeError> {
        let mut envelopes = Vec::with_capacity(events.len());
        for event in events {
            envelopes.push(self.envelope(event)?);
        }
        let sum = self.copy("materializer", envelopes, scope).await?;
        self.metrics().platform().materialized(sum.projected);
        Ok(MaterializeAnswer {
            materialized: sum.projected,
            duplicates: sum.duplicates,
            rejected: sum.rejected,
        })
    }

    /// What a worker tells, as an envelope. One without an id gets one; then it is never a duplicate.
    fn envelope(&self, event: Json) -> Result<Json, RuntimeError> {
        let Json::Map(event) = event else {
            return Ok(event);
        };
        let mut envelope = JsonMap::new();
        for (key, value) in event.iter() {
            let renamed = RENAMED.iter().find(|(told, _)| *told == &**key);
            let name = renamed.map_or(&**key, |(_, name)| *name);
            // Where both are there, the name of the envelope wins.
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
            let event_id: EventId = self.mint()?;
            envelope.insert("event_id".into(), Json::from(event_id.to_string()));
        }
        Ok(Json::from(envelope))
    }

    async fn copy(
        &self,
        source: &str,
        events: Vec<Json>,
        scope: CopyScope,
    ) -> Result<Sum, RuntimeError> {
        if events.is_empty() {
            return Err(RuntimeError::refused(
                ErrorCode::OutOfRange,
                "there has to be at least one event",
            ));
        }
        let arrival = Arrival {
            now: self.now(),
            tenant_id: self.tenant().clone(),
            organization_id: self.behalf().organization_id.clone(),
        };
        let mut sum = Sum::default();
        let mut places = Vec::with_capacity(events.len());
        let mut readable: Vec<Projected> = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            match read_projected(event, &arrival) {
                Ok(projected) => {
                    places.push(index);
                    readable.push(projected);
                }
                Err(rejection) => sum.reject(index, event, rejection),
            }
        }
        let verdicts = project(
            self.store(),
            CopyBatch {
                events: readable,
                scope,
                now: arrival.now,
                outbox: self.settings().outbox,
            },
        );
        for (index, verdict) in places.into_iter().zip(verdicts.await?) {
            match verdict {
                Copied::Projected => sum.projected += 1,
                Copied::Duplicate => sum.duplicates += 1,
                Copied::Rejected(rejection) => {
                    let event = events.get(index).unwrap_or(&Json::Null);
                    sum.reject(index, event, rejection);
                }
            }
        }
        if sum.projected > 0 {
            // Whoever streams the log need not look for them.
            self.core
                .appended
                .send_modify(|count| *count = count.wrapping_add(1));
        }
        sum.rejected.sort_by_key(|rejected| rejected.index);
        self.put_aside(source, &events, &sum.rejected).await?;
        Ok(sum)
    }

    /// Keeps what was refused for an operator to look at.
    async fn put_aside(
        &self,
        source: &str,
        events: &[Json],
        rejected: &[RejectedEvent],
    ) -> Result<(), RuntimeError> {
        if rejected.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let mut aside = Vec::with_capacity(rejected.len());
        for one in rejected {
            self.metrics().platform().rejected(one.code);
            let raw = events.get(one.index).map(to_canonical).unwrap_or_default();
            let raw = String::from_utf8_lossy(&raw);
            let raw: String = raw.chars().take(KEPT_CHARS).collect();
            aside.push(Quarantined {
                quarantine_id: self.mint()?,
                source: source.into(),
                raw: Text::from(raw),
                code: one.code.as_str().into(),
                message: one.message.clone(),
                created_at: now,
            });
        }
        tracing::warn!(count = aside.len(), source, "events could not be copied");
        Ok(self.store().quarantine(aside).await?)
    }

    /// Lets the read models of executions follow their logs. What fails with one stops no other.
    pub async fn advance(
        &self,
        request: AdvanceRequest,
        scope: CopyScope,
    ) -> Result<AdvanceAnswer, RuntimeError> {
        let wanted = request.execution_ids;
        if wanted.is_empty() || wanted.len() > MAX_EXECUTIONS {
            let text = format!("execution_ids has to have 1 to {MAX_EXECUTIONS} executions");
            return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
        }
        let mut answer = AdvanceAnswer::default();
        for execution_id in wanted {
            match self.advance_one(execution_id, &scope).await {
                Ok(advanced) => answer.advanced.push(advanced),
                Err(error) => {
                    tracing::warn!(error = %causes(&error), %execution_id, "not advanced");
                    answer.failed.push(NotAdvanced {
                        execution_id,
                        error: error.into_problem().detail,
                    });
                }
            }
        }
        self.metrics().platform().advanced(answer.advanced.len());
        Ok(answer)
    }

    /// Folds the log of an execution again, keeps the state beside it where that is
    /// worth it, and sees that the row of the execution says the same. The row is written in the append
    /// of its events, so where it does not, it was damaged, and is made anew.
    async fn advance_one(
        &self,
        execution_id: ExecutionId,
        scope: &CopyScope,
    ) -> Result<Advanced, RuntimeError> {
        let row = match (scope, self.store().execution(execution_id).await?) {
            (CopyScope::OfExecution, Some(row)) => row,
            (CopyScope::OfExecution | CopyScope::Tenant(_), _) => {
                self.execution_row(execution_id).await?
            }
        };
        let query = ReplayQuery {
            tenant_id: row.facts.tenant_id.clone(),
            organization_id: row.facts.organization_id.clone(),
            ..ReplayQuery::new(execution_id)
        };
        let folded = self.refold(&query).await?;
        let (version, replayed) = (folded.version(), folded.replayed());
        // An append that came between the two looks has written the row.
        let said = &replayed.execution;
        if version == row.head.version && !self.surely_says(&row, said).await? {
            self.compare(&row).await?;
        }
        Ok(Advanced {
            execution_id,
            version: version.get(),
            events: u64::try_from(replayed.event_count).unwrap_or(0),
        })
    }

    /// Whether the row of an execution says what its log says, as far as a fold and the last events tell.
    /// Where they leave a doubt the whole log is asked. Of one that is driven and lives they tell less than
    /// the row does, so that only an end is of interest.
    async fn surely_says(
        &self,
        row: &Execution,
        said: &ExecutionEntry,
    ) -> Result<bool, RuntimeError> {
        let view = &row.view;
        let status = ExecutionStatus::parse(said.status.as_str()).ok();
        if ended(status) != ended(Some(view.status)) {
            return Ok(false);
        }
        let is_same_step = view.last_node_name == said.last_node_name;
        if view.status.is_terminal() {
            return Ok(is_same_step && self.ends_so(row).await?);
        }
        let is_open = view.ended_at.is_none() && view.error.is_none();
        let is_begun_alike = status.unwrap_or(ExecutionStatus::Pending) == view.status;
        let is_driven = row.facts.origin == Origin::Driven;
        Ok(is_driven || is_same_step && is_open && is_begun_alike)
    }

    /// Whether one of the last events is the end that the row of an execution tells of.
    async fn ends_so(&self, row: &Execution) -> Result<bool, RuntimeError> {
        let last = row.head.version.get();
        let after = Version::new((last - i64::from(NEAR_THE_END)).max(0)).unwrap_or_default();
        let page = LogPage::clamped(NEAR_THE_END);
        let tail = self.store().events(row.execution_id, after, page).await?;
        let view = &row.view;
        let is_it = |event: &StoredEvent| {
            let event = &event.record.event;
            let ends_as = event.event_type.meaning().and_then(EventType::ends_as);
            ends_as == Some(view.status) && Some(event.created_at) == view.ended_at
        };
        let why = |event: &StoredEvent| match row.facts.origin {
            Origin::Driven => {
                let event = decode(&event.record).ok()?;
                Outcome::of(&event)?.error
            }
            Origin::Projected | Origin::Imported => event.record.event.error.clone(),
        };
        let mut ends = tail.iter().filter(|event| is_it(event));
        Ok(ends.any(|event| why(event) == view.error))
    }

    /// Makes the row of an execution anew from its log, where it says something else and that is whole.
    async fn compare(&self, row: &Execution) -> Result<(), RuntimeError> {
        let execution_id = row.execution_id;
        let view = match row.facts.origin {
            Origin::Driven => self.core.view_by_log(row).await?,
            Origin::Projected | Origin::Imported => view_of_log(self.store(), row).await?,
        };
        if view == row.view {
            return Ok(());
        }
        let said = view.status;
        if let Some(damage) = verify_log(self.store(), execution_id).await? {
            let text = format!(
                "the row does not say what the log does ({said}), and the log is damaged: {damage}"
            );
            return Err(RuntimeError::refused(ErrorCode::Internal, text));
        }
        tracing::warn!(%execution_id, %said, "the row of an execution is made anew from its log");
        // Should the log have grown meanwhile, that append has written the row.
        let version = row.head.version;
        let written = self.store().rewrite_view(execution_id, version, view);
        written.await.map(drop)?;
        Ok(())
    }
}

/// A status, if it is one that an execution ends with.
fn ended(status: Option<ExecutionStatus>) -> Option<ExecutionStatus> {
    status.filter(|status| status.is_terminal())
}

impl Sum {
    fn reject(&mut self, index: usize, event: &Json, rejection: Rejection) {
        let Rejection { code, message } = rejection;
        if code == RejectCode::IdConflict {
            tracing::error!(%message, "an id is used for two events");
        }
        self.rejected.push(RejectedEvent {
            index,
            event_id: event.get("event_id").cloned().unwrap_or(Json::Null),
            code,
            message: Text::from(message),
        });
    }
}
