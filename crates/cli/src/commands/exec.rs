//! `noetl exec`: a playbook of the catalog, run by a server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use noetl_api::execute::{ExecuteAnswer, ExecuteRequest, Version};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{ExecutionId, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::commands::catalog::not_found;
use crate::commands::runs::{exit_of, flow_of};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::payload;
use crate::progress::{Display, Style};
use crate::reach::{Reached, Wants};
use crate::render::words::visible;
use crate::render::{palette, result};
use crate::roles::{Host, Signals, Watch};
use crate::source::Origin;

/// Run a playbook of the catalog, at a server
///
/// Prints the id of the run. With --wait, its progress is shown on standard error until it ends, its
/// result is printed, and the exit code is that of the run: 0 where it completes, 1 where it does
/// not. Ctrl-C stops the waiting, not the run.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl exec etl/daily                            start it
  noetl exec etl/daily@3 --wait --timeout 10m     a version of it, and wait
  noetl exec etl/daily --set day=2026-01-31 --label team=data")]
pub(crate) struct ExecArgs {
    /// The path of the playbook, perhaps with a version: PATH@3
    path: String,
    /// Set a value of the workload; points lead into maps. May be given many times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// Values of the workload as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    /// Tag the run, NAME=VALUE. May be given many times
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,
    /// The pool of workers that runs it
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Its rank in the queue, -100 to 100
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(i16).range(-100..=100))]
    priority: Option<i16>,
    /// The key under which no second run is made for a while
    #[arg(long, value_name = "KEY")]
    dedup: Option<String>,
    #[command(flatten)]
    following: Following,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Whether a run is waited for.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Following {
    /// Wait for its end, and print its result
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Wait at most this long, such as 30s or 5m; the run goes on
    #[arg(long, value_name = "DURATION", value_parser = Millis::parse, requires = "wait")]
    timeout: Option<Millis>,
}

/// How a run is waited for, and how its result is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    timeout: Option<Millis>,
    output: Output,
    quiet: bool,
}

impl Following {
    /// The same with the form of the result.
    pub(crate) fn with(self, output: Output, quiet: bool) -> Wanted {
        Wanted {
            timeout: self.timeout,
            output,
            quiet,
        }
    }
}

/// How often a terminal is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// Longer than any run lasts: the patience of who names none.
const NEVER: Duration = Duration::from_hours(10 * 365 * 24);

pub(crate) fn run(args: &ExecArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let request = request_of(args, io)?;
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let host = &reached.host;
    reached.ask(async {
        let started = match host.server()?.execute(&request).await {
            Ok(started) => started,
            Err(error) => return Err(not_found(&args.path, error.into(), host).await),
        };
        if args.following.wait {
            let wanted = args.following.with(args.output, quiet);
            return follow(&started, wanted, host, io).await;
        }
        tell_started(&started, args.output, quiet, io)
    })
}

fn request_of(args: &ExecArgs, io: &mut Io<'_>) -> Result<ExecuteRequest, Error> {
    let (path, version) = path_and_version(&args.path)?;
    let payload = payload_of(args.payload.as_deref(), &args.sets, io)?;
    let mut labels = JsonMap::new();
    for given in &args.labels {
        let (name, value) = given.split_once('=').unwrap_or((given, "true"));
        labels.insert(name.into(), Json::from(value));
    }
    let pool = args.pool.as_deref().map(PoolName::new);
    let dedup = args.dedup.as_deref().map(|key| noetl_api::execute::Dedup {
        key: key.into(),
        window_secs: None,
    });
    Ok(ExecuteRequest {
        path: Some(path),
        version,
        payload: Some(Json::from(payload)),
        labels: (!labels.is_empty()).then(|| Json::from(labels)),
        execution_pool: pool.transpose().map_err(|error| Error::BadValue {
            what: "--pool",
            reason: error.to_string(),
        })?,
        priority: args.priority,
        dedup,
        ..ExecuteRequest::default()
    })
}

/// A path, and the version behind its @.
pub(crate) fn path_and_version(text: &str) -> Result<(PlaybookPath, Option<Version>), Error> {
    let bad = |reason: String| Error::BadValue {
        what: "PATH",
        reason,
    };
    let (path, version) = match text.rsplit_once('@') {
        None => (text, None),
        Some((path, "latest")) => (path, None),
        Some((path, number)) => {
            let number = number.parse().map_err(|_| {
                bad(format!(
                    "behind the @ stands a version, and '{}' is none",
                    visible(number)
                ))
            })?;
            (path, Some(Version::Number(number)))
        }
    };
    let path = PlaybookPath::new(path).map_err(|error| bad(error.to_string()))?;
    Ok((path, version))
}

