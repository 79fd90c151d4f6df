//! `noetl runs cancel`, `pause` and `resume`

use std::cmp::Reverse;
use std::io::Write as _;

use clap::Args;
use noetl_api::Client as Server;
use noetl_api::execution::{CancelRequest, ExecutionLine, SteerRequest};
use noetl_api::query::ExecutionsQuery;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus};
use serde::Serialize;

use super::find;
use super::list::{self, Filter, table};
use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Form, Output, Table};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::{counted, visible};
use crate::roles::{Host, HostError};

/// Cancel runs
///
/// Nothing of a cancelled run is handed out any more, and what is under way is stopped. The runs are
/// shown first and have to be agreed to; without a terminal, --yes is needed. A run that has ended
/// already stays as it is. With --all, what the platform runs for itself stays too, unless --system is
/// given or --path begins with system/.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs cancel 4821
  noetl runs cancel --all --path etl/ --dry-run     only show which ones
  noetl runs cancel --all --path etl/ --yes")]
pub(crate) struct CancelArgs {
    /// The runs: ids, parts of ids that fit no other, or last
    #[arg(
        value_name = "RUN",
        required_unless_present = "all",
        // Filters choose among all runs; a run that is named is meant, whatever they say.
        conflicts_with_all = ["status", "path", "label", "since", "until", "query", "system"]
    )]
    runs: Vec<String>,
    /// All runs that have not ended and that the filters let through
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Why; it is kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what would be cancelled
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Runs that one command cancels at most.
const MAX_CANCELLED: usize = 10_000;
/// Runs that are shown before they are cancelled.
const MAX_SHOWN: usize = 20;

/// Hold runs
///
/// Nothing more of them is handed out until they are resumed; what is under way finishes. Clocks run
/// on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs pause last
  noetl runs pause 4821 4822 --reason 'the warehouse is down'")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    runs: Steered,
}

/// Let runs go on that were paused
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs resume last
  noetl runs resume 4821 4822 --reason 'the warehouse is back'")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    runs: Steered,
}

#[derive(Debug, Args)]
struct Steered {
    /// The runs: ids, parts of ids that fit no other, or last
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// Why; it is kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn cancel(args: &CancelArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let runs = reached.ask(meant(args, &reached.host, io))?;
    if runs.is_empty() {
        io.talk("there are no such runs, or they have ended")?;
        return told(&[], args.output, io);
    }
    if args.dry_run && !args.output.is_table() {
        args.output.list(&runs, |times| table(&runs, times), io)?;
        return Ok(Exit::Ok);
    }
    show(&runs, io)?;
    if args.dry_run {
        let runs = counted(runs.len(), "run");
        io.talk(format_args!("{runs} would be cancelled"))?;
        return Ok(Exit::Ok);
    }
    let question = format!(
        "Cancel {} at {}?",
        counted(runs.len(), "run"),
        reached.name()
    );
    let wanted = if runs.len() == 1 {
        "yes".to_owned()
    } else {
        runs.len().to_string()
    };
    if !agreed(args.consent, &question, &wanted, io)? {
        return Ok(Exit::Failed);
    }
    let request = CancelRequest {
        reason: args.reason.as_deref().map(Into::into),
        cascade: None,
    };
    let mut acts = Vec::new();
    let ended = reached.ask(async {
        let server = reached.host.server()?;
        for run in &runs {
            let id = run.execution_id;
            let (status, words) = match server.cancel(id, &request).await {
                Ok(_) => (ExecutionStatus::Cancelled, "cancelled"),
                // Among many, one may have ended meanwhile, which is as good.
                Err(error) if args.all && error.code() == Some(ErrorCode::AlreadyTerminal) => {
                    (server_status(server, id).await?, "has ended")
                }
                Err(error) => return Err(HostError::from(error).into()),
            };
            if args.output.is_table() {
                writeln!(io.out, "{id} {words}")?;
            }
            acts.push(Act::new(id, status));
        }
        Ok(())
    });
    // Also where one could not be: the others are what they are now.
    let exit = told(&acts, args.output, io)?;
    ended.map(|()| exit)
}

/// Where a run stands after what was done to it, for programs.
#[derive(Debug, Serialize)]
struct Act {
    execution_id: ExecutionId,
    status: ExecutionStatus,
}

