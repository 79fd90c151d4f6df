//! `noetl runs show`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::{ExecutionDetail, ExecutionLine};
use noetl_types::{ExecutionStatus, Json, Timestamp};
use serde::Serialize;

use super::list::playbook;
use super::timeline::{Bar, Doing, Ended, Timeline};
use super::{events, find, status};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::{Io, Paint};
use crate::output::{Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::{columns, counted, shorten, visible};
use crate::roles::Host;

/// Show a run as a timeline of its steps
///
/// Each step is a bar: when it waited for a worker, ran, waited for its next attempt, or waited for
/// a signal, a person, a time or another run. The iterations of a loop share one bar.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs show last
  noetl runs show 4821 -o json | jq .result")]
pub(crate) struct ShowArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Events of a log that bars are made of.
const MAX_EVENTS: usize = 50_000;
/// Bars that are drawn; of the others only their number.
const MAX_BARS: usize = 200;
/// Columns for the names of steps at most.
const MAX_NAME: usize = 24;
/// Columns of the bars at least and at most.
const BARS: std::ops::RangeInclusive<usize> = 10..=60;

pub(super) fn run(args: &ShowArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    reached.ask(show(args, &reached.host, quiet, io))
}

/// A run and its bars, for programs.
#[derive(Serialize)]
struct Shown<'s> {
    #[serde(flatten)]
    line: &'s ExecutionLine,
    workload: &'s Json,
    result: &'s Option<Json>,
    steps: &'s [Bar],
}

async fn show(args: &ShowArgs, host: &Host, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let id = find(host, &args.run).await?;
    let run = host.detail(id).await?;
    let log = events::whole(host, id, MAX_EVENTS, io).await?;
    let times = args.output.times(io);
    let timeline = Timeline::of(&log, times.now);
    if !args.output.is_table() {
        let shown = Shown {
            line: &run.line,
            workload: &run.workload,
            result: &run.result,
            steps: timeline.as_ref().map_or(&[], |timeline| &timeline.bars),
        };
        args.output.thing(&shown, io)?;
        return Ok(Exit::Ok);
    }
    head(&run, &times, io)?;
    if let Some(timeline) = &timeline {
        draw(timeline, io)?;
    }
    if let Some(error) = &run.line.error {
        let word = io.out.paint().text(palette::BAD, "error");
        writeln!(io.out, "\n{word}: {}", visible(error))?;
    }
    if !quiet {
        tips(&run.line, io)?;
    }
    Ok(Exit::Ok)
}

fn head(run: &ExecutionDetail, times: &Times, io: &mut Io<'_>) -> Result<(), Error> {
    let line = &run.line;
    let took = line
        .completed_at
        .unwrap_or(times.now)
        .since(line.started_at);
    let mut facts = vec![
        ("run", line.execution_id.to_string().into()),
        ("playbook", playbook(line).into()),
        ("status", status(line.status)),
        ("started", times.tell(line.started_at).into()),
        ("took", took.human().into()),
        ("events", line.event_count.to_string().into()),
    ];
    if let Some(parent) = line.parent_execution_id {
        facts.push(("parent", parent.to_string().into()));
    }
    let mut table = Table::new([
        crate::output::Column::new(""),
        crate::output::Column::new("").gives_way(),
    ]);
    for (name, value) in facts {
        table.row([crate::output::Cell::styled(name, palette::QUIET), value]);
    }
    let text = table.render(false, false, &io.out);
    write!(io.out, "{text}")?;
    Ok(())
}

