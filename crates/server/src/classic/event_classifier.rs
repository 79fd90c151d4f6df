//! Classifies events from classic workers by the state of the command queue.
//!
//! The events of a call are classified in order before any of them is written: each against the
//! commands as they will be once those before it are written.

use std::collections::BTreeMap;

use noetl_api::classic::{ClassicEventResponse, ResultKind};
use noetl_engine::{ClassicReport, ExecutionState, ReportOutcome, StaleReason};
use noetl_playbook::model::Task;
use noetl_store::{
    Command, CommandFilter, CommandStatusFilter, Fence, MAX_APPEND_RESULT_BYTES, RuntimeKind,
};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ByteSize, CommandId, CommandStatus, ErrorCode, EventType, Json, NewEvent, WorkerId,
};

use crate::access::CallContext;
use crate::classic::event_ingest::IdentifiedEvent;
use crate::classic::incoming_event::IncomingEvent;
use crate::classic::reporter::{ClassicReporter, ReporterRelation};
use crate::classic::task_policy::{PolicyResult, ReportedAttempt};
use crate::classic::{ClassicApi, payload};
use crate::error::{Result, RuntimeError};
use crate::services::results::parse_result_value;
use crate::services::workers::stored_worker_name;

/// Classification of an event.
pub(crate) enum EventClass {
    /// There is nothing to write.
    Answered(ClassicEventResponse),
    /// A report about a command.
    CommandReport {
        report: Box<ClassicReport>,
        /// Lease that must still be held for the report to count.
        fence: Option<Fence>,
        /// Claim that it ends.
        ended: Option<(WorkerId, CommandId)>,
    },
    /// An audit-only event.
    AuditOnly(Box<NewEvent>),
}

/// Classifies the events of a call in order.
pub(crate) struct EventClassifier<'r> {
    api: &'r ClassicApi,
    ctx: &'r CallContext,
    /// Commands as changed by the events classified so far.
    commands: BTreeMap<CommandId, Command>,
    /// State of the execution before the call, loaded on demand.
    state: Option<ExecutionState>,
    /// Bytes of referenced results that were loaded.
    loaded_result_bytes: usize,
}

impl<'r> EventClassifier<'r> {
    pub(crate) fn new(api: &'r ClassicApi, ctx: &'r CallContext) -> Self {
        Self { api, ctx, commands: BTreeMap::new(), state: None, loaded_result_bytes: 0 }
    }

    /// Classifies the next event.
    pub(crate) async fn classify_event(
        &mut self,
        event: &IdentifiedEvent<'_>,
    ) -> Result<EventClass> {
        if let Some(event_type) = event.incoming.command_event_type() {
            return self.classify_command_event(event, event_type).await;
        }
        let record = event.incoming.to_new_event(event.event_id, self.api.infra.now())?;
        Ok(EventClass::AuditOnly(Box::new(record)))
    }

    async fn classify_command_event(
        &mut self,
        event: &IdentifiedEvent<'_>,
        event_type: EventType,
    ) -> Result<EventClass> {
        let incoming = event.incoming;
        let worker = incoming.worker.clone().ok_or_else(|| {
            let text = "worker_id is required";
            RuntimeError::invalid(text)
        })?;
        let (command_id, row) = self.find_command(incoming, &worker).await?;
        self.ctx.auth.check_token_command(command_id)?;
        let attempt = payload::find_attempt(&incoming.body);
        let reporter = ClassicReporter {
            incoming,
            kind: event_type,
            event_id: event.event_id,
            command_id,
            worker,
            attempt: attempt.or(row.as_ref().map(|row| row.attempt)).unwrap_or(1),
        };
        let Some(row) = row else {
            // The row of the command was deleted, so the command is closed. The log has its result.
            return Ok(classify_late_report(&reporter, StaleReason::Closed, None));
        };
        match reporter.relation_to(&row) {
            ReporterRelation::LeaseHolder => self.report_by_holder(&reporter, row).await,
            ReporterRelation::RepeatsClosing => {
                Ok(EventClass::Answered(reporter.event_answer("ok")))
            }
            // The log distinguishes a repetition from a late result.
            ReporterRelation::Closed => {
                let issued = self.api.load_issued_command(&row).await?;
                Ok(classify_late_report(&reporter, StaleReason::Closed, issued.task()?))
            }
            ReporterRelation::Superseded => Ok(classify_late_report(
                &reporter,
                StaleReason::Superseded(ErrorCode::StaleAttempt),
                None,
            )),
            ReporterRelation::UnknownAttempt => Err(reporter.not_lease_holder()),
            ReporterRelation::OtherHolder => {
                if self.is_registered_for_pool(&reporter.worker, &row).await? {
                    Ok(classify_late_report(
                        &reporter,
                        StaleReason::Superseded(ErrorCode::NotLeaseHolder),
                        None,
                    ))
                } else {
                    Err(reporter.not_lease_holder())
                }
            }
        }
    }

