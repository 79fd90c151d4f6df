//! The work of one command, from its lease to its report.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{
    CommandReport, FrameReport, LeasedCommand, ReportStatus, RowError, TaskReport, TaskStatus,
};
use noetl_playbook::carried::Carried;
use noetl_playbook::shift::{
    self, Ahead, Answer, CallSpec, Do, Finished, Job, MAX_TASK_RUNS, Moment, Shift, Wanted,
};
use noetl_playbook::template::TemplateLimits;
use noetl_tools::{Call, Outcome, ToolKind};
use noetl_types::{Digest, Json, Millis, TaskError, TaskErrorKind, Text, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::held::Held;
use crate::panics::caught;
use crate::progress::{Progress, Untold};
use crate::report::Outgoing;
use crate::secrets::Locker;
use crate::shop::Shop;
use crate::trace;

/// Time for a call that may wait for ever, in a command without a deadline.
const FOR_EVER: Duration = Duration::from_hours(365 * 24);
/// Calls after which a command lets others have their turn.
const TURN: u32 = 64;

/// Does the work of a command and hands over what is to be reported; nothing where nobody wants it.
pub(crate) async fn work(shop: Arc<Shop>, command: LeasedCommand, slot: OwnedSemaphorePermit) {
    let held = shop.holdings.hold(&command, shop.ending.child_token());
    let (started_at, began) = (shop.now(), Instant::now());
    let in_flight = shop.metrics.begins(&command);
    let locker = Locker::new(Arc::clone(&shop), command.execution_id);
    let work = Work {
        shop: &shop,
        held: &held,
        command: &command,
        locker: &locker,
    };
    let progress = Progress::new(&shop, &held, &command, started_at);
    let finished = tokio::select! {
        biased;
        finished = caught(work.run(&progress)) => finished,
        never = progress.tell(&locker) => match never {},
    };
    let finished = match finished {
        Ok(finished) => finished,
        Err(panicked) => {
            tracing::error!(
                execution_id = %command.execution_id,
                command_id = %command.command_id,
                "the worker failed over a command: {}",
                locker.shown(panicked.0)
            );
            let error = TaskError::new(TaskErrorKind::Unknown, "the worker failed over it");
            Some(failed(error))
        }
    };
    shop.tools.forget(&name(&command));
    let Some(finished) = finished.filter(|_| !held.cancel.is_cancelled()) else {
        tracing::info!(
            execution_id = %command.execution_id,
            command_id = %command.command_id,
            attempt = command.attempt,
            "stopped: nobody wants the result any more"
        );
        shop.holdings.release(&held);
        return;
    };
    let report = report(
        &command,
        finished,
        progress.left(),
        (started_at, shop.now()),
    );
    let report = report.hiding(&locker.hidden.known());
    in_flight.ends(&report, began.elapsed());
    // The receiver lives as long as there are slots to run commands in.
    let _ = shop.outbox.send(Outgoing::new(report, held, slot));
}

struct Work<'w> {
    shop: &'w Shop,
    held: &'w Held,
    command: &'w LeasedCommand,
    locker: &'w Locker,
}

