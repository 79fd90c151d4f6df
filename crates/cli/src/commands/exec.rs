//! `noetl exec`: runs a registered playbook on a server.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use noetl_api::execute::{DedupKey, ExecuteRequest, ExecuteResponse};
use noetl_api::explain::{ExplainQuery, WaitConditionKind};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{ExecutionId, ExecutionStatus, Json, JsonMap, Millis, PoolName, Scope, ScopeSet};
use tokio::time::{Instant, sleep_until};

use crate::commands::catalog::{definition_not_found, parse_path_and_version};
use crate::commands::runs::{exit_for_status, fetch_playbook_source};
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::payload::read_payload;
use crate::progress::{ProgressDisplay, ProgressStyle, frame_interval};
use crate::render::text_layout::escape_control;
use crate::render::{palette, result};
use crate::roles::{ExecutionWatch, StopSignals, Target};

/// Run a registered playbook on a server
///
/// Prints the id of the run. With --wait, shows progress on standard error until the run ends,
/// prints its result, and exits with 0 if it completed and 1 otherwise. Ctrl-C stops waiting, not
/// the run. Without a server, runs it in this process like 'noetl run'.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl exec etl/daily                            start it
  noetl exec etl/daily@3 --wait --timeout 10m     run version 3 and wait
  noetl exec etl/daily --set day=2026-01-31 --label team=data")]
pub(crate) struct ExecArgs {
    /// Path of the playbook, optionally with a version: PATH@3
    path: String,
    /// Set a workload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with workload values as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    /// Label the run, NAME=VALUE (repeatable)
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,
    /// Worker pool that runs it
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Priority in the queue, -100 to 100
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(i16).range(-100..=100))]
    priority: Option<i16>,
    /// Deduplication key: no second run starts with the same key for a while
    #[arg(long, value_name = "KEY")]
    dedup: Option<String>,
    #[command(flatten)]
    wait_args: WaitArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Options for waiting until a run ends.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Wait until the run ends and print its result
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Wait at most this long, such as 30s or 5m (the run continues)
    #[arg(long, value_name = "DURATION", value_parser = Millis::parse, requires = "wait")]
    timeout: Option<Millis>,
}

/// Wait limit if no timeout is given. Longer than any run.
pub(crate) const NO_TIMEOUT: Duration = Duration::from_hours(10 * 365 * 24);

pub(crate) fn run(args: &ExecArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let mut request = build_execute_request(args, io)?;
    let mut server = args.client.connect_to_server(io)?;
    if let Some(pool) = server.start_local_worker(io)? {
        request.execution_pool = Some(pool);
    }
    let target = &server.target;
    server.block_on(async {
        args.wait_args.check_rights(target).await?;
        match target.require_server()?.execute_playbook(&request).await {
            Ok(started) => args.wait_args.finish(&started, args.client.output, target, io).await,
            Err(error) => Err(definition_not_found(&args.path, error.into(), target).await),
        }
    })
}

fn build_execute_request(args: &ExecArgs, io: &mut Io<'_>) -> Result<ExecuteRequest> {
    let (path, version) = parse_path_and_version(&args.path)?;
    let payload = read_payload(args.payload.as_deref(), &args.sets, io)?;
    let mut labels = JsonMap::new();
    for label in &args.labels {
        let (name, value) = label.split_once('=').unwrap_or((label, "true"));
        labels.insert(name.into(), Json::from(value));
    }
    let pool = args.pool.as_deref().map(PoolName::new);
    let dedup = args.dedup.as_deref();
    let dedup = dedup.map(|key| DedupKey { key: key.into(), window_secs: None });
    Ok(ExecuteRequest {
        path: Some(path),
        version,
        payload: Some(Json::from(payload)),
        labels: (!labels.is_empty()).then(|| Json::from(labels)),
        execution_pool: pool
            .transpose()
            .map_err(|error| Error::invalid_argument("--pool", error))?,
        priority: args.priority,
        dedup,
        ..ExecuteRequest::default()
    })
}

/// Time without events after which the reason is shown.
const SILENCE_BEFORE_EXPLANATION: Duration = Duration::from_secs(3);

impl WaitArgs {
    /// Checks that the caller may follow the run, before it is started.
    pub(crate) async fn check_rights(self, target: &Target) -> Result<()> {
        if self.wait
            && let Target::Remote(client) = target
            && let Ok(caller) = client.whoami().await
        {
            let scopes = caller.scopes.iter().filter_map(|scope| Scope::parse(scope).ok());
            let scopes: ScopeSet = scopes.collect();
            if !scopes.allows(Scope::ExecRead) {
                return Err(Error::forbidden(
                    "--wait requires the scope exec:read, which this token does not have; nothing \
                     was started",
                )
                .with_help("omit --wait, or use a token with the scopes exec:run and exec:read"));
            }
        }
        Ok(())
    }

