//! `noetl runs explain`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::CatalogResourceRequest;
use noetl_api::explain::{
    CausalEvent, ExecutionExplanation, ExplainQuery, FailureView, PointInTime, WaitCondition,
};
use noetl_types::{ExecutionId, ExecutionStatus, Seq, TaskError, Text, Timestamp};

use super::find_run;
use crate::commands::replay::parse_time;
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::progress::{PlaybookSource, render_step_failure};
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::roles::Target;
use crate::target::{Access, TargetConnection};

/// Explain why a run waits or failed
///
/// Possible reasons are a missing worker, a pending retry, a worker that holds a command, a join, a
/// signal, an approval, another run, a concurrency slot or a pause. For a failed run, shows the
/// first uncaught error and its line in the playbook.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs explain last
  noetl runs explain last --step load --why   with the events that led to it
  noetl runs explain 4821 --at-seq 12         the state after twelve events")]
pub(crate) struct RunsExplainArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Filter by step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Explain the state after the event at this position
    #[arg(long, value_name = "N", conflicts_with = "at_time", value_parser = parse_seq)]
    at_seq: Option<Seq>,
    /// Explain the state at this time of recording, such as 2026-11-16T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at_time: Option<Timestamp>,
    /// Show the events that led to the state
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

fn parse_seq(text: &str) -> Result<Seq, String> {
    let number = text.parse().map_err(|_| "not a number".to_owned())?;
    Seq::new(number).map_err(|error| error.to_string())
}

pub(super) fn run(
    args: &RunsExplainArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    connection.block_on(explain_run(args, &connection.target, io))
}

async fn explain_run(
    args: &RunsExplainArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let id = find_run(target, &args.run).await?;
    let query = ExplainQuery {
        step: args.step.as_deref().map(Text::from),
        at: (args.at_seq.map(PointInTime::Seq)).or(args.at_time.map(PointInTime::Time)),
    };
    let explanation = target.explain_execution(id, query).await?;
    if !args.output.is_table() {
        args.output.print_item(&explanation, io)?;
        return Ok(CommandExit::Ok);
    }
    let times = args.output.time_formatter(io);
    let paint = io.out.paint();
    let status = paint.text(palette::NAME, explanation.status);
    writeln!(io.out, "{status}: {}", escape_control(&explanation.summary))?;
    if !explanation.waiting_on.is_empty() {
        writeln!(io.out)?;
        args.output.print_table(&wait_table(&explanation.waiting_on, &times), io)?;
        if explanation.more > 0 {
            writeln!(io.out, "and {} more", explanation.more)?;
        }
    }
    if let Some(failure) = &explanation.failure {
        writeln!(io.out)?;
        print_failure(id, failure, target, io).await?;
    }
    if args.why && !explanation.cause.is_empty() {
        writeln!(io.out)?;
        args.output.print_table(&cause_table(&explanation.cause, &times), io)?;
    }
    print_suggestion(&explanation, io)?;
    Ok(CommandExit::Ok)
}

fn wait_table(waits: &[WaitCondition], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("STEP").shrinkable(),
        TableColumn::new("N").align_right(),
        TableColumn::new("WAITS FOR"),
        TableColumn::new("SINCE"),
        TableColumn::new("UNTIL"),
        TableColumn::new("HELD BY").shrinkable(),
        TableColumn::new("DETAIL").shrinkable(),
    ]);
    for wait in waits {
        table.add_row([
            TableCell::styled(wait.step.as_deref().unwrap_or("(the run)"), palette::NAME),
            wait.count.to_string().into(),
            wait.kind.as_str().into(),
            times.format_time_or_dash(wait.since).into(),
            times.format_time_or_dash(wait.until).into(),
            join_holders(&wait.holders).into(),
            wait.detail.as_str().into(),
        ]);
    }
    table
}

fn join_holders(holders: &[Text]) -> String {
    let names: Vec<&str> = holders.iter().map(Text::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn cause_table(causes: &[CausalEvent], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("SEQ").align_right(),
        TableColumn::new("TIME"),
        TableColumn::new("EVENT"),
        TableColumn::new("STEP").shrinkable(),
        TableColumn::new("WHY").shrinkable(),
    ]);
    for cause in causes {
        table.add_row([
            cause.seq.to_string().into(),
            times.format_time(cause.at).into(),
            cause.event_type.as_str().into(),
            cause.step.as_deref().unwrap_or("-").into(),
            cause.why.as_str().into(),
        ]);
    }
    table
}

