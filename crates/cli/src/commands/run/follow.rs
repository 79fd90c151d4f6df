//! Starts a local run and follows it until it ends.

use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::execution::ExecutionStatusView;
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{ExecutionId, ExecutionStatus, Millis};
use tokio::time::{Instant, sleep_until};

use super::RunRequest;
use super::local_process::{RunTarget, find_run_target};
use crate::commands::exec::NO_TIMEOUT;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::progress::{ProgressDisplay, frame_interval};
use crate::render::palette;
use crate::render::result::print_result;
use crate::render::text_layout::escape_control;
use crate::roles::{ExecutionWatch, StopSignals, StoreLocation, Target};

/// Reason why this command cancelled the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelReason {
    Interrupt,
    Timeout,
}

/// Result of following a run.
enum FollowOutcome {
    /// The run ended, possibly because this command cancelled it.
    Ended(Option<CancelReason>),
    /// The user interrupted again instead of waiting for the end.
    Abandoned,
}

/// Starts a run, follows it and prints its result.
pub(super) async fn run_to_end(
    request: &RunRequest<'_>,
    location: &StoreLocation,
    config: &Config,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let mut signals = StopSignals::new()?;
    let Some(mut run_target) = find_run_target(request, location, config, io, &mut signals).await?
    else {
        return Ok(CommandExit::Interrupted);
    };
    let exit = start_and_follow(request, location, &mut run_target, io, &mut signals).await;
    if !signals.is_repeated() {
        // Tools get a moment to stop. A further interrupt skips this.
        tokio::select! {
            stopped = run_target.shut_down() => stopped?,
            _ = signals.next_signal() => {}
        }
    }
    exit
}

async fn start_and_follow(
    request: &RunRequest<'_>,
    location: &StoreLocation,
    run_target: &mut RunTarget,
    io: &mut Io<'_>,
    signals: &mut StopSignals,
) -> Result<CommandExit> {
    let target = run_target.target.clone();
    let started = start_run(request, run_target).await?;
    let ExecuteResponse { execution_id: id, version, .. } = started;
    let server = match &target {
        Target::Local(_) | Target::File(_) => String::new(),
        Target::Remote(client) => format!(" · at {}", client.base_url()),
    };
    let path = escape_control(started.path.as_str());
    io.print_note(format_args!("{path} · version {version} · run {id}{server}"))?;
    let mut display = ProgressDisplay::new(request.style, Some(request.source));
    let run = LocalRun { target: &target, execution_id: id, timeout: request.timeout };
    let outcome = run.follow_events(&mut display, run_target, io, signals).await;
    display.clear_live_lines(io)?;
    let cancelled = match outcome? {
        FollowOutcome::Ended(cancelled) => cancelled,
        FollowOutcome::Abandoned => return Ok(CommandExit::Interrupted),
    };
    let status = target.fetch_status(id).await?;
    let ended_run = EndedRun { location, target: &target, status: &status };
    if status.status == ExecutionStatus::Failed && !display.has_printed_failure() {
        ended_run.print_error(io)?;
    }
    if !io.quiet {
        ended_run.print_status(io)?;
    }
    if let (ExecutionStatus::Completed, Some(result)) = (status.status, &status.result) {
        print_result(result, request.format, io)?;
    }
    Ok(exit_code(status.status, cancelled))
}

async fn start_run(options: &RunRequest<'_>, run_target: &RunTarget) -> Result<ExecuteResponse> {
    let target = &run_target.target;
    for sub_playbook in options.sub_playbooks {
        target.register_playbook(&sub_playbook.text).await?;
    }
    let registered = target.register_playbook(&options.source.text).await?;
    let request = ExecuteRequest {
        catalog_id: registered.catalog_id,
        path: Some(registered.path),
        payload: Some(options.payload.clone()),
        // A process that serves the database can end before it answers. The request is then repeated.
        dedup: run_target.dedup_key(),
        execution_pool: run_target.pool().cloned(),
        ..ExecuteRequest::default()
    };
    let started = target.start_execution(request.clone()).await;
    match started {
        Err(Error::Api(ApiError::Unreachable(_))) if request.dedup.is_some() => {
            target.start_execution(request).await
        }
        started => started,
    }
}

fn exit_code(status: ExecutionStatus, cancelled: Option<CancelReason>) -> CommandExit {
    match (status, cancelled) {
        (ExecutionStatus::Completed, _) => CommandExit::Ok,
        (ExecutionStatus::Cancelled, Some(CancelReason::Interrupt)) => CommandExit::Interrupted,
        (ExecutionStatus::Cancelled, Some(CancelReason::Timeout)) => CommandExit::Timeout,
        (
            ExecutionStatus::Cancelled
            | ExecutionStatus::Failed
            | ExecutionStatus::Pending
            | ExecutionStatus::Running
            | ExecutionStatus::Paused,
            _,
        ) => CommandExit::Failed,
    }
}

/// A started run.
struct LocalRun<'t> {
    target: &'t Target,
    execution_id: ExecutionId,
    timeout: Option<Millis>,
}

