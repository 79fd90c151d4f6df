//! Runs one command, from its lease to its report.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeasedCommand, ReportStatus};
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::{
    CallSpec, CommandMachine, CommandSpec, MAX_TASK_RUNS, MachineAction, MachineInput,
    MachineOutcome, NextStage, PayloadRequest, ToolResult,
};
use noetl_playbook::template::TemplateLimits;
use noetl_tools::{ToolCall, ToolKind, ToolOutcome, names_credentials};
use noetl_types::{Digest, Json, Millis, TaskError, TaskErrorKind, Text, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::context::WorkerContext;
use crate::heartbeat::confirm_lease;
use crate::leases::{ActiveLease, GrantTime};
use crate::output::AttemptOutput;
use crate::panics::catch_panic;
use crate::progress::{ProgressReporter, UnacknowledgedRetries};
use crate::report::OutgoingReport;
use crate::secrets::SecretResolver;
use crate::trace;

/// Timeout of a call without a time limit, in a command without a deadline.
const NO_TIMEOUT: Duration = Duration::from_hours(365 * 24);
/// Age of a lease from which the server must confirm it before the first call.
const MAX_UNCONFIRMED_LEASE_AGE: Duration = Duration::from_secs(2);
/// Number of calls after which a command yields to other tasks.
const CALLS_PER_YIELD: u32 = 64;

/// Runs a command and queues its report. Nothing is reported if the lease was cancelled.
pub(crate) async fn run_command(
    context: Arc<WorkerContext>,
    command: LeasedCommand,
    granted: GrantTime,
    permit: OwnedSemaphorePermit,
) {
    let lease = context.leases.add_lease(&command, granted, context.shutdown.child_token());
    let (started_at, started) = (context.now(), Instant::now());
    let in_flight = context.metrics.start_command(&command);
    let secrets = SecretResolver::new(Arc::clone(&context), command.execution_id);
    let output = AttemptOutput::new(&context, &lease, secrets.secret_set.clone());
    let work = CommandRun {
        context: &context,
        lease: &lease,
        command: &command,
        secrets: &secrets,
        output: &output,
    };
    let progress = ProgressReporter::new(&context, &lease, &command, started_at);
    let outcome = tokio::select! {
        biased;
        outcome = catch_panic(work.run(&progress)) => outcome,
        never = progress.progress_loop(&secrets) => match never {},
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(panicked) => {
            tracing::error!(
                execution_id = %command.execution_id,
                command_id = %command.command_id,
                "the worker panicked while running a command: {}",
                secrets.redact_text(panicked)
            );
            let error = TaskError::new(
                TaskErrorKind::Unknown,
                "the worker panicked while running the command",
            );
            Some(failed_outcome(error))
        }
    };
    context.tools.release_command(&attempt_key(&command));
    let Some(outcome) = outcome.filter(|_| !lease.cancel.is_cancelled()) else {
        tracing::info!(
            execution_id = %command.execution_id,
            command_id = %command.command_id,
            attempt = command.attempt,
            "command stopped: its result is no longer needed"
        );
        output.abandon();
        context.leases.release_lease(&lease);
        return;
    };
    if is_timeout(outcome.error.as_ref()) {
        output.require_sending();
    }
    let report =
        build_report(&command, outcome, progress.take_unacknowledged(), started_at, context.now());
    let report = report.redact_secrets(&secrets.secret_set.current_secrets());
    in_flight.finish_command(&report, started.elapsed());
    // The receiver lives as long as there are permits to run commands.
    let _ = context.report_queue.send(OutgoingReport::new(report, output.finish(), lease, permit));
}

struct CommandRun<'w> {
    context: &'w WorkerContext,
    lease: &'w ActiveLease,
    command: &'w LeasedCommand,
    secrets: &'w SecretResolver,
    output: &'w Arc<AttemptOutput>,
}

