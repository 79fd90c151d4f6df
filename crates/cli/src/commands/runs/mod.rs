//! `noetl runs`: looking at runs and steering them.

mod approve;
mod events;
mod explain;
mod find;
mod list;
mod logs;
mod note;
mod rerun;
mod show;
mod signal;
mod steer;
mod tail;
mod timeline;

use clap::{Args, Subcommand};
use noetl_types::ExecutionStatus;

use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Cell;
use crate::render::palette;

pub(crate) use explain::flow_of;
pub(crate) use find::{find, whole};

/// Look at runs and steer them
///
/// A run is named by its id, by the beginning or the end of it where only one run fits, or as 'last':
/// the newest that neither another run nor the platform itself started.
/// Where no server runs, those commands that only look read the database of this machine.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Explain(explain::ExplainArgs),
    Tail(tail::TailArgs),
    Events(events::EventsArgs),
    Logs(logs::LogsArgs),
    Rerun(rerun::RerunArgs),
    Cancel(steer::CancelArgs),
    Pause(steer::PauseArgs),
    Resume(steer::ResumeArgs),
    Signal(signal::SignalArgs),
    Approve(approve::ApproveArgs),
}

/// Looks at runs, or steers them.
pub(crate) fn run(args: &RunsArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::List(args) => list::run(args, quiet, io),
        Verb::Show(args) => show::run(args, quiet, io),
        Verb::Explain(args) => explain::run(args, quiet, io),
        Verb::Tail(args) => tail::run(args, quiet, io),
        Verb::Events(args) => events::run(args, quiet, io),
        Verb::Logs(args) => logs::run(args, quiet, io),
        Verb::Rerun(args) => rerun::run(args, quiet, io),
        Verb::Cancel(args) => steer::cancel(args, quiet, io),
        Verb::Pause(args) => steer::pause(args, quiet, io),
        Verb::Resume(args) => steer::resume(args, quiet, io),
        Verb::Signal(args) => signal::run(args, quiet, io),
        Verb::Approve(args) => approve::run(args, quiet, io),
    }
}

/// A status in its colour.
fn status(status: ExecutionStatus) -> Cell {
    let style = match status {
        ExecutionStatus::Completed => palette::GOOD,
        ExecutionStatus::Failed => palette::BAD,
        ExecutionStatus::Cancelled | ExecutionStatus::Paused => palette::DOUBT,
        ExecutionStatus::Pending | ExecutionStatus::Running => palette::CODE,
    };
    Cell::styled(status.as_str(), style)
}

/// The exit code of a command that waited for the end of a run.
pub(crate) fn exit_of(status: ExecutionStatus) -> Exit {
    match status {
        ExecutionStatus::Completed
        | ExecutionStatus::Pending
        | ExecutionStatus::Running
        | ExecutionStatus::Paused => Exit::Ok,
        ExecutionStatus::Failed | ExecutionStatus::Cancelled => Exit::Failed,
    }
}