impl Work<'_> {
    /// What came of it; nothing where it was cancelled.
    async fn run(&self, progress: &Progress<'_>) -> Option<Finished> {
        let prepared = self.held.cancel.run_until_cancelled(self.prepare()).await?;
        match prepared {
            Ok(shift) => self.drive(shift, progress).await,
            Err(error) => Some(failed(error)),
        }
    }

    async fn prepare(&self) -> Result<Shift, TaskError> {
        let prepare = async {
            let library = &self.shop.library;
            let playbook = library.definition(self.command.meta.catalog_id).await?;
            self.locker.opens_for(&playbook);
            let job = self.job(playbook, self.carried().await?);
            Shift::new(job)
                .map(|shift| shift.hiding(self.locker.hidden.clone()))
                .map_err(|error| TaskError::new(TaskErrorKind::Schema, error.to_string()))
        };
        self.in_time(prepare)
            .await
            .unwrap_or_else(|| Err(overdue()))
    }

    /// What the templates of the command read: in it, or kept for it.
    async fn carried(&self) -> Result<Carried, TaskError> {
        let unreadable = || {
            let message = "the context of the command cannot be read";
            TaskError::new(TaskErrorKind::Schema, message)
        };
        let Some(reference) = self.command.context.get("context_ref") else {
            return Carried::from_json(Some(&self.command.context)).ok_or_else(unreadable);
        };
        let text = |key: &str| reference.get(key).and_then(Json::as_str);
        let wanted = Wanted {
            uri: text("ref").ok_or_else(unreadable)?.into(),
            sha256: text("sha256").and_then(|digest| Digest::parse(digest).ok()),
        };
        let content = self.shop.library.payload(wanted).await?;
        Carried::from_json(content.as_map()).ok_or_else(unreadable)
    }

    fn job(&self, playbook: Arc<noetl_playbook::model::Playbook>, carried: Carried) -> Job {
        let (command, settings) = (self.command, &self.shop.settings);
        Job {
            playbook,
            step: Text::from(&command.node_name),
            execution_id: command.execution_id,
            command_id: Some(command.command_id),
            worker_id: Some(settings.worker_id.clone()),
            idempotency_key: command.idempotency_key.clone(),
            carried,
            iteration: command.meta.index.zip(command.meta.collection_size),
            frame: command.meta.frame_max_rows,
            issued_at: command.meta.issued_at,
            limits: TemplateLimits::default(),
            max_data: settings.result_max,
            max_task_runs: MAX_TASK_RUNS,
        }
    }

    /// Does what the shift says until it is done, cancelled or out of time.
    async fn drive(&self, mut shift: Shift, progress: &Progress<'_>) -> Option<Finished> {
        let cancel = &self.held.cancel;
        let mut calls = 0_u32;
        loop {
            if cancel.is_cancelled() {
                return None;
            }
            let moment = Moment {
                now: Some(self.shop.now()),
                dice: self.shop.chance.dice(),
            };
            progress.note(shift.take_retries());
            shift = match shift.next(moment) {
                Do::Done(finished) => return Some(*finished),
                Do::Call(_, calling) if self.held.is_overdue() => {
                    return Some(calling.stop(overdue()));
                }
                Do::Call(spec, calling) => {
                    calls = calls.wrapping_add(1);
                    if calls.is_multiple_of(TURN) {
                        tokio::task::yield_now().await;
                    }
                    match self.in_time(self.call(*spec)).await {
                        Some(answer) => calling.called(answer),
                        None => return Some(calling.stop(overdue())),
                    }
                }
                Do::Wait(delay, mut shift) => {
                    progress.waits(shift.take_retries(), delay);
                    let wait = self.in_time(tokio::time::sleep(delay.into()));
                    match cancel.run_until_cancelled(wait).await? {
                        Some(()) => shift,
                        None => return Some(shift.stop(overdue())),
                    }
                }
                Do::Unlock(spec, unlocking) => {
                    let unlock = self.in_time(self.locker.entry(*spec, cancel));
                    match cancel.run_until_cancelled(unlock).await? {
                        Some(secret) => unlocking.unlocked(secret),
                        None => return Some(unlocking.stop(overdue())),
                    }
                }
                Do::Fetch(wanted, fetching) => {
                    let fetch = self.in_time(self.shop.library.payload(wanted));
                    match cancel.run_until_cancelled(fetch).await? {
                        Some(payload) => fetching.fetched(payload),
                        None => return Some(fetching.stop(overdue())),
                    }
                }
            };
        }
    }

    /// What a future gives before the deadline of the command; a dropped call stops its tool.
    async fn in_time<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match self.held.deadline {
            Some(deadline) => timeout_at(deadline, future).await.ok(),
            None => Some(future.await),
        }
    }

    async fn call(&self, mut spec: CallSpec) -> Answer {
        let label = Arc::clone(&spec.label);
        if let Err(error) = self.unlock(&mut spec).await {
            return Answer::failed(error);
        }
        let call = self.tool_call(spec);
        let began = Instant::now();
        let platform = self.shop.errands.hiding(self.locker.hidden.clone());
        let platform = Arc::new(platform) as _;
        let calling = self
            .shop
            .tools
            .call(Some(platform), call, self.held.cancel.clone());
        let outcome = caught(calling).await;
        let outcome = outcome.unwrap_or_else(|panicked| {
            tracing::error!(
                execution_id = %self.held.execution_id,
                command_id = %self.held.command_id,
                label = %label,
                "a tool panicked: {}",
                self.locker.shown(panicked.0)
            );
            Outcome::error(
                TaskErrorKind::Unknown,
                "the tool failed in a way of its own",
            )
        });
        // Of a long message only the beginning is kept, which may end in the middle of a secret.
        let secrets = self.locker.hidden.known();
        Answer {
            data: outcome.data,
            error: outcome.error.map(|error| secrets.hide_error(error)),
            extras: outcome.extras,
            retry_after: outcome.retry_after,
            duration: Some(Millis::from(began.elapsed())),
        }
    }

    /// Puts credentials where a call names them: a transfer has one for each side.
    async fn unlock(&self, spec: &mut CallSpec) -> Result<(), TaskError> {
        if let Some(auth) = spec.auth.take() {
            spec.auth = Some(self.locker.auth(auth).await?);
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
            let auth = self.locker.auth(auth.clone()).await?;
            Arc::make_mut(fields).insert("auth".into(), auth);
        }
        Ok(())
    }

    fn tool_call(&self, spec: CallSpec) -> Call {
        let mut config = spec.config;
        for (key, value) in [("auth", spec.auth), ("libs", spec.libs)] {
            if let Some(value) = value {
                config.insert(key.into(), value);
            }
        }
        trace::tell(self.command, spec.kind, &mut config);
        let (context, variables) = match spec.surroundings {
            Some(around) => (Json::from(around.context), Json::from(around.variables)),
            None => (Json::empty_map(), Json::empty_map()),
        };
        Call {
            kind: spec.kind,
            config,
            input: spec.input,
            execution_id: self.held.execution_id.to_string(),
            command: name(self.command),
            step: self.command.node_name.to_string(),
            label: spec.label.to_string(),
            idempotency_key: spec.idempotency_key.to_string(),
            attempt: spec.attempt,
            timeout: spec.timeout.map_or(FOR_EVER, Duration::from),
            context,
            variables,
        }
    }
}