/// True if a task was stopped, so that its output is in no result.
fn is_timeout(error: Option<&TaskError>) -> bool {
    error.is_some_and(|error| error.kind == TaskErrorKind::Timeout)
}

impl CommandRun<'_> {
    /// Runs the command. Returns `None` if it was cancelled.
    async fn run(&self, progress: &ProgressReporter<'_>) -> Option<MachineOutcome> {
        let prepared = self.lease.cancel.run_until_cancelled(self.prepare_machine()).await?;
        match prepared {
            Ok(machine) => self.drive_machine(machine, progress).await,
            Err(error) => Some(failed_outcome(error)),
        }
    }

    async fn prepare_machine(&self) -> Result<CommandMachine, TaskError> {
        let prepare = async {
            let definitions = &self.context.definitions;
            let playbook = definitions.get_definition(self.command.meta.catalog_id).await?;
            self.secrets.set_playbook(&playbook);
            let spec = self.command_spec(playbook, self.load_context().await?);
            CommandMachine::new(spec)
                .map(|machine| machine.with_secret_set(self.secrets.secret_set.clone()))
                .map_err(|error| TaskError::new(TaskErrorKind::Schema, error.to_string()))
        };
        self.before_deadline(prepare).await.unwrap_or_else(|| Err(deadline_error()))
    }

    /// Loads the context of the command: inline, or from the result store.
    async fn load_context(&self) -> Result<CommandContext, TaskError> {
        let unreadable = || {
            let message = "the context of the command cannot be read";
            TaskError::new(TaskErrorKind::Schema, message)
        };
        let Some(reference) = self.command.context.get("context_ref") else {
            return CommandContext::from_json(Some(&self.command.context)).ok_or_else(unreadable);
        };
        let text = |key: &str| reference.get(key).and_then(Json::as_str);
        let request = PayloadRequest {
            uri: text("ref").ok_or_else(unreadable)?.into(),
            sha256: text("sha256").and_then(|digest| Digest::parse(digest).ok()),
        };
        let content = self.context.definitions.get_payload(request).await?;
        CommandContext::from_json(content.as_map()).ok_or_else(unreadable)
    }

    fn command_spec(
        &self,
        playbook: Arc<noetl_playbook::model::Playbook>,
        context: CommandContext,
    ) -> CommandSpec {
        let (command, settings) = (self.command, &self.context.settings);
        CommandSpec {
            playbook,
            step: Text::from(&command.node_name),
            execution_id: command.execution_id,
            command_id: Some(command.command_id),
            worker_id: Some(settings.worker_id.clone()),
            idempotency_key: command.idempotency_key.clone(),
            context,
            iteration: command.meta.index.zip(command.meta.collection_size),
            frame_max_rows: command.meta.frame_max_rows,
            issued_at: command.meta.issued_at,
            limits: TemplateLimits::default(),
            budget: None,
            max_data: settings.max_result_size,
            max_task_runs: MAX_TASK_RUNS,
        }
    }

    /// Performs the actions of the machine until it is done, cancelled or out of time.
    async fn drive_machine(
        &self,
        mut machine: CommandMachine,
        progress: &ProgressReporter<'_>,
    ) -> Option<MachineOutcome> {
        let cancel = &self.lease.cancel;
        let mut calls = 0_u32;
        loop {
            if cancel.is_cancelled() {
                return None;
            }
            let input =
                MachineInput { now: Some(self.context.now()), random_fraction: fastrand::f64() };
            progress.record_retries(machine.take_retries());
            machine = match machine.next(input) {
                MachineAction::Done(outcome) => return Some(*outcome),
                MachineAction::Call(_, pending) if self.lease.is_overdue() => {
                    return Some(pending.stop_with_error(deadline_error()));
                }
                MachineAction::Call(..) if calls == 0 && !self.is_lease_confirmed().await => {
                    cancel.cancel();
                    return None;
                }
                MachineAction::Call(spec, pending) => {
                    calls = calls.wrapping_add(1);
                    if calls.is_multiple_of(CALLS_PER_YIELD) {
                        tokio::task::yield_now().await;
                    }
                    match self.before_deadline(self.call_tool(*spec)).await {
                        Some(result) => pending.complete_call(result),
                        None => return Some(pending.stop_with_error(deadline_error())),
                    }
                }
                MachineAction::Wait(delay, mut machine) => {
                    progress.record_wait(machine.take_retries(), delay);
                    let wait = self.before_deadline(tokio::time::sleep(delay.into()));
                    match cancel.run_until_cancelled(wait).await? {
                        Some(()) => machine,
                        None => return Some(machine.stop_with_error(deadline_error())),
                    }
                }
                MachineAction::ResolveSecret(spec, pending) => {
                    let resolve = self.before_deadline(self.secrets.resolve_entry(*spec, cancel));
                    match cancel.run_until_cancelled(resolve).await? {
                        Some(secret) => pending.complete_secret(secret),
                        None => return Some(pending.stop_with_error(deadline_error())),
                    }
                }
                MachineAction::Fetch(request, pending) => {
                    let fetch = self.before_deadline(self.context.definitions.get_payload(request));
                    match cancel.run_until_cancelled(fetch).await? {
                        Some(payload) => pending.complete_fetch(payload),
                        None => return Some(pending.stop_with_error(deadline_error())),
                    }
                }
            };
        }
    }

    /// Returns true if the lease is valid before the first call. A worker that was stalled may hold
    /// a lease that is over, so an old one is confirmed by the server.
    async fn is_lease_confirmed(&self) -> bool {
        let limit = MAX_UNCONFIRMED_LEASE_AGE.min(self.context.renew_interval());
        let age = self.lease.granted.age(self.context.now());
        if age <= limit {
            return true;
        }
        let confirmed = confirm_lease(self.context, self.lease);
        let confirmed = self.lease.cancel.run_until_cancelled(confirmed);
        self.before_deadline(confirmed).await.flatten().unwrap_or(false)
    }

    /// Runs a future until the deadline of the command. Dropping a call stops its tool.
    async fn before_deadline<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match self.lease.deadline {
            Some(deadline) => timeout_at(deadline, future).await.ok(),
            None => Some(future.await),
        }
    }

    async fn call_tool(&self, mut spec: CallSpec) -> ToolResult {
        let label = Arc::clone(&spec.label);
        if let Err(error) = self.resolve_call_auth(&mut spec).await {
            return ToolResult::failed(error);
        }
        let call = self.tool_call(spec);
        let started = Instant::now();
        self.output.begin_task(&label);
        let (secret_set, output) = (self.secrets.secret_set.clone(), Arc::clone(self.output));
        let platform = self.context.platform_client.for_command(secret_set, Some(output));
        let platform = Arc::new(platform) as _;
        let call = self.context.tools.call(Some(platform), call, self.lease.cancel.clone());
        let outcome = catch_panic(call).await;
        let outcome = outcome.unwrap_or_else(|panicked| {
            tracing::error!(
                execution_id = %self.lease.execution_id,
                command_id = %self.lease.command_id,
                label = %label,
                "a tool panicked: {}",
                self.secrets.redact_text(panicked)
            );
            ToolOutcome::error(TaskErrorKind::Unknown, "the tool panicked")
        });
        if is_timeout(outcome.error.as_ref()) {
            self.output.require_sending();
        }
        // Long messages are truncated, which could cut a secret in half, so they are redacted
        // first.
        let known_secrets = self.secrets.secret_set.current_secrets();
        ToolResult {
            data: outcome.data,
            error: outcome.error.map(|error| known_secrets.redact_error(error)),
            extras: outcome.extras,
            retry_after: outcome.retry_after,
            duration: Some(Millis::from(started.elapsed())),
        }
    }

    /// Replaces credential names by credentials. A transfer has one for each side, and a `duckdb`
    /// task may have a map of them.
    async fn resolve_call_auth(&self, spec: &mut CallSpec) -> Result<(), TaskError> {
        if let Some(auth) = spec.auth.take() {
            spec.auth = Some(match auth {
                Json::Map(map) if spec.kind == ToolKind::Duckdb && names_credentials(&map) => {
                    let mut credentials = Arc::unwrap_or_clone(map);
                    for credential in credentials.values_mut() {
                        *credential = self.secrets.resolve_auth(credential.clone()).await?;
                    }
                    credentials.into()
                }
                auth => self.secrets.resolve_auth(auth).await?,
            });
        }
        if spec.kind != ToolKind::Transfer {
            return Ok(());
        }
        for side in ["source", "target"] {
            let Some(Json::Map(fields)) = spec.config.get_mut(side) else {
                continue;
            };
            let Some(auth) = fields.get("auth").filter(|auth| !auth.is_null()) else {
                continue;
            };
            let auth = self.secrets.resolve_auth(auth.clone()).await?;
            Arc::make_mut(fields).insert("auth".into(), auth);
        }
        Ok(())
    }

    fn tool_call(&self, spec: CallSpec) -> ToolCall {
        let mut config = spec.config;
        for (key, value) in [("auth", spec.auth), ("libs", spec.libs)] {
            if let Some(value) = value {
                config.insert(key.into(), value);
            }
        }
        trace::add_traceparent(self.command, spec.kind, &mut config);
        let (context, variables) = match spec.code_context {
            Some(code_context) => {
                (Json::from(code_context.context), Json::from(code_context.variables))
            }
            None => (Json::empty_map(), Json::empty_map()),
        };
        ToolCall {
            kind: spec.kind,
            config,
            input: spec.input,
            execution_id: self.lease.execution_id.to_string(),
            command: attempt_key(self.command),
            step: self.command.node_name.to_string(),
            label: spec.label.to_string(),
            idempotency_key: spec.idempotency_key.to_string(),
            attempt: spec.attempt,
            timeout: spec.timeout.map_or(NO_TIMEOUT, Duration::from),
            context,
            variables,
        }
    }
}

