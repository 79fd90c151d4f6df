//! `noetl exec`: runs a registered playbook on a server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse, VersionSelector};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{ExecutionId, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::commands::catalog::definition_not_found;
use crate::commands::runs::{exit_for_status, fetch_playbook_source};
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::payload;
use crate::progress::{ProgressDisplay, ProgressStyle};
use crate::render::text_layout::escape_control;
use crate::render::{palette, result};
use crate::roles::{ExecutionWatch, StopSignals, Target};
use crate::source::DocumentOrigin;
use crate::target::{Access, TargetConnection};

/// Run a registered playbook on a server
///
/// Prints the id of the run. With --wait, shows progress on standard error until the run ends,
/// prints its result, and exits with 0 if it completed and 1 otherwise. Ctrl-C stops waiting, not
/// the run.
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
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
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

/// Options for following a run and printing its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FollowOptions {
    timeout: Option<Millis>,
    output: OutputArgs,
    quiet: bool,
}

impl WaitArgs {
    /// Adds the output options.
    pub(crate) fn with_output(self, output: OutputArgs, quiet: bool) -> FollowOptions {
        FollowOptions { timeout: self.timeout, output, quiet }
    }
}

/// Interval between redraws of a terminal.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Wait limit if no timeout is given. Longer than any run.
const NO_TIMEOUT: Duration = Duration::from_hours(10 * 365 * 24);

pub(crate) fn run(args: &ExecArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let request = build_execute_request(args, io)?;
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let target = &connection.target;
    connection.block_on(async {
        let started = match target.require_server()?.execute_playbook(&request).await {
            Ok(started) => started,
            Err(error) => return Err(definition_not_found(&args.path, error.into(), target).await),
        };
        if args.wait_args.wait {
            let options = args.wait_args.with_output(args.output, quiet);
            return follow_execution(&started, options, target, io).await;
        }
        print_started(&started, args.output, quiet, io)
    })
}

fn build_execute_request(args: &ExecArgs, io: &mut Io<'_>) -> Result<ExecuteRequest, Error> {
    let (path, version) = parse_path_and_version(&args.path)?;
    let payload = read_payload(args.payload.as_deref(), &args.sets, io)?;
    let mut labels = JsonMap::new();
    for label in &args.labels {
        let (name, value) = label.split_once('=').unwrap_or((label, "true"));
        labels.insert(name.into(), Json::from(value));
    }
    let pool = args.pool.as_deref().map(PoolName::new);
    let dedup = args
        .dedup
        .as_deref()
        .map(|key| noetl_api::execute::DedupKey { key: key.into(), window_secs: None });
    Ok(ExecuteRequest {
        path: Some(path),
        version,
        payload: Some(Json::from(payload)),
        labels: (!labels.is_empty()).then(|| Json::from(labels)),
        execution_pool: pool.transpose().map_err(|error| Error::InvalidArgument {
            what: "--pool",
            reason: error.to_string(),
        })?,
        priority: args.priority,
        dedup,
        ..ExecuteRequest::default()
    })
}

/// Splits a path from the version after its @.
pub(crate) fn parse_path_and_version(
    text: &str,
) -> Result<(PlaybookPath, Option<VersionSelector>), Error> {
    let invalid_path = |reason: String| Error::InvalidArgument { what: "PATH", reason };
    let (path, version) = match text.rsplit_once('@') {
        None => (text, None),
        Some((path, "latest")) => (path, None),
        Some((path, number)) => {
            let number = number.parse().map_err(|_| {
                invalid_path(format!(
                    "the text after @ must be a version number, not '{}'",
                    escape_control(number)
                ))
            })?;
            (path, Some(VersionSelector::Number(number)))
        }
    };
    let path = PlaybookPath::new(path).map_err(|error| invalid_path(error.to_string()))?;
    Ok((path, version))
}

/// Workload values from a file and from the command line.
pub(crate) fn read_payload(
    file: Option<&Path>,
    sets: &[String],
    io: &mut Io<'_>,
) -> Result<JsonMap, Error> {
    let mut payload = match file {
        None => JsonMap::new(),
        Some(path) => {
            let origin = DocumentOrigin::new(path);
            payload::parse_document(&origin.display_name(), &origin.read_text(io)?)?
        }
    };
    for assignment in sets {
        payload::set_value(&mut payload, assignment)?;
    }
    Ok(payload)
}

/// Prints the id of a started run.
pub(crate) fn print_started(
    started: &ExecuteResponse,
    output: OutputArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    if !output.is_table() {
        output.print_item(started, io)?;
        return Ok(CommandExit::Ok);
    }
    writeln!(io.out, "{}", started.execution_id)?;
    if !quiet {
        let paint = io.err.paint();
        let verb = if started.status == *"duplicate" { "is already running" } else { "started" };
        let text = format!(
            "{}@{} {verb} · follow it with: noetl runs tail {}",
            escape_control(started.path.as_str()),
            started.version,
            started.execution_id
        );
        io.print_message(paint.text(palette::MUTED, text))?;
    }
    Ok(CommandExit::Ok)
}

/// Follows a run until it ends and prints its result.
pub(crate) async fn follow_execution(
    started: &ExecuteResponse,
    options: FollowOptions,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let id = started.execution_id;
    let quiet = options.quiet;
    if !quiet {
        io.print_message(format_args!(
            "{} · version {} · run {id}",
            escape_control(started.path.as_str()),
            started.version
        ))?;
    }
    let style = if quiet {
        ProgressStyle::Quiet
    } else if io.err.is_terminal() {
        ProgressStyle::Live
    } else {
        ProgressStyle::Lines
    };
    let source = fetch_playbook_source(id, target).await?;
    let mut display = ProgressDisplay::new(style, source.as_ref());
    let watched = watch_execution(id, options.timeout, &mut display, target, io).await;
    display.clear_live_lines(io)?;
    if let Some(exit) = watched? {
        return Ok(exit);
    }
    let status = target.fetch_status(id).await?;
    if !quiet {
        let end = status.end_time.unwrap_or_else(|| SystemClock.now());
        let took = end.duration_since(status.start_time).to_human();
        let name = status.status.as_str().to_lowercase();
        io.print_message(format_args!("{name} in {took} · run {id}"))?;
    }
    if let (ExecutionStatus::Failed, false, Some(error)) =
        (status.status, display.has_printed_failure(), &status.error)
    {
        let label = io.err.paint().text(palette::FAILURE, "error");
        io.print_message(format_args!("{label}: {}", escape_control(error)))?;
    }
    if let (ExecutionStatus::Completed, Some(output)) = (status.status, &status.result) {
        if !options.output.is_table() {
            options.output.print_item(output, io)?;
        } else if let Some(text) = result::render_result(output, None) {
            write!(io.out, "{text}")?;
        }
    }
    Ok(exit_for_status(status.status))
}

/// Shows progress until the run ends. Returns an exit code if watching ends first, because of a
/// signal or the timeout.
async fn watch_execution(
    id: ExecutionId,
    timeout: Option<Millis>,
    display: &mut ProgressDisplay<'_>,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<Option<CommandExit>, Error> {
    let mut signals = StopSignals::new()?;
    let limit = timeout.map_or(NO_TIMEOUT, Duration::from);
    let deadline = Instant::now() + limit;
    let mut frames = interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = ExecutionWatch::new(target, id, None);
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
    io.print_message(format_args!(
        "{message}; the run continues, follow it with: noetl runs tail {id}"
    ))?;
    Ok(Some(exit))
}
