//! `noetl runs approve`

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApprovalView, ApproveRequest};
use noetl_types::{ExecutionId, Json, StepName};

use super::find_run;
use crate::commands::exec::read_payload;
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::roles::{Target, TargetError};
use crate::target::{Access, TargetConnection};

/// Approve or reject a waiting step of a run
///
/// Without a run, lists all pending approvals. If only one step of the run waits, the step can be
/// omitted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs approve                                list pending approvals
  noetl runs approve last --comment 'looks good'
  noetl runs approve 4821 release --reject --comment 'not on a Friday'")]
pub(crate) struct ApproveArgs {
    /// Run: its id, a unique part of its id, or last
    run: Option<String>,
    /// Step that waits for the approval
    step: Option<String>,
    /// Reject instead of approving
    #[arg(long, requires = "run")]
    reject: bool,
    /// Comment, stored in the log
    #[arg(long, value_name = "TEXT", requires = "run")]
    comment: Option<String>,
    /// Iteration of a loop
    #[arg(long, value_name = "N", requires = "run")]
    index: Option<u32>,
    /// Set a form value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "run")]
    sets: Vec<String>,
    /// File with form values as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "run")]
    values: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(args: &ApproveArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let values = read_payload(args.values.as_deref(), &args.sets, io)?;
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let target = &connection.target;
    connection.block_on(async {
        let server = target.require_server()?;
        let Some(run) = &args.run else {
            let pending = server.list_all_approvals().await.map_err(TargetError::from)?;
            return list_approvals(args, &pending.approvals, quiet, io);
        };
        let id = find_run(target, run).await?;
        let step = if let Some(step) = &args.step {
            step.clone()
        } else {
            let query = ApprovalsQuery { execution_id: Some(id), ..ApprovalsQuery::default() };
            let pending = server.list_approvals(&query).await;
            single_pending_step(id, &pending.map_err(TargetError::from)?.approvals)?
        };
        let decision = if args.reject { "reject" } else { "approve" };
        let request = ApproveRequest {
            step: StepName::new(step.as_str()).map_err(|error| Error::InvalidArgument {
                what: "STEP",
                reason: error.to_string(),
            })?,
            index: args.index,
            decision: decision.into(),
            comment: args.comment.as_deref().map(Into::into),
            values: (!values.is_empty()).then(|| Json::from(values.clone())),
        };
        send_decision(id, &request, args.output, target, io).await
    })
}

async fn send_decision(
    id: ExecutionId,
    request: &ApproveRequest,
    output: OutputArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let response = target.require_server()?.submit_approval(id, request).await;
    let response = response.map_err(TargetError::from)?;
    if !output.is_table() {
        output.print_item(&response, io)?;
        return Ok(CommandExit::Ok);
    }
    let verb = if response.decision == *"reject" { "rejected" } else { "approved" };
    writeln!(io.out, "{id} {} {verb}", request.step)?;
    Ok(CommandExit::Ok)
}

/// Returns the only step of the run that waits for an approval.
fn single_pending_step(id: ExecutionId, approvals: &[ApprovalView]) -> Result<String, Error> {
    let steps: Vec<String> = approvals
        .iter()
        .filter(|approval| approval.execution_id == id)
        .map(|approval| approval.step.to_string())
        .collect();
    match steps.as_slice() {
        [step] => Ok(step.clone()),
        [] => Err(Error::NoPendingApproval { run: id.to_string() }),
        _ => Err(Error::AmbiguousStep { steps }),
    }
}

fn list_approvals(
    args: &ApproveArgs,
    approvals: &[ApprovalView],
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    if approvals.is_empty() && args.output.is_table() {
        if !quiet {
            io.print_message("there are no pending approvals")?;
        }
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(approvals, |times| approval_table(approvals, times), io)?;
    Ok(CommandExit::Ok)
}

fn approval_table(approvals: &[ApprovalView], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("RUN"),
        TableColumn::new("STEP").shrinkable(),
        TableColumn::new("SINCE"),
        TableColumn::new("UNTIL"),
        TableColumn::new("TITLE").shrinkable(),
    ]);
    for approval in approvals {
        let title = approval.title.as_ref().and_then(Json::as_str);
        table.add_row([
            TableCell::styled(approval.execution_id.to_string(), palette::NAME),
            approval.step.as_str().into(),
            times.format_time(approval.since).into(),
            times.format_time_or_dash(approval.until).into(),
            title.unwrap_or("-").into(),
        ]);
    }
    table
}