    /// Prints the id of a started run or, with `--wait`, follows it until it ends and prints its
    /// result.
    pub(crate) async fn finish(
        self,
        started: &ExecuteResponse,
        output: OutputArgs,
        target: &Target,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        // Without a server, the run ends with this process.
        if self.wait || matches!(target, Target::File(_)) {
            return self.follow_execution(started, output, target, io).await;
        }
        if !output.is_table() {
            return output.print_item(started, io);
        }
        let ExecuteResponse { execution_id: id, version, .. } = started;
        writeln!(io.out, "{id}")?;
        let verb = if started.status == *"duplicate" { "is already running" } else { "started" };
        let path = escape_control(started.path.as_str());
        io.print_tip(format_args!(
            "{path}@{version} {verb} · follow it with: noetl runs tail {id}"
        ))?;
        Ok(CommandExit::Ok)
    }

    async fn follow_execution(
        self,
        started: &ExecuteResponse,
        output: OutputArgs,
        target: &Target,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        let id = started.execution_id;
        let (path, version) = (escape_control(started.path.as_str()), started.version);
        io.print_note(format_args!("{path} · version {version} · run {id}"))?;
        // Source excerpts need the scope catalog:read, and are not essential.
        let source = fetch_playbook_source(id, target).await.unwrap_or_default();
        let mut display = ProgressDisplay::new(ProgressStyle::for_output(io), source.as_ref());
        let watched = watch_execution(id, self.timeout, &mut display, target, io).await;
        display.clear_live_lines(io)?;
        if let Some(exit) = watched? {
            return Ok(exit);
        }
        let status = target.fetch_status(id).await?;
        let end = status.end_time.unwrap_or_else(|| SystemClock.now());
        let took = end.duration_since(status.start_time).to_human();
        let name = status.status.as_str().to_lowercase();
        io.print_note(format_args!("{name} in {took} · run {id}"))?;
        if let (ExecutionStatus::Failed, false, Some(error)) =
            (status.status, display.has_printed_failure(), &status.error)
        {
            let label = io.err.paint().text(palette::FAILURE, "error");
            io.print_message(format_args!("{label}: {}", escape_control(error)))?;
        }
        if let (ExecutionStatus::Completed, Some(data)) = (status.status, &status.result) {
            if output.is_table() {
                result::print_result(data, None, io)?;
            } else {
                output.print_item(data, io)?;
            }
        }
        Ok(exit_for_status(status.status))
    }
}

/// Reason why a run makes no progress, if it needs help from outside.
async fn explain_wait(id: ExecutionId, target: &Target) -> Option<String> {
    let explanation = target.explain_execution(id, ExplainQuery::default()).await.ok()?;
    let needs_help = explanation.waiting_on.first().is_some_and(|wait| match wait.kind {
        WaitConditionKind::Paused
        | WaitConditionKind::Pool
        | WaitConditionKind::Approval
        | WaitConditionKind::Signal
        | WaitConditionKind::Limit => true,
        WaitConditionKind::Retry
        | WaitConditionKind::Child
        | WaitConditionKind::Timer
        | WaitConditionKind::Lease
        | WaitConditionKind::Command
        | WaitConditionKind::Join => false,
    });
    needs_help.then(|| explanation.summary.to_string())
}

/// Shows progress until the run ends. Returns an exit code if watching ends first, because of a
/// signal or the timeout.
async fn watch_execution(
    id: ExecutionId,
    timeout: Option<Millis>,
    display: &mut ProgressDisplay<'_>,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<Option<CommandExit>> {
    let mut signals = StopSignals::new()?;
    let limit = timeout.map_or(NO_TIMEOUT, Duration::from);
    let deadline = Instant::now() + limit;
    let mut frames = frame_interval();
    let mut watch = ExecutionWatch::new(target, id, None);
    let mut explain_at = Instant::now() + SILENCE_BEFORE_EXPLANATION;
    let mut last_explanation = None;
    let (exit, message) = loop {
        tokio::select! {
            events = watch.next_batch() => {
                let Some(events) = events? else {
                    return Ok(None);
                };
                display.print_events(&events, io)?;
                if display.final_status().is_some() {
                    return Ok(None);
                }
                explain_at = Instant::now() + SILENCE_BEFORE_EXPLANATION;
            }
            () = sleep_until(explain_at) => {
                explain_at = Instant::now() + SILENCE_BEFORE_EXPLANATION;
                let explanation = explain_wait(id, target).await;
                if explanation.is_some() && explanation != last_explanation {
                    display.clear_live_lines(io)?;
                    let reason = explanation.as_deref().unwrap_or_default();
                    io.print_note(format_args!("waiting: {}", escape_control(reason)))?;
                    last_explanation = explanation;
                }
            }
            _ = frames.tick() => display.redraw(SystemClock.now(), io)?,
            _ = signals.next_signal() => break (CommandExit::Interrupted, "stopped watching".to_owned()),
            () = sleep_until(deadline) => {
                let elapsed = Millis::from(limit).to_human();
                break (CommandExit::Timeout, format!("not finished after {elapsed}"));
            }
        }
    };
    display.clear_live_lines(io)?;
    if matches!(target, Target::File(_)) {
        io.print_message(format_args!("{message}; cancelling the run"))?;
        // No worker is left for a final step.
        target.cancel_execution(id, &message, true).await?;
        return Ok(Some(exit));
    }
    io.print_message(format_args!(
        "{message}; the run continues, follow it with: noetl runs tail {id}"
    ))?;
    Ok(Some(exit))
}