/// Prints an error with its source line. Without the playbook, prints only the error.
async fn print_failure(
    id: ExecutionId,
    failure: &FailureView,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let error = TaskError::from_json(&failure.error);
    let source = fetch_playbook_source(id, target).await?;
    let step = failure.step.as_deref().unwrap_or_default();
    let text = render_step_failure(source.as_ref(), step, &error, &io.out);
    writeln!(io.out, "{text}")?;
    Ok(())
}

/// Fetches the playbook version of a run.
pub(crate) async fn fetch_playbook_source(
    id: ExecutionId,
    target: &Target,
) -> Result<Option<PlaybookSource>, Error> {
    let execution = target.fetch_execution(id).await?;
    let Some(catalog_id) = execution.summary.catalog_id else {
        return Ok(None);
    };
    let request = CatalogResourceRequest {
        catalog_id: Some(catalog_id),
        ..CatalogResourceRequest::default()
    };
    let definition = target.find_definition(request).await?;
    Ok(PlaybookSource::parse_playbook(
        format!("{}@{}", definition.path, definition.version),
        definition.content.to_string(),
    ))
}

/// Prints the command that resolves the wait or failure.
fn print_suggestion(explanation: &ExecutionExplanation, io: &mut Io<'_>) -> Result<(), Error> {
    use noetl_api::explain::WaitConditionKind;
    let id = explanation.execution_id;
    let first_wait = explanation.waiting_on.first();
    let step = first_wait.and_then(|first_wait| first_wait.step.as_deref()).unwrap_or("STEP");
    let suggestion = match first_wait.map(|first_wait| first_wait.kind) {
        Some(WaitConditionKind::Paused) => format!("noetl runs resume {id}"),
        Some(WaitConditionKind::Pool) => {
            "noetl worker list, and noetl worker to start one".to_owned()
        }
        Some(WaitConditionKind::Approval) => format!("noetl runs approve {id} {step}"),
        Some(WaitConditionKind::Signal) => format!("noetl runs signal {id} NAME"),
        Some(WaitConditionKind::Child) => {
            let child = first_wait.and_then(|first_wait| first_wait.holders.first());
            format!("noetl runs explain {}", child.map_or("RUN", Text::as_str))
        }
        None if explanation.status == ExecutionStatus::Failed => format!("noetl runs rerun {id}"),
        Some(_) | None => return Ok(()),
    };
    let paint = io.err.paint();
    let label = paint.text(palette::HELP, "try");
    io.print_message(format_args!("{label}: {}", escape_control(&suggestion)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::empty;

    use noetl_api::explain::WaitConditionKind;

    use super::*;
    use crate::io::{Env, OutputStream};
    use crate::output::{OutputFormat, TimeStyle};
    use crate::render::text_layout::display_width;

    fn sample_wait(
        step: &str,
        kind: WaitConditionKind,
        holder: &str,
        detail: &str,
    ) -> WaitCondition {
        WaitCondition {
            kind,
            step: Some(step.into()),
            detail: detail.into(),
            since: None,
            until: None,
            holders: vec![holder.into()],
            count: 1,
        }
    }

    /// The default columns include the reason of each wait.
    #[test]
    fn every_wait_shows_its_reason() {
        let waits = [
            sample_wait("train", WaitConditionKind::Pool, "gpu", "no worker of pool gpu is alive"),
            sample_wait(
                "ship",
                WaitConditionKind::Approval,
                "ops",
                "somebody has to approve the release",
            ),
            sample_wait(
                "pay",
                WaitConditionKind::Signal,
                "paid",
                "the signal 'paid' of order-7 has not come",
            ),
        ];
        let output = OutputArgs {
            format: OutputFormat::Table,
            no_headers: false,
            time: Some(TimeStyle::Iso),
        };
        let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
        let io = Io {
            input: &mut input,
            out: OutputStream::plain(&mut out),
            err: OutputStream::terminal(&mut err, 60),
            env: Env::default(),
        };
        let table = wait_table(&waits, &output.time_formatter(&io));
        insta::assert_snapshot!(table.render_table(false, true, &io.out), @r"
        STEP   N  WAITS FOR  SINCE  UNTIL  HELD BY  DETAIL
        train  1  pool       -      -      gpu      no worker of pool gpu is alive
        ship   1  approval   -      -      ops      somebody has to approve the release
        pay    1  signal     -      -      paid     the signal 'paid' of order-7 has not come
        ");
        let narrow = table.render_table(false, true, &io.err);
        let narrow = anstream::adapter::strip_str(&narrow).to_string();
        assert!(narrow.lines().all(|line| display_width(line) <= 60), "{narrow}");
        for reason in ["no worker of", "somebody has", "the signal"] {
            assert!(narrow.contains(reason), "{narrow}");
        }
    }
}
