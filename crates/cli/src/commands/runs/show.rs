//! `noetl runs show`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::{ExecutionDetail, ExecutionSummary};
use noetl_types::{ExecutionStatus, Json, Timestamp};
use serde::Serialize;

use super::list::playbook_name;
use super::timeline::{StepActivity, StepBar, StepOutcome, Timeline};
use super::{events, find_run, status_cell};
use crate::connection::ClientArgs;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::{ColorPaint, Io};
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::{display_width, escape_control, pluralize, truncate_to_width};
use crate::roles::Target;

/// Show a run as a timeline of its steps
///
/// Each step is a bar that shows when it waited for a worker, ran, waited for a retry, or waited
/// for a signal, an approval, a time or another run. The iterations of a loop share one bar.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs show last
  noetl runs show 4821 -o json | jq .result")]
pub(crate) struct RunsShowArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Maximum events used for the timeline.
const MAX_TIMELINE_EVENTS: usize = 50_000;
/// Maximum bars drawn. Further steps are only counted.
const MAX_DRAWN_BARS: usize = 200;
/// Maximum width of step names.
const MAX_NAME_WIDTH: usize = 24;
/// Width of the bars.
const BAR_WIDTH: std::ops::RangeInclusive<usize> = 10..=60;

pub(super) fn run(args: &RunsShowArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    connection.block_on(show_run(args, &connection.target, io))
}

/// A run and its bars, for JSON output.
#[derive(Serialize)]
struct RunOutput<'s> {
    #[serde(flatten)]
    summary: &'s ExecutionSummary,
    workload: &'s Json,
    result: &'s Option<Json>,
    steps: &'s [StepBar],
}

async fn show_run(args: &RunsShowArgs, target: &Target, io: &mut Io<'_>) -> Result<CommandExit> {
    let id = find_run(target, &args.run).await?;
    let run = target.fetch_execution(id).await?;
    let log = events::fetch_log(target, id, MAX_TIMELINE_EVENTS, io).await?;
    let times = args.client.output.time_formatter(io);
    let timeline = Timeline::from_events(&log, times.now);
    if !args.client.output.is_table() {
        let output = RunOutput {
            summary: &run.summary,
            workload: &run.workload,
            result: &run.result,
            steps: timeline.as_ref().map_or(&[], |timeline| &timeline.bars),
        };
        return args.client.output.print_item(&output, io);
    }
    print_summary(&run, &times, io)?;
    if let Some(timeline) = &timeline {
        draw_timeline(timeline, io)?;
    }
    if let Some(error) = &run.summary.error {
        // A cancelled run has a reason, which is not an error.
        let (label, style) = match run.summary.status {
            ExecutionStatus::Cancelled => ("reason", palette::CAUTION),
            _ => ("error", palette::FAILURE),
        };
        let label = io.out.paint().text(style, label);
        writeln!(io.out, "\n{label}: {}", escape_control(error))?;
    }
    let id = run.summary.execution_id;
    match run.summary.status {
        ExecutionStatus::Failed => {
            io.print_tip(format_args!("show details with: noetl runs explain {id}"))?;
        }
        ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
            io.print_tip(format_args!("show what it waits for with: noetl runs explain {id}"))?;
        }
        ExecutionStatus::Completed | ExecutionStatus::Cancelled => {}
    }
    Ok(CommandExit::Ok)
}

fn print_summary(run: &ExecutionDetail, times: &TimeFormatter, io: &mut Io<'_>) -> Result<()> {
    let summary = &run.summary;
    let took = summary.completed_at.unwrap_or(times.now).duration_since(summary.started_at);
    let mut rows: Vec<(&str, TableCell)> = vec![
        ("run", summary.execution_id.into()),
        ("playbook", playbook_name(summary).into()),
        ("status", status_cell(summary.status)),
        ("started", times.format_time(summary.started_at).into()),
        ("took", took.to_human().into()),
        ("events", summary.event_count.into()),
    ];
    rows.extend(summary.parent_execution_id.map(|parent| ("parent", parent.into())));
    let table = TextTable::new(&rows)
        .column("", |(name, _)| TableCell::styled(name, palette::MUTED))
        .shrinkable("", |(_, value)| value.clone());
    Ok(write!(io.out, "{}", table.render_table(false, false, &io.out))?)
}