impl Act {
    const fn new(execution_id: ExecutionId, status: ExecutionStatus) -> Self {
        Self {
            execution_id,
            status,
        }
    }
}

/// Shows what was done to whom; people were told meanwhile.
fn told(acts: &[Act], output: Output, io: &mut Io<'_>) -> Result<Exit, Error> {
    if !output.is_table() {
        output.list(acts, |_| Table::new([]), io)?;
    }
    Ok(Exit::Ok)
}

async fn server_status(server: &Server, id: ExecutionId) -> Result<ExecutionStatus, Error> {
    let status = server.status(id).await;
    Ok(status.map_err(HostError::from)?.status)
}

/// The runs that the user means.
async fn meant(
    args: &CancelArgs,
    host: &Host,
    io: &mut Io<'_>,
) -> Result<Vec<ExecutionLine>, Error> {
    if args.all {
        let mut runs = all_that_go_on(&args.filter, host).await?;
        if runs.len() > MAX_CANCELLED {
            runs.truncate(MAX_CANCELLED);
            // Also where talk is not wanted: the others go on.
            let text = format!(
                "there are more than {MAX_CANCELLED} such runs; these are the newest, and the others \
                 need the command again"
            );
            io.warn(&[text])?;
        }
        return Ok(runs);
    }
    let mut runs = Vec::new();
    for text in &args.runs {
        let id = find(host, text).await?;
        runs.push(host.detail(id).await?.line);
    }
    Ok(runs)
}

/// The runs that go on and that the filter lets through, newest first; one more than are cancelled
/// where there are too many.
///
/// Each status is asked for by itself: among all runs, those that have ended would fill the page long
/// before the old ones that still go on.
async fn all_that_go_on(filter: &Filter, host: &Host) -> Result<Vec<ExecutionLine>, Error> {
    let mut runs = Vec::new();
    let wanted = |status: &ExecutionStatus| {
        !status.is_terminal() && filter.status.is_none_or(|only| only == *status)
    };
    for status in ExecutionStatus::ALL.iter().copied().filter(wanted) {
        let query = ExecutionsQuery {
            status: Some(status),
            ..filter.cancelled()
        };
        runs.extend(list::fetch(host, query, MAX_CANCELLED + 1).await?);
    }
    runs.sort_by_key(|run| Reverse(run.execution_id));
    // One that went on from one status to another meanwhile was found twice.
    runs.dedup_by_key(|run| run.execution_id);
    Ok(runs)
}

/// Tells which runs are meant, before anything is done to them.
fn show(runs: &[ExecutionLine], io: &mut Io<'_>) -> Result<(), Error> {
    let output = Output {
        form: Form::Table,
        no_headers: true,
        time: None,
    };
    let times = output.times(io);
    let few = &runs[..runs.len().min(MAX_SHOWN)];
    let text = table(few, &times).render(false, false, &io.err);
    io.talk(text.trim_end())?;
    if runs.len() > MAX_SHOWN {
        io.talk(format_args!("and {} more", runs.len() - MAX_SHOWN))?;
    }
    Ok(())
}

pub(super) fn pause(args: &PauseArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    steer(&args.runs, true, quiet, io)
}

pub(super) fn resume(args: &ResumeArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    steer(&args.runs, false, quiet, io)
}

fn steer(args: &Steered, pauses: bool, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let request = SteerRequest {
        reason: args.reason.as_deref().map(Into::into),
    };
    let mut acts = Vec::new();
    let ended = reached.ask(async {
        for text in &args.runs {
            let id: ExecutionId = find(&reached.host, text).await?;
            let server = reached.host.server()?;
            let steered = if pauses {
                server.pause(id, &request).await
            } else {
                server.resume(id, &request).await
            };
            let steered = steered.map_err(HostError::from)?;
            acts.push(Act::new(id, steered.status));
            if args.output.is_table() {
                let status = visible(steered.status.as_str());
                let paint = io.out.paint();
                writeln!(io.out, "{id} {}", paint.text(palette::NAME, status))?;
            }
        }
        Ok(())
    });
    let exit = told(&acts, args.output, io)?;
    ended.map(|()| exit)
}