    /// Finds the command that an event is about: the one that it names, or else the latest command
    /// of its step that the worker had.
    async fn find_command(
        &self,
        incoming: &IncomingEvent,
        worker: &WorkerId,
    ) -> Result<(CommandId, Option<Command>)> {
        let not_found = || RuntimeError::not_found("there is no such command");
        let store = self.api.infra.store();
        if let Some(command_id) = payload::find_command_id(&incoming.body) {
            let row = match self.commands.get(&command_id) {
                Some(row) => Some(row.clone()),
                None => store.find_command(command_id).await?,
            };
            let is_foreign = |row: &Command| row.execution_id != incoming.execution_id;
            if row.as_ref().is_some_and(is_foreign) {
                return Err(not_found());
            }
            return Ok((command_id, row));
        }
        let step = incoming.body.step.as_deref().ok_or_else(not_found)?;
        for status in [CommandStatusFilter::Open, CommandStatusFilter::All] {
            let filter = CommandFilter {
                tenant_id: self.ctx.tenant().clone(),
                status,
                execution_id: Some(incoming.execution_id),
                pool: None,
                worker: Some(worker.clone()),
                after: None,
                limit: PageLimit::MAX,
            };
            let page = store.list_commands(filter).await?;
            let rows = page.commands.into_iter().rev();
            let mut rows = rows.map(|row| match self.commands.get(&row.command_id) {
                Some(changed) => changed.clone(),
                None => row,
            });
            let is_match = |row: &Command| {
                let has_status = status == CommandStatusFilter::All || !row.status.is_terminal();
                has_status && row.instance.step_name.as_str() == step
            };
            if let Some(row) = rows.find(is_match) {
                return Ok((row.command_id, Some(row)));
            }
        }
        Err(not_found())
    }

    /// Handles an event from the lease holder.
    async fn report_by_holder(
        &mut self,
        reporter: &ClassicReporter<'_>,
        mut row: Command,
    ) -> Result<EventClass> {
        let report = match reporter.kind {
            EventType::CommandStarted | EventType::CommandHeartbeat => {
                reporter.build_progress_report()
            }
            _ => self.build_result_report(reporter, &row).await?,
        };
        let new_status = match (&report.report.outcome, &report.retry) {
            (ReportOutcome::Completed(_), _) => Some(CommandStatus::Completed),
            (ReportOutcome::Failed { .. }, _) => Some(CommandStatus::Failed),
            (_, Some(_)) => Some(CommandStatus::Pending),
            (ReportOutcome::Running { .. } | ReportOutcome::Suspended { .. }, None) => None,
        };
        if let Some(status) = new_status {
            row.status = status;
            row.lease = None;
        }
        let is_closed = new_status.is_some_and(CommandStatus::is_terminal);
        self.commands.insert(row.command_id, row);
        Ok(EventClass::CommandReport {
            report: Box::new(report),
            fence: Some(reporter.lease_fence()),
            ended: is_closed.then(|| (reporter.worker.clone(), reporter.command_id)),
        })
    }