impl LocalRun<'_> {
    async fn follow_events(
        &self,
        display: &mut ProgressDisplay<'_>,
        run_target: &mut RunTarget,
        io: &mut Io<'_>,
        signals: &mut StopSignals,
    ) -> Result<FollowOutcome> {
        let limit = self.timeout.map_or(NO_TIMEOUT, Duration::from);
        let deadline = Instant::now() + limit;
        let mut frames = frame_interval();
        let mut cancelled = None;
        let mut watch = ExecutionWatch::new(self.target, self.execution_id, None);
        loop {
            tokio::select! {
                events = watch.next_batch() => {
                    let Some(events) = events? else {
                        return Ok(FollowOutcome::Ended(cancelled));
                    };
                    display.print_events(&events, io)?;
                    if display.final_status().is_some() {
                        return Ok(FollowOutcome::Ended(cancelled));
                    }
                }
                _ = frames.tick() => display.redraw(SystemClock.now(), io)?,
                worker_result = run_target.worker_ended() => {
                    worker_result?;
                    display.clear_live_lines(io)?;
                    self.cancel_without_worker(io).await?;
                }
                _ = signals.next_signal() => {
                    if cancelled == Some(CancelReason::Interrupt) {
                        return Ok(FollowOutcome::Abandoned);
                    }
                    cancelled = Some(CancelReason::Interrupt);
                    display.clear_live_lines(io)?;
                    io.print_message("cancelling the run; press Ctrl-C again to quit at once")?;
                    if !self.cancel_run("interrupted by the user", signals).await? {
                        return Ok(FollowOutcome::Abandoned);
                    }
                }
                () = sleep_until(deadline), if cancelled.is_none() => {
                    cancelled = Some(CancelReason::Timeout);
                    display.clear_live_lines(io)?;
                    let elapsed = Millis::from(limit).to_human();
                    io.print_message(format_args!("cancelling the run because it is not finished after {elapsed}"))?;
                    if !self.cancel_run("it took longer than --timeout", signals).await? {
                        return Ok(FollowOutcome::Abandoned);
                    }
                }
            }
        }
    }

    /// Cancels the run unless it has ended, because no other worker can run its commands.
    async fn cancel_without_worker(&self, io: &mut Io<'_>) -> Result<()> {
        if self.target.fetch_status(self.execution_id).await?.status.is_terminal() {
            return Ok(());
        }
        io.print_message("cancelling the run because its worker was drained")?;
        self.target.cancel_execution(self.execution_id, "its worker was drained", true).await
    }

    /// Cancels the run. Returns false if the user interrupts the cancellation.
    async fn cancel_run(&self, reason: &str, signals: &mut StopSignals) -> Result<bool> {
        tokio::select! {
            result = self.target.cancel_execution(self.execution_id, reason, false) => {
                result?;
                Ok(true)
            }
            _ = signals.next_signal() => Ok(false),
        }
    }
}

/// A run that ended, and its location.
struct EndedRun<'e> {
    location: &'e StoreLocation,
    target: &'e Target,
    status: &'e ExecutionStatusView,
}

impl EndedRun<'_> {
    /// Prints the error of the run if no step failed.
    fn print_error(&self, io: &mut Io<'_>) -> Result<()> {
        let label = io.err.paint().text(palette::FAILURE, "error");
        let error = escape_control(self.status.error.as_deref().unwrap_or("no reason given"));
        Ok(io.print_message(format_args!("{label}: {error}"))?)
    }

    /// Prints the status of the run and the location of its log.
    fn print_status(&self, io: &mut Io<'_>) -> Result<()> {
        let paint = io.err.paint();
        let status = self.status;
        let (sign, style, verb) = match status.status {
            ExecutionStatus::Completed => ("✓", palette::SUCCESS, "completed in"),
            ExecutionStatus::Failed => ("✗", palette::FAILURE, "failed after"),
            ExecutionStatus::Cancelled => ("–", palette::CAUTION, "cancelled after"),
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
                ("▸", palette::MUTED, "still running after")
            }
        };
        let end = status.end_time.unwrap_or(status.start_time);
        let took = end.duration_since(status.start_time).to_human();
        let (sign, id) = (paint.text(style, sign), status.execution_id);
        io.print_message(format_args!("{sign} {verb} {took} · run {id}"))?;
        Ok(io.print_tip(self.log_hint())?)
    }

    /// Location of the log and the command that shows it.
    fn log_hint(&self) -> String {
        let show_command = format!("noetl runs show {}", self.status.execution_id);
        let name = self.location.display_name();
        match (self.target, self.location) {
            (Target::Remote(client), _) => {
                format!("  log: {name} · {show_command} --server {}", client.base_url())
            }
            (Target::Local(_) | Target::File(_), StoreLocation::Memory) => {
                "  log: not stored".to_owned()
            }
            (Target::Local(_) | Target::File(_), StoreLocation::File { is_default: true, .. }) => {
                format!("  log: {name} · {show_command}")
            }
            (Target::Local(_) | Target::File(_), StoreLocation::File { .. }) => {
                format!("  log: {name} · {show_command} --store sqlite:{name}")
            }
            (Target::Local(_) | Target::File(_), StoreLocation::Database(_)) => {
                format!("  log: {name} · noetl server, then {show_command}")
            }
        }
    }
}
