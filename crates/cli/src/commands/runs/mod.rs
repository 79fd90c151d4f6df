//! `noetl runs`: inspects and controls runs.

mod control;
mod events;
mod explain;
mod find;
mod input;
mod list;
mod logs;
mod show;
mod timeline;

use clap::Subcommand;
use noetl_types::ExecutionStatus;

use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::TableCell;
use crate::render::palette;

pub(crate) use explain::fetch_playbook_source;
pub(crate) use find::{find_run, invalid_run_error, parse_full_id};

/// Inspect and control runs
///
/// A run is named by its id, by a unique beginning or end of its id, or by 'last': the newest run
/// that was not started by another run or by the platform. If no server is running, the
/// commands use the local database.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    List(list::RunsListArgs),
    Show(show::RunsShowArgs),
    Explain(explain::RunsExplainArgs),
    Tail(events::RunsTailArgs),
    Events(events::EventsArgs),
    Logs(logs::LogsArgs),
    Rerun(input::RerunArgs),
    Cancel(control::CancelArgs),
    /// Pause runs
    ///
    /// No new commands are started until the runs are resumed. Running commands finish. Timers
    /// continue.
    #[command(after_long_help = "\
Examples:
  noetl runs pause last
  noetl runs pause 4821 4822 --reason 'the warehouse is down'")]
    Pause(control::RunControlArgs),
    /// Resume paused runs
    #[command(after_long_help = "\
Examples:
  noetl runs resume last
  noetl runs resume 4821 4822 --reason 'the warehouse is back'")]
    Resume(control::RunControlArgs),
    Signal(input::SignalArgs),
    Approve(input::ApproveArgs),
}

/// Runs the `noetl runs` subcommands.
pub(crate) fn run(command: &RunsCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        RunsCommand::List(args) => list::run(args, io),
        RunsCommand::Show(args) => show::run(args, io),
        RunsCommand::Explain(args) => explain::run(args, io),
        RunsCommand::Tail(args) => events::tail_run(args, io),
        RunsCommand::Events(args) => events::list_events(args, io),
        RunsCommand::Logs(args) => logs::run(args, io),
        RunsCommand::Rerun(args) => input::rerun(args, io),
        RunsCommand::Cancel(args) => control::cancel_runs(args, io),
        RunsCommand::Pause(args) => control::set_paused(args, true, io),
        RunsCommand::Resume(args) => control::set_paused(args, false, io),
        RunsCommand::Signal(args) => input::send_signal(args, io),
        RunsCommand::Approve(args) => input::approve(args, io),
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