/// What the user says on the command line and in a file.
pub(crate) fn payload_of(
    file: Option<&Path>,
    sets: &[String],
    io: &mut Io<'_>,
) -> Result<JsonMap, Error> {
    let mut payload = match file {
        None => JsonMap::new(),
        Some(path) => {
            let origin = Origin::new(path);
            payload::document(&origin.name(), &origin.read(io)?)?
        }
    };
    for given in sets {
        payload::set(&mut payload, given)?;
    }
    Ok(payload)
}

/// Tells of a run that was started.
pub(crate) fn tell_started(
    started: &ExecuteAnswer,
    output: Output,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    if !output.is_table() {
        output.thing(started, io)?;
        return Ok(Exit::Ok);
    }
    writeln!(io.out, "{}", started.execution_id)?;
    if !quiet {
        let paint = io.err.paint();
        let word = if started.status == *"duplicate" {
            "runs already"
        } else {
            "started"
        };
        let text = format!(
            "{}@{} {word} · follow it with: noetl runs tail {}",
            visible(started.path.as_str()),
            started.version,
            started.execution_id
        );
        io.talk(paint.text(palette::QUIET, text))?;
    }
    Ok(Exit::Ok)
}

/// Follows a run to its end, and prints what came of it.
pub(crate) async fn follow(
    started: &ExecuteAnswer,
    wanted: Wanted,
    host: &Host,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let id = started.execution_id;
    let quiet = wanted.quiet;
    if !quiet {
        io.talk(format_args!(
            "{} · version {} · run {id}",
            visible(started.path.as_str()),
            started.version
        ))?;
    }
    let style = if quiet {
        Style::Quiet
    } else if io.err.is_terminal() {
        Style::Live
    } else {
        Style::Lines
    };
    let flow = flow_of(id, host).await?;
    let mut display = Display::new(style, flow.as_ref());
    let ended = watch(id, wanted.timeout, &mut display, host, io).await;
    display.finish(io)?;
    if let Some(exit) = ended? {
        return Ok(exit);
    }
    let status = host.status(id).await?;
    if !quiet {
        let ended = status.end_time.unwrap_or_else(|| SystemClock.now());
        let took = ended.since(status.start_time).human();
        let word = status.status.as_str().to_lowercase();
        io.talk(format_args!("{word} in {took} · run {id}"))?;
    }
    if let (ExecutionStatus::Failed, false, Some(error)) =
        (status.status, display.has_told_failure(), &status.error)
    {
        let word = io.err.paint().text(palette::BAD, "error");
        io.talk(format_args!("{word}: {}", visible(error)))?;
    }
    if let (ExecutionStatus::Completed, Some(found)) = (status.status, &status.result) {
        if !wanted.output.is_table() {
            wanted.output.thing(found, io)?;
        } else if let Some(text) = result::render(found, None) {
            write!(io.out, "{text}")?;
        }
    }
    Ok(exit_of(status.status))
}

/// Watches a run to its end; an exit code where the watching ends before.
async fn watch(
    id: ExecutionId,
    timeout: Option<Millis>,
    display: &mut Display<'_>,
    host: &Host,
    io: &mut Io<'_>,
) -> Result<Option<Exit>, Error> {
    let mut signals = Signals::new()?;
    let patience = timeout.map_or(NEVER, Duration::from);
    let deadline = Instant::now() + patience;
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = Watch::new(host, id, None);
    let (exit, why) = loop {
        tokio::select! {
            events = watch.next() => {
                let Some(events) = events? else {
                    return Ok(None);
                };
                display.take(&events, io)?;
                if display.end().is_some() {
                    return Ok(None);
                }
            }
            _ = frames.tick() => display.tick(SystemClock.now(), io)?,
            _ = signals.next() => break (Exit::Interrupted, "no longer watched".to_owned()),
            () = sleep_until(deadline) => {
                let after = Millis::from(patience).human();
                break (Exit::Timeout, format!("not done after {after}"));
            }
        }
    };
    display.finish(io)?;
    io.talk(format_args!("{why}; the run goes on: noetl runs tail {id}"))?;
    Ok(Some(exit))
}