fn draw_timeline(timeline: &Timeline, io: &mut Io<'_>) -> Result<()> {
    let bars = &timeline.bars;
    if bars.is_empty() {
        return Ok(());
    }
    let paint = io.out.paint();
    let name_width = bars.iter().map(|bar| display_width(&escape_control(&bar.step))).max();
    let name_width = name_width.unwrap_or(0).min(MAX_NAME_WIDTH);
    let notes: Vec<String> = bars.iter().map(|bar| bar_note(bar, timeline.to)).collect();
    let note_width = notes.iter().map(|note| display_width(note)).max().unwrap_or(0);
    let available = io.out.width().saturating_sub(name_width + note_width.min(28) + 6);
    let width = available.clamp(*BAR_WIDTH.start(), *BAR_WIDTH.end());
    writeln!(io.out)?;
    for (bar, note) in bars.iter().zip(&notes).take(MAX_DRAWN_BARS) {
        let (sign, style) = outcome_sign(bar.ended);
        let name = truncate_to_width(&escape_control(&bar.step), name_width, "…");
        let blanks = " ".repeat(name_width.saturating_sub(display_width(&name)));
        let drawn_bar = draw_bar(bar, timeline, width, paint);
        let remaining = io.out.width().saturating_sub(name_width + width + 6);
        let note = if io.out.is_terminal() {
            truncate_to_width(note, remaining, "…")
        } else {
            note.clone()
        };
        let line = format!("{} {name}{blanks}  {drawn_bar}  {note}", paint.text(style, sign));
        writeln!(io.out, "{}", line.trim_end())?;
    }
    if bars.len() > MAX_DRAWN_BARS {
        let more = pluralize(bars.len() - MAX_DRAWN_BARS, "step");
        writeln!(io.out, "  and {more} more")?;
    }
    let legend = [
        (StepActivity::Running, "running"),
        (StepActivity::Queued, "waiting for a worker"),
        (StepActivity::Retrying, "waiting for a retry"),
        (StepActivity::Waiting, "waiting"),
    ]
    .map(|(activity, label)| format!("{} {label}", activity.symbol()));
    let legend = format!("  {}", legend.join("   "));
    writeln!(io.out, "{}", paint.text(palette::MUTED, legend))?;
    Ok(())
}

fn draw_bar(bar: &StepBar, timeline: &Timeline, width: usize, paint: ColorPaint) -> String {
    let mut text = String::new();
    let columns = bar.to_columns(timeline.from, timeline.to, width);
    // Consecutive equal characters are painted together.
    for chunk in columns.chunk_by(|left, right| left == right) {
        let (symbol, style) = match chunk.first().copied().flatten() {
            None => (' ', anstyle::Style::new()),
            Some(activity) => (activity.symbol(), activity_style(activity)),
        };
        let symbols: String = std::iter::repeat_n(symbol, chunk.len()).collect();
        text.push_str(&paint.text(style, symbols).to_string());
    }
    text
}

fn activity_style(activity: StepActivity) -> anstyle::Style {
    match activity {
        StepActivity::Running => palette::SUCCESS,
        StepActivity::Queued => palette::MUTED,
        StepActivity::Retrying => palette::CONDITION,
        StepActivity::Waiting => palette::CODE,
    }
}

fn outcome_sign(outcome: StepOutcome) -> (&'static str, anstyle::Style) {
    match outcome {
        StepOutcome::Completed => ("✓", palette::SUCCESS),
        StepOutcome::Failed => ("✗", palette::FAILURE),
        StepOutcome::Cancelled => ("–", palette::CAUTION),
        StepOutcome::Skipped => ("–", palette::MUTED),
        StepOutcome::Open => ("▸", palette::CODE),
    }
}

fn bar_note(bar: &StepBar, now: Timestamp) -> String {
    if bar.ended == StepOutcome::Skipped {
        return "skipped".to_owned();
    }
    let mut parts = vec![bar.to.duration_since(bar.from).to_human()];
    if let Some(items) = bar.items {
        parts.push(pluralize(usize::try_from(items).unwrap_or(usize::MAX), "item"));
    }
    if bar.runs > 1 {
        parts.push(format!("{} runs", bar.runs));
    }
    if bar.items.is_some() && bar.failed > 0 {
        parts.push(format!("{} failed", bar.failed));
    }
    match bar.retries {
        0 => {}
        1 => parts.push("1 retry".to_owned()),
        retries => parts.push(format!("{retries} retries")),
    }
    if let Some(retry_at) = bar.retry_at {
        parts.push(format!("retry in {}", retry_at.duration_since(now).to_human()));
    }
    parts.join(", ")
}