/// What the tools know a command by: two attempts have nothing in common.
fn name(command: &LeasedCommand) -> String {
    format!("{}:{}", command.command_id, command.attempt)
}

fn overdue() -> TaskError {
    TaskError::new(TaskErrorKind::Timeout, "the time of the command is up")
}

/// A command that failed before its first task.
fn failed(error: TaskError) -> Finished {
    Finished {
        error: Some(error),
        retries: Vec::new(),
        data: Json::Null,
        labels: None,
        set: noetl_types::JsonMap::new(),
        attempt: 1,
        tasks: Vec::new(),
        frame: None,
        ahead: Ahead::Nothing,
    }
}

fn frame_report(frame: shift::FrameReport) -> FrameReport {
    let errors = frame.errors.into_iter().map(|failed| RowError {
        row: failed.row,
        error: failed.error,
    });
    FrameReport {
        rows: frame.rows,
        done: frame.done,
        failed: frame.failed,
        bytes: frame.bytes,
        errors: errors.collect(),
    }
}

fn report(
    command: &LeasedCommand,
    finished: Finished,
    left: Untold,
    (started_at, finished_at): (Timestamp, Timestamp),
) -> CommandReport {
    let (status, onward) = match (&finished.error, finished.ahead) {
        (Some(_), _) => (ReportStatus::Failed, None),
        (None, Ahead::Nothing) => (ReportStatus::Completed, None),
        (None, Ahead::Segment(onward)) => (ReportStatus::Completed, Some(onward.to_json())),
        (None, Ahead::Callback) => (ReportStatus::Parked, None),
    };
    let has_data = status != ReportStatus::Failed || !finished.data.is_null();
    let tasks = finished.tasks.into_iter().map(|task| TaskReport {
        label: task.label,
        status: match task.status {
            shift::TaskStatus::Ok => TaskStatus::Ok,
            shift::TaskStatus::Error => TaskStatus::Error,
        },
        attempts: task.attempts,
        duration_ms: task.duration.map(Millis::as_ms),
        stdout: task.stdout,
        stderr: task.stderr,
    });
    let (retries, retries_before) = left.with(finished.retries);
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status,
        result: has_data.then_some(finished.data),
        labels: finished.labels,
        onward: onward.map(Json::from),
        set: finished.set,
        error: finished.error,
        tasks: tasks.collect(),
        frame: finished.frame.map(frame_report),
        task_attempt: finished.attempt,
        retries,
        retries_before,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(started_at),
        finished_at: Some(finished_at),
    }
}