/// The identifier of a command for the tools. Each attempt has its own.
fn attempt_key(command: &LeasedCommand) -> String {
    format!("{}:{}", command.command_id, command.attempt)
}

fn deadline_error() -> TaskError {
    TaskError::new(TaskErrorKind::Timeout, "the command exceeded its deadline")
}

/// The outcome of a command that failed before its first task.
fn failed_outcome(error: TaskError) -> MachineOutcome {
    MachineOutcome {
        error: Some(error),
        retries: Vec::new(),
        data: Json::Null,
        labels: None,
        set: noetl_types::JsonMap::new(),
        attempt: 1,
        tasks: Vec::new(),
        frame: None,
        next_stage: NextStage::End,
    }
}

fn build_report(
    command: &LeasedCommand,
    outcome: MachineOutcome,
    unacknowledged: UnacknowledgedRetries,
    started_at: Timestamp,
    finished_at: Timestamp,
) -> CommandReport {
    let (status, continuation) = match (&outcome.error, outcome.next_stage) {
        (Some(_), _) => (ReportStatus::Failed, None),
        (None, NextStage::End) => (ReportStatus::Completed, None),
        (None, NextStage::Segment(next)) => (ReportStatus::Completed, Some(next.to_json())),
        (None, NextStage::Callback) => (ReportStatus::Suspended, None),
    };
    let has_data = status != ReportStatus::Failed || !outcome.data.is_null();
    let (retries, retries_before) = unacknowledged.into_final_retries(outcome.retries);
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status,
        result: has_data.then_some(outcome.data),
        labels: outcome.labels,
        onward: continuation.map(Json::from),
        set: outcome.set,
        error: outcome.error,
        tasks: outcome.tasks,
        frame: outcome.frame,
        task_attempt: outcome.attempt,
        retries,
        retries_before,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(started_at),
        finished_at: Some(finished_at),
    }
}