    /// Builds the report of a result, after the task policy was applied.
    async fn build_result_report(
        &mut self,
        reporter: &ClassicReporter<'_>,
        row: &Command,
    ) -> Result<ClassicReport> {
        let api = self.api;
        let issued = api.load_issued_command(row).await?;
        if self.state.is_none() {
            let folded = api.driver.load_state(row.execution_id).await?;
            self.state = folded.map(|(_, state)| state);
        }
        let state = self.state.as_ref();
        let command = state.and_then(|state| state.command(row.command_id));
        let retried = command.map_or(0, |command| command.retried);
        let body = &reporter.incoming.body;
        let mut reported = payload::reported_result(body, reporter.kind);
        if let Some(uri) = reported.stored_data_uri().map(str::to_owned) {
            match self.load_referenced_result(&uri).await {
                Ok(stored) => reported = reported.with_stored_data(stored),
                // Data that only resembles a reference stays the data of the task.
                Err(error)
                    if body.result_kind == ResultKind::Data
                        && matches!(
                            error.code(),
                            Some(
                                ErrorCode::NotFound
                                    | ErrorCode::BadQuery
                                    | ErrorCode::RetentionDropped
                            )
                        ) => {}
                Err(error) => return Err(error),
            }
        }
        let failure = payload::reported_failure(body, reporter.kind);
        let answer = reported.into_tool_result(issued.task()?, failure);
        let applied = api.apply_task_policy(ReportedAttempt {
            issued: &issued,
            command: row,
            worker: &reporter.worker,
            number: retried.saturating_add(1),
            answer,
            set: payload::written_variables(body),
        });
        Ok(match applied.await? {
            PolicyResult::Closed(outcome) => reporter.build_classic_report(*outcome),
            PolicyResult::Retry(error, delay) => ClassicReport {
                retry: Some((error, delay)),
                event_type: EventType::CallError,
                ..reporter.build_classic_report(ReportOutcome::Running { progress: None })
            },
        })
    }

    /// Loads a referenced result. All results of a call are in memory until it is written in one
    /// append, so the limit of an append applies.
    async fn load_referenced_result(&mut self, uri: &str) -> Result<Json> {
        let stored = self.api.results.find_result(self.ctx, uri).await?;
        self.loaded_result_bytes += stored.bytes.len();
        if self.loaded_result_bytes > MAX_APPEND_RESULT_BYTES {
            let max_size = ByteSize::from_bytes(MAX_APPEND_RESULT_BYTES as u64);
            let text = format!(
                "the results that the events of a call refer to are larger than {max_size} in total; \
                 send fewer events per call"
            );
            return Err(RuntimeError::too_large(text));
        }
        parse_result_value(&stored)
    }

    /// True if the worker is registered for the pool of the command.
    async fn is_registered_for_pool(&self, worker: &WorkerId, row: &Command) -> Result<bool> {
        let workers = self.api.infra.store().list_runtimes(RuntimeKind::WorkerPool).await?;
        let stored_name = stored_worker_name(self.ctx.tenant(), worker);
        let registered = workers.iter().find(|worker| worker.name == stored_name);
        let Some(registered) = registered else {
            return Ok(false);
        };
        let labels = registered.detail.as_ref().and_then(|detail| detail.get("labels"));
        let pool = labels.and_then(|labels| labels.get("pool_name"));
        let pool = pool.and_then(Json::as_str).unwrap_or("shared");
        let command_pool = row.pool.pool_for_tenant(self.ctx.tenant());
        Ok(command_pool.is_some_and(|command_pool| command_pool == *pool))
    }
}

/// Handles an event about a command that its worker no longer holds: only a result is recorded.
fn classify_late_report(
    reporter: &ClassicReporter<'_>,
    reason: StaleReason,
    task: Option<&Task>,
) -> EventClass {
    if !reporter.incoming.is_result() {
        return EventClass::Answered(reporter.event_answer("ignored"));
    }
    EventClass::CommandReport {
        report: Box::new(reporter.build_late_report(reason, task)),
        fence: None,
        ended: None,
    }
}
