//! `noetl runs explain`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::CatalogResourceRequest;
use noetl_api::explain::{
    CausalEvent, ExecutionExplanation, ExplainQuery, FailureView, PointInTime, WaitCondition,
};
use noetl_api::query::EventsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{EventType, ExecutionId, ExecutionStatus, Seq, TaskError, Text, Timestamp};

use super::find_run;
use crate::commands::replay::parse_time;
use crate::connection::ClientArgs;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::progress::{PlaybookSource, error_summary, event_error, render_step_failure};
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::roles::Target;

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
    client: ClientArgs,
}

/// Maximum failed commands of a completed run that are listed.
const MAX_LISTED_FAILURES: i64 = 20;

fn parse_seq(text: &str) -> Result<Seq, String> {
    let number = text.parse().map_err(|_| "not a number".to_owned())?;
    Seq::new(number).map_err(|error| error.to_string())
}

pub(super) fn run(args: &RunsExplainArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    connection.block_on(explain_run(args, &connection.target, io))
}

async fn explain_run(
    args: &RunsExplainArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let id = find_run(target, &args.run).await?;
    let query = ExplainQuery {
        step: args.step.as_deref().map(Text::from),
        at: (args.at_seq.map(PointInTime::Seq)).or(args.at_time.map(PointInTime::Time)),
    };
    let explanation = target.explain_execution(id, query).await?;
    if !args.client.output.is_table() {
        return args.client.output.print_item(&explanation, io);
    }
    let times = args.client.output.time_formatter(io);
    let paint = io.out.paint();
    let status = paint.text(palette::NAME, explanation.status);
    writeln!(io.out, "{status}: {}", escape_control(&explanation.summary))?;
    if !explanation.waiting_on.is_empty() {
        writeln!(io.out)?;
        args.client.output.print_table(&wait_table(&explanation.waiting_on, &times), io)?;
        if explanation.more > 0 {
            writeln!(io.out, "and {} more", explanation.more)?;
        }
    }
    if let Some(failure) = &explanation.failure {
        writeln!(io.out)?;
        print_failure(id, failure, target, io).await?;
    }
    if explanation.status == ExecutionStatus::Completed {
        print_caught_failures(id, target, io).await?;
    }
    if args.why && !explanation.cause.is_empty() {
        writeln!(io.out)?;
        args.client.output.print_table(&cause_table(&explanation.cause, &times), io)?;
    }
    print_suggestion(&explanation, io)?;
    Ok(CommandExit::Ok)
}

fn wait_table<'t>(
    waits: &'t [WaitCondition],
    times: &TimeFormatter,
) -> TextTable<'t, WaitCondition> {
    let holders = |wait: &WaitCondition| {
        let names: Vec<&str> = wait.holders.iter().map(Text::as_str).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    };
    TextTable::new(waits)
        .shrinkable("STEP", |wait| {
            TableCell::styled(wait.step.as_deref().unwrap_or("(the run)"), palette::NAME)
        })
        .right("N", |wait| wait.count)
        .column("WAITS FOR", |wait| wait.kind.as_str())
        .column("SINCE", |wait| times.format_time_or_dash(wait.since))
        .column("UNTIL", |wait| times.format_time_or_dash(wait.until))
        .shrinkable("HELD BY", holders)
        .shrinkable("DETAIL", |wait| &wait.detail)
}

fn cause_table<'t>(causes: &'t [CausalEvent], times: &TimeFormatter) -> TextTable<'t, CausalEvent> {
    TextTable::new(causes)
        .right("SEQ", |cause| cause.seq)
        .column("TIME", |cause| times.format_time(cause.at))
        .column("EVENT", |cause| cause.event_type.as_str())
        .shrinkable("STEP", |cause| TableCell::or_dash(cause.step.as_ref()))
        .shrinkable("WHY", |cause| &cause.why)
}

/// Prints an error with its source line. Without the playbook, prints only the error.
async fn print_failure(
    id: ExecutionId,
    failure: &FailureView,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<()> {
    let error = TaskError::from_json(&failure.error);
    let source = fetch_playbook_source(id, target).await?;
    let step = failure.step.as_deref().unwrap_or_default();
    let text = render_step_failure(source.as_ref(), step, &error, &io.out);
    writeln!(io.out, "{text}")?;
    Ok(())
}

/// Prints the commands of a completed run that failed: items of loops, and steps whose errors were
/// caught.
async fn print_caught_failures(id: ExecutionId, target: &Target, io: &mut Io<'_>) -> Result<()> {
    let query = EventsQuery {
        event_type: Some(EventType::CommandFailed.into()),
        limit: PageLimit::clamped(MAX_LISTED_FAILURES),
        ..EventsQuery::default()
    };
    let page = target.fetch_events(id, query).await?;
    if page.events.is_empty() {
        return Ok(());
    }
    writeln!(io.out, "\nfailed commands, which did not end the run:")?;
    for event in &page.events {
        let error = event_error(event);
        let step = escape_control(event.node_name.as_deref().unwrap_or("-"));
        let meta = event.meta.as_ref().filter(|meta| meta.get("collection_size").is_some());
        let index = meta.and_then(|meta| meta.get("index"));
        let item = index.map_or_else(String::new, |index| format!(" [{index}]"));
        writeln!(io.out, "  {step}{item}: {}", error_summary(&error))?;
    }
    if page.next_cursor.is_some() {
        writeln!(io.out, "  and more; see: noetl runs events {id} --type command.failed")?;
    }
    Ok(())
}

/// Fetches the playbook version of a run.
pub(crate) async fn fetch_playbook_source(
    id: ExecutionId,
    target: &Target,
) -> Result<Option<PlaybookSource>> {
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
fn print_suggestion(explanation: &ExecutionExplanation, io: &mut Io<'_>) -> Result<()> {
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
mod tests;
