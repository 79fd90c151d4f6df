//! `noetl runs approve`

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApprovalView, ApproveRequest};
use noetl_types::{ExecutionId, Json, StepName};

use super::find;
use crate::commands::exec::payload_of;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::roles::{Host, HostError};

/// Decide about what a run waits for
///
/// Without a run, what waits for somebody is listed. With a run in which only one step waits, the
/// step need not be named.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs approve                                what waits for somebody
  noetl runs approve last --comment 'looks good'
  noetl runs approve 4821 release --reject --comment 'not on a Friday'")]
pub(crate) struct ApproveArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: Option<String>,
    /// The step that waits
    step: Option<String>,
    /// Reject it instead
    #[arg(long, requires = "run")]
    reject: bool,
    /// What there is to say; it is kept in the log
    #[arg(long, value_name = "TEXT", requires = "run")]
    comment: Option<String>,
    /// The iteration, in a loop
    #[arg(long, value_name = "N", requires = "run")]
    index: Option<u32>,
    /// Set a value of the form; points lead into maps. May be given many times
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "run")]
    sets: Vec<String>,
    /// The values of the form, as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "run")]
    values: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &ApproveArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let values = payload_of(args.values.as_deref(), &args.sets, io)?;
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let host = &reached.host;
    reached.ask(async {
        let server = host.server()?;
        let Some(run) = &args.run else {
            let open = server.approvals().await.map_err(HostError::from)?;
            return list(args, &open.approvals, quiet, io);
        };
        let id = find(host, run).await?;
        let step = if let Some(step) = &args.step {
            step.clone()
        } else {
            let of_run = ApprovalsQuery {
                execution_id: Some(id),
                ..ApprovalsQuery::default()
            };
            let open = server.approvals_page(&of_run).await;
            only(id, &open.map_err(HostError::from)?.approvals)?
        };
        let decision = if args.reject { "reject" } else { "approve" };
        let request = ApproveRequest {
            step: StepName::new(step.as_str()).map_err(|error| Error::BadValue {
                what: "STEP",
                reason: error.to_string(),
            })?,
            index: args.index,
            decision: decision.into(),
            comment: args.comment.as_deref().map(Into::into),
            values: (!values.is_empty()).then(|| Json::from(values.clone())),
        };
        decide(id, &request, args.output, host, io).await
    })
}

async fn decide(
    id: ExecutionId,
    request: &ApproveRequest,
    output: Output,
    host: &Host,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let answer = host.server()?.approve(id, request).await;
    let answer = answer.map_err(HostError::from)?;
    if !output.is_table() {
        output.thing(&answer, io)?;
        return Ok(Exit::Ok);
    }
    let word = if answer.decision == *"reject" {
        "rejected"
    } else {
        "approved"
    };
    writeln!(io.out, "{id} {} {word}", request.step)?;
    Ok(Exit::Ok)
}

/// The step of a run that waits for somebody, if it is the only one.
fn only(id: ExecutionId, open: &[ApprovalView]) -> Result<String, Error> {
    let steps: Vec<String> = open
        .iter()
        .filter(|open| open.execution_id == id)
        .map(|open| open.step.to_string())
        .collect();
    match steps.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Error::NothingWaits {
            run: id.to_string(),
        }),
        _ => Err(Error::ManySteps { steps }),
    }
}

fn list(
    args: &ApproveArgs,
    open: &[ApprovalView],
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    if open.is_empty() && args.output.is_table() {
        if !quiet {
            io.talk("nothing waits for anybody")?;
        }
        return Ok(Exit::Ok);
    }
    args.output.list(open, |times| table(open, times), io)?;
    Ok(Exit::Ok)
}

fn table(open: &[ApprovalView], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("RUN"),
        Column::new("STEP").gives_way(),
        Column::new("SINCE"),
        Column::new("UNTIL"),
        Column::new("TITLE").gives_way(),
    ]);
    for open in open {
        let title = open.title.as_ref().and_then(Json::as_str);
        table.row([
            Cell::styled(open.execution_id.to_string(), palette::NAME),
            open.step.as_str().into(),
            times.tell(open.since).into(),
            times.tell_or_dash(open.until).into(),
            title.unwrap_or("-").into(),
        ]);
    }
    table
}
