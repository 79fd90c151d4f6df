//! `noetl runs rerun`, `signal` and `approve`: send input to a run.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::execute::RerunRequest;
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApprovalView, ApproveRequest, SignalRequest};
use noetl_types::{ExecutionId, Json, JsonMap, StepName};

use super::find_run;
use crate::commands::exec::WaitArgs;
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::payload::read_payload;
use crate::render::palette;

/// Repeat a run with the same version and input
///
/// Runs the same version of the playbook with the same workload. Individual values can be
/// overridden. Without a server, runs it in this process like 'noetl run'.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs rerun last --wait
  noetl runs rerun 4821 --set limit=10")]
pub(crate) struct RerunArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Override a workload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with workload values as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    wait_args: WaitArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Send a signal to a run
///
/// A step that waits for the signal continues. A later wait that also accepts earlier signals
/// receives it too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs signal last paid --set amount=12
  noetl runs signal 4821 paid --key order-7 --payload order.json")]
pub(crate) struct SignalArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Name of the signal
    name: String,
    /// Correlation key: a wait with a key accepts only signals with that key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Set a payload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with the payload as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

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
    client: ClientArgs,
}

/// Values as JSON, unless there are none.
fn non_empty(values: JsonMap) -> Option<Json> {
    (!values.is_empty()).then(|| Json::from(values))
}

pub(super) fn rerun(args: &RerunArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let workload = non_empty(read_payload(args.payload.as_deref(), &args.sets, io)?);
    let mut server = args.client.connect_to_server(io)?;
    let execution_pool = server.start_local_worker(io)?;
    let target = &server.target;
    server.block_on(async {
        args.wait_args.check_rights(target).await?;
        let id = find_run(target, &args.run).await?;
        let request = RerunRequest { workload, execution_pool };
        let started = target.require_server()?.rerun_execution(id, &request).await?;
        args.wait_args.finish(&started, args.client.output, target, io).await
    })
}

pub(super) fn send_signal(args: &SignalArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let payload = non_empty(read_payload(args.payload.as_deref(), &args.sets, io)?);
    let server = args.client.connect_to_server(io)?;
    let id = server.block_on(find_run(&server.target, &args.run))?;
    let key = args.key.as_deref().map(Into::into);
    let request = SignalRequest { name: args.name.as_str().into(), key, payload };
    let response = server.send(async |client| client.send_signal(id, &request).await)?;
    if !args.client.output.is_table() {
        return args.client.output.print_item(&response, io);
    }
    let result = if response.delivered { "delivered" } else { "stored: no step waits for it yet" };
    writeln!(io.out, "{id} {result}")?;
    Ok(CommandExit::Ok)
}

pub(super) fn approve(args: &ApproveArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let values = non_empty(read_payload(args.values.as_deref(), &args.sets, io)?);
    let server = args.client.connect_to_server(io)?;
    let Some(run) = &args.run else {
        let pending = server.send(async |client| client.list_all_approvals().await)?.approvals;
        let note = "there are no pending approvals";
        return args.client.output.print_list_or_note(&pending, note, approval_table, io);
    };
    let id = server.block_on(find_run(&server.target, run))?;
    let step = if let Some(step) = &args.step {
        step.clone()
    } else {
        let query = ApprovalsQuery { execution_id: Some(id), ..ApprovalsQuery::default() };
        let pending = server.send(async |client| client.list_approvals(&query).await)?;
        single_pending_step(id, &pending.approvals)?
    };
    let request = ApproveRequest {
        step: StepName::new(step).map_err(|error| Error::invalid_argument("STEP", error))?,
        index: args.index,
        decision: if args.reject { "reject" } else { "approve" }.into(),
        comment: args.comment.as_deref().map(Into::into),
        values,
    };
    let response = server.send(async |client| client.submit_approval(id, &request).await)?;
    if !args.client.output.is_table() {
        return args.client.output.print_item(&response, io);
    }
    let verb = if response.decision == *"reject" { "rejected" } else { "approved" };
    writeln!(io.out, "{id} {} {verb}", request.step)?;
    Ok(CommandExit::Ok)
}

/// Returns the only step of the run that waits for an approval.
fn single_pending_step(id: ExecutionId, approvals: &[ApprovalView]) -> Result<String> {
    let of_run = approvals.iter().filter(|approval| approval.execution_id == id);
    let steps: Vec<String> = of_run.map(|approval| approval.step.to_string()).collect();
    match steps.as_slice() {
        [step] => Ok(step.clone()),
        [] => Err(Error::not_found(format!("no step of run {id} waits for an approval"))
            .with_help(format!("show why with: noetl runs explain {id}"))),
        _ => Err(Error::usage(format!("several steps wait for an approval: {}", steps.join(", ")))
            .with_help("specify one after the run")),
    }
}

fn approval_table<'t>(
    approvals: &'t [ApprovalView],
    times: &TimeFormatter,
) -> TextTable<'t, ApprovalView> {
    TextTable::new(approvals)
        .column("RUN", |approval| TableCell::styled(approval.execution_id, palette::NAME))
        .shrinkable("STEP", |approval| &approval.step)
        .column("SINCE", |approval| times.format_time(approval.since))
        .column("UNTIL", |approval| times.format_time_or_dash(approval.until))
        .shrinkable("TITLE", |approval| {
            TableCell::or_dash(approval.title.as_ref().and_then(Json::as_str))
        })
}
