//! `noetl runs`: inspects and controls runs.

mod approve;
mod control;
mod event_table;
mod events;
mod explain;
mod find;
mod list;
mod logs;
mod rerun;
mod show;
mod signal;
mod tail;
mod timeline;

use clap::{Args, Subcommand};
use noetl_types::ExecutionStatus;

use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::TableCell;
use crate::render::palette;

pub(crate) use explain::fetch_playbook_source;
pub(crate) use find::{find_run, parse_full_id};

/// Inspect and control runs
///
/// A run is named by its id, by a unique beginning or end of its id, or by 'last': the newest run
/// that was not started by another run or by the platform. If no server is running, the read-only
/// commands read the local database.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    List(list::RunsListArgs),
    Show(show::RunsShowArgs),
    Explain(explain::RunsExplainArgs),
    Tail(tail::RunsTailArgs),
    Events(events::EventsArgs),
    Logs(logs::LogsArgs),
    Rerun(rerun::RerunArgs),
    Cancel(control::CancelArgs),
    Pause(control::PauseArgs),
    Resume(control::ResumeArgs),
    Signal(signal::SignalArgs),
    Approve(approve::ApproveArgs),
}

/// Runs the `noetl runs` subcommands.
pub(crate) fn run(args: &RunsArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        RunsCommand::List(args) => list::run(args, quiet, io),
        RunsCommand::Show(args) => show::run(args, quiet, io),
        RunsCommand::Explain(args) => explain::run(args, quiet, io),
        RunsCommand::Tail(args) => tail::run(args, quiet, io),
        RunsCommand::Events(args) => events::run(args, quiet, io),
        RunsCommand::Logs(args) => logs::run(args, quiet, io),
        RunsCommand::Rerun(args) => rerun::run(args, quiet, io),
        RunsCommand::Cancel(args) => control::cancel_runs(args, quiet, io),
        RunsCommand::Pause(args) => control::pause_runs(args, quiet, io),
        RunsCommand::Resume(args) => control::resume_runs(args, quiet, io),
        RunsCommand::Signal(args) => signal::run(args, quiet, io),
        RunsCommand::Approve(args) => approve::run(args, quiet, io),
    }
}

/// Table cell with a colored status.
fn status_cell(status: ExecutionStatus) -> TableCell {
    let style = match status {
        ExecutionStatus::Completed => palette::SUCCESS,
        ExecutionStatus::Failed => palette::FAILURE,
        ExecutionStatus::Cancelled | ExecutionStatus::Paused => palette::CAUTION,
        ExecutionStatus::Pending | ExecutionStatus::Running => palette::CODE,
    };
    TableCell::styled(status.as_str(), style)
}

/// Exit code of a command that followed a run, by the last known status of the run.
pub(crate) fn exit_for_status(status: ExecutionStatus) -> CommandExit {
    match status {
        ExecutionStatus::Completed
        | ExecutionStatus::Pending
        | ExecutionStatus::Running
        | ExecutionStatus::Paused => CommandExit::Ok,
        ExecutionStatus::Failed | ExecutionStatus::Cancelled => CommandExit::Failed,
    }
}
