//! `noetl runs cancel`, `pause` and `resume`

use std::cmp::Reverse;
use std::io::Write as _;

use clap::Args;
use noetl_api::execution::{CancelRequest, ControlRequest, ExecutionSummary};
use noetl_api::query::ExecutionsQuery;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus};
use serde::Serialize;

use super::find_run;
use super::list::{self, RunFilterArgs, run_table};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, OutputFormat};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::Target;

/// Cancel runs
///
/// Running tasks of a cancelled run are stopped and no new ones are started, except for those of its
/// final step. Cancelling the run again, or --force, ends the final step too. Shows the runs and
/// asks for confirmation. Without a terminal, --yes is required. Runs that have ended are not
/// changed. With --all, runs of the platform itself are kept unless --system is given or --path
/// starts with system/.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs cancel 4821
  noetl runs cancel --all --path etl/ --dry-run     only show the runs
  noetl runs cancel --all --path etl/ --yes")]
pub(crate) struct CancelArgs {
    /// Runs: ids, unique parts of ids, or last
    #[arg(
        value_name = "RUN",
        required_unless_present = "all",
        // Filters select among all runs. They do not apply to runs that are named.
        conflicts_with_all = ["status", "path", "label", "since", "until", "query", "system"]
    )]
    runs: Vec<String>,
    /// Cancel all unfinished runs that match the filters
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    #[command(flatten)]
    filter: RunFilterArgs,
    /// Reason, stored in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not run the final step, and end one that runs
    #[arg(long)]
    force: bool,
    /// Only show the runs that would be cancelled
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Maximum runs cancelled by one command.
const MAX_CANCELLED_RUNS: usize = 10_000;
/// Maximum runs shown before the confirmation.
const MAX_SHOWN_RUNS: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct RunControlArgs {
    /// Runs: ids, unique parts of ids, or last
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// Reason, stored in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// State of a run after an operation, for JSON output.
#[derive(Debug, Serialize)]
struct ControlResult {
    execution_id: ExecutionId,
    status: ExecutionStatus,
}

pub(super) fn cancel_runs(args: &CancelArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let runs = server.block_on(select_runs(args, &server.target, io))?;
    if runs.is_empty() {
        io.print_message("there are no matching runs, or they have ended")?;
        return print_results(&[], args.client.output, io);
    }
    if args.dry_run && !args.client.output.is_table() {
        return args.client.output.print_list(&runs, run_table, io);
    }
    print_selected_runs(&runs, io)?;
    let count = pluralize(runs.len(), "run");
    if args.dry_run {
        io.print_message(format_args!("{count} would be cancelled"))?;
        return Ok(CommandExit::Ok);
    }
    let question = format!("Cancel {count} at {}?", server.display_name());
    let expected = if runs.len() == 1 { "yes".to_owned() } else { runs.len().to_string() };
    if !confirm(args.confirm, &question, &expected, io)? {
        return Ok(CommandExit::Failed);
    }
    let request = CancelRequest {
        reason: args.reason.as_deref().map(Into::into),
        cascade: None,
        force: args.force,
    };
    let mut results = Vec::new();
    let cancelled = server.send(async |client| {
        for run in &runs {
            let id = run.execution_id;
            let (status, result) = match client.cancel_execution(id, &request).await {
                Ok(cancelled) if cancelled.status == "cancelling" => {
                    (ExecutionStatus::Running, "is being cancelled; its final step runs")
                }
                Ok(_) => (ExecutionStatus::Cancelled, "cancelled"),
                // With many runs, one may end before it is cancelled, which is not an error.
                Err(error) if args.all && error.code() == Some(ErrorCode::AlreadyTerminal) => {
                    (client.get_execution_status(id).await?.status, "has already ended")
                }
                Err(error) => return Err(error.into()),
            };
            if args.client.output.is_table() {
                writeln!(io.out, "{id} {result}")?;
            }
            results.push(ControlResult { execution_id: id, status });
        }
        Ok::<_, Error>(())
    });
    // Printed even if a later request failed, since the earlier runs have been cancelled.
    let exit = print_results(&results, args.client.output, io)?;
    cancelled.map(|()| exit)
}

/// Prints the results for programs. Table output has already been printed line by line.
fn print_results(
    results: &[ControlResult],
    output: OutputArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    if output.is_table() { Ok(CommandExit::Ok) } else { output.print_data_list(results, io) }
}

/// Selects the runs to cancel.
async fn select_runs(
    args: &CancelArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<Vec<ExecutionSummary>> {
    if args.all {
        let mut runs = fetch_unfinished_runs(&args.filter, target).await?;
        if runs.len() > MAX_CANCELLED_RUNS {
            runs.truncate(MAX_CANCELLED_RUNS);
            // Printed even in quiet mode, since the other runs continue.
            io.print_warning(format_args!(
                "more than {MAX_CANCELLED_RUNS} runs match; these are the newest, repeat the command for \
                 the others"
            ))?;
        }
        return Ok(runs);
    }
    let mut runs = Vec::new();
    for name in &args.runs {
        let id = find_run(target, name).await?;
        runs.push(target.fetch_execution(id).await?.summary);
    }
    Ok(runs)
}

/// Fetches the unfinished runs that match the filter, newest first. Returns one more than the limit
/// if there are too many.
///
/// Queries each status separately. Otherwise finished runs would fill the page before older
/// unfinished runs are reached.
async fn fetch_unfinished_runs(
    filter: &RunFilterArgs,
    target: &Target,
) -> Result<Vec<ExecutionSummary>> {
    let mut runs = Vec::new();
    let is_selected = |status: &ExecutionStatus| {
        !status.is_terminal() && filter.status.is_none_or(|only| only == *status)
    };
    for status in ExecutionStatus::ALL.iter().copied().filter(is_selected) {
        let query = ExecutionsQuery { status: Some(status), ..filter.cancel_query() };
        runs.extend(list::fetch_runs(target, query, MAX_CANCELLED_RUNS + 1).await?);
    }
    runs.sort_by_key(|run| Reverse(run.execution_id));
    // A run that changed its status between the queries is found twice.
    runs.dedup_by_key(|run| run.execution_id);
    Ok(runs)
}

/// Shows the selected runs before the confirmation.
fn print_selected_runs(runs: &[ExecutionSummary], io: &mut Io<'_>) -> Result<()> {
    let output = OutputArgs { format: OutputFormat::Table, no_headers: true, time: None };
    let times = output.time_formatter(io);
    let first = &runs[..runs.len().min(MAX_SHOWN_RUNS)];
    let text = run_table(first, &times).render_table(false, false, &io.err);
    io.print_message(text.trim_end())?;
    if runs.len() > MAX_SHOWN_RUNS {
        io.print_message(format_args!("and {} more", runs.len() - MAX_SHOWN_RUNS))?;
    }
    Ok(())
}

pub(super) fn set_paused(
    args: &RunControlArgs,
    is_pause: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let request = ControlRequest { reason: args.reason.as_deref().map(Into::into) };
    let mut results = Vec::new();
    let result = server.send(async |client| {
        for name in &args.runs {
            let id = find_run(&server.target, name).await?;
            let response = if is_pause {
                client.pause_execution(id, &request).await?
            } else {
                client.resume_execution(id, &request).await?
            };
            results.push(ControlResult { execution_id: id, status: response.status });
            if args.client.output.is_table() {
                let status = escape_control(response.status.as_str());
                let paint = io.out.paint();
                writeln!(io.out, "{id} {}", paint.text(palette::NAME, status))?;
            }
        }
        Ok::<_, Error>(())
    });
    let exit = print_results(&results, args.client.output, io)?;
    result.map(|()| exit)
}