fn draw(timeline: &Timeline, io: &mut Io<'_>) -> Result<(), Error> {
    let bars = &timeline.bars;
    if bars.is_empty() {
        return Ok(());
    }
    let paint = io.out.paint();
    let names = bars.iter().map(|bar| columns(&visible(&bar.step))).max();
    let names = names.unwrap_or(0).min(MAX_NAME);
    let notes: Vec<String> = bars.iter().map(|bar| note(bar, timeline.to)).collect();
    let longest = notes.iter().map(|note| columns(note)).max().unwrap_or(0);
    let room = io.out.width().saturating_sub(names + longest.min(28) + 6);
    let width = room.clamp(*BARS.start(), *BARS.end());
    writeln!(io.out)?;
    for (bar, note) in bars.iter().zip(&notes).take(MAX_BARS) {
        let (sign, style) = sign(bar.ended);
        let name = shorten(&visible(&bar.step), names, "…");
        let blanks = " ".repeat(names.saturating_sub(columns(&name)));
        let drawn = drawn(bar, timeline, width, paint);
        let left = io.out.width().saturating_sub(names + width + 6);
        let note = if io.out.is_terminal() {
            shorten(note, left, "…")
        } else {
            note.clone()
        };
        let line = format!(
            "{} {name}{blanks}  {drawn}  {note}",
            paint.text(style, sign)
        );
        writeln!(io.out, "{}", line.trim_end())?;
    }
    if bars.len() > MAX_BARS {
        let more = counted(bars.len() - MAX_BARS, "step");
        writeln!(io.out, "  and {more} more")?;
    }
    let legend = [
        (Doing::Running, "runs"),
        (Doing::Queued, "waits for a worker"),
        (Doing::Retrying, "tries again"),
        (Doing::Waiting, "waits"),
    ]
    .map(|(doing, word)| format!("{} {word}", doing.letter()));
    let legend = format!("  {}", legend.join("   "));
    writeln!(io.out, "{}", paint.text(palette::QUIET, legend))?;
    Ok(())
}

fn drawn(bar: &Bar, timeline: &Timeline, width: usize, paint: Paint) -> String {
    let mut text = String::new();
    let drawn = bar.drawn(timeline.from, timeline.to, width);
    // Runs of the same letter are painted together.
    for same in drawn.chunk_by(|left, right| left == right) {
        let (letter, style) = match same.first().copied().flatten() {
            None => (' ', anstyle::Style::new()),
            Some(doing) => (doing.letter(), style(doing)),
        };
        let letters: String = std::iter::repeat_n(letter, same.len()).collect();
        text.push_str(&paint.text(style, letters).to_string());
    }
    text
}

fn style(doing: Doing) -> anstyle::Style {
    match doing {
        Doing::Running => palette::GOOD,
        Doing::Queued => palette::QUIET,
        Doing::Retrying => palette::CONDITION,
        Doing::Waiting => palette::CODE,
    }
}

fn sign(ended: Ended) -> (&'static str, anstyle::Style) {
    match ended {
        Ended::Completed => ("✓", palette::GOOD),
        Ended::Failed => ("✗", palette::BAD),
        Ended::Cancelled => ("–", palette::DOUBT),
        Ended::Skipped => ("–", palette::QUIET),
        Ended::Open => ("▸", palette::CODE),
    }
}

fn note(bar: &Bar, now: Timestamp) -> String {
    if bar.ended == Ended::Skipped {
        return "skipped".to_owned();
    }
    let mut parts = vec![bar.to.since(bar.from).human()];
    if let Some(items) = bar.items {
        parts.push(counted(
            usize::try_from(items).unwrap_or(usize::MAX),
            "item",
        ));
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
    if let Some(again) = bar.retry_at {
        parts.push(format!("again in {}", again.since(now).human()));
    }
    parts.join(", ")
}

fn tips(run: &ExecutionLine, io: &mut Io<'_>) -> Result<(), Error> {
    let id = run.execution_id;
    let tip = match run.status {
        ExecutionStatus::Failed => Some(format!("noetl runs explain {id} says more")),
        ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
            Some(format!("noetl runs explain {id} says what it waits for"))
        }
        ExecutionStatus::Completed | ExecutionStatus::Cancelled => None,
    };
    if let Some(tip) = tip {
        let paint = io.err.paint();
        io.talk(paint.text(palette::QUIET, tip))?;
    }
    Ok(())
}
