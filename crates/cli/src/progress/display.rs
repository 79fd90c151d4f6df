//! Writing it: lines that stay, and on a terminal also what goes on right now.

use std::io;

use noetl_api::execution::EventView;
use noetl_playbook::model::Playbook;
use noetl_playbook::source::Span;
use noetl_playbook::{CheckOptions, Document, check, origin};
use noetl_types::{ExecutionStatus, TaskError, Timestamp};

use super::live::Live;
use super::moment::{At, Moment};
use super::story::{Active, Note, Story, Taken};
use crate::io::{Io, Paint, Stream};
use crate::render::words::{columns, counted, shorten, visible};
use crate::render::{diagnostic, palette};

/// How a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Failures only.
    Quiet,
    /// A line for each thing that happens.
    Lines,
    /// What ended, and below it what goes on.
    Live,
}

/// The playbook that runs, to point into.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) playbook: Box<Playbook>,
}

/// Tells of a run.
#[derive(Debug)]
pub(crate) struct Display<'f> {
    style: Style,
    /// The playbook, where it is at hand.
    flow: Option<&'f Flow>,
    story: Story,
    live: Live,
    /// Columns for the names of steps.
    names: usize,
    ticks: usize,
    has_told_failure: bool,
}

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Names of steps beyond this many columns are not lined up.
const MAX_NAMES: usize = 32;
/// Steps that are shown at once; of the others only their number.
const MAX_ACTIVE: usize = 12;
/// Columns of a bar.
const BAR: u32 = 20;
/// Letters of an error that stands in a line.
const MAX_ERROR: usize = 200;

impl<'f> Display<'f> {
    pub(crate) fn new(style: Style, flow: Option<&'f Flow>) -> Self {
        let steps = flow.iter().flat_map(|flow| &flow.playbook.workflow);
        let widest = steps.map(|step| columns(&step.name.value)).max();
        Self {
            style,
            flow,
            story: Story::default(),
            live: Live::default(),
            names: widest.unwrap_or(0).min(MAX_NAMES),
            ticks: 0,
            has_told_failure: false,
        }
    }

    /// How the run ended, if it has.
    pub(crate) fn end(&self) -> Option<ExecutionStatus> {
        self.story.end()
    }

    /// Whether a failure that nothing caught was told, with its place.
    pub(crate) fn has_told_failure(&self) -> bool {
        self.has_told_failure
    }

    /// Tells of events.
    pub(crate) fn take(&mut self, events: &[EventView], io: &mut Io<'_>) -> io::Result<()> {
        let mut told = Vec::new();
        for event in events {
            let Some(moment) = Moment::of(event) else {
                continue;
            };
            for note in self.story.go_on(moment, event.created_at) {
                self.tell(&note, io, &mut told);
            }
        }
        if told.is_empty() {
            return Ok(());
        }
        self.live.erase(&mut io.err)?;
        for line in told {
            io.talk(line)?;
        }
        Ok(())
    }

    /// Shows what goes on right now, on a terminal.
    pub(crate) fn tick(&mut self, now: Timestamp, io: &mut Io<'_>) -> io::Result<()> {
        if self.style != Style::Live {
            return Ok(());
        }
        self.ticks = self.ticks.wrapping_add(1);
        let width = io.err.width();
        let paint = io.err.paint();
        let spinner = SPINNER[self.ticks % SPINNER.len()];
        let mut lines: Vec<String> = Vec::new();
        for (at, active) in self.story.active().take(MAX_ACTIVE) {
            let text = format!("{}  {}", self.name(at), going_on(active, now));
            let text = shorten(&text, width.saturating_sub(3), "…");
            lines.push(format!("{} {text}", paint.text(palette::CODE, spinner)));
        }
        let hidden = self.story.active().skip(MAX_ACTIVE).count();
        if hidden > 0 {
            lines.push(format!("  and {} more", counted(hidden, "step")));
        }
        self.live.draw(&lines, &mut io.err)
    }

    /// Leaves only what stays.
    pub(crate) fn finish(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        self.live.erase(&mut io.err)
    }

    fn tell(&mut self, note: &Note, io: &Io<'_>, told: &mut Vec<String>) {
        if let Some(line) = self.line(note, io) {
            told.push(line);
        }
        if let Note::Failed {
            at,
            error,
            is_caught: false,
            ..
        } = note
        {
            told.push(failure_in(self.flow, &at.step, error, &io.err));
            self.has_told_failure = true;
        }
    }

    /// The line of a note, if it has one here.
    fn line(&self, note: &Note, io: &Io<'_>) -> Option<String> {
        let paint = io.err.paint();
        let width = io.err.width();
        if self.style == Style::Quiet {
            return None;
        }
        let (sign, style, text) = match note {
            Note::Entered { .. } if self.style == Style::Live => return None,
            Note::Entered { at, items } => {
                let items = items.map_or_else(String::new, |items| {
                    format!("  {}", counted(items as usize, "item"))
                });
                ("▸", palette::QUIET, format!("{}{items}", self.name(at)))
            }
            Note::Completed { at, took } => {
                let text = format!("{}  {}", self.name(at), taken(took));
                ("✓", palette::GOOD, text)
            }
            Note::Failed {
                at,
                took,
                error,
                is_caught,
            } => {
                let name = self.name(at);
                let took = taken(took);
                let text = if *is_caught {
                    format!("{name}  {took}, failed and caught: {}", brief(error))
                } else {
                    format!("{name}  {took}, failed")
                };
                ("✗", palette::BAD, text)
            }
            Note::Cancelled { at, took } => {
                let text = format!("{}  {}, given up", self.name(at), taken(took));
                ("–", palette::DOUBT, text)
            }
            Note::Retried { at, error, after } => {
                let (name, after) = (self.name(at), after.human());
                let text = format!("{name}  again in {after}: {}", brief(error));
                ("↻", palette::DOUBT, text)
            }
            Note::Expired { at, reason } => {
                let text = format!("{}  lost by its worker ({reason})", self.name(at));
                ("↻", palette::DOUBT, text)
            }
            Note::Skipped { step, reason } => {
                let name = self.padded(step);
                let text = format!("{name}  skipped: {}", reason.words());
                ("–", palette::QUIET, text)
            }
        };
        let text = text.trim_end();
        let text = if io.err.is_terminal() {
            shorten(text, width.saturating_sub(2), "…")
        } else {
            // Whoever reads it from a file has room for all of it.
            text.to_owned()
        };
        Some(painted(paint, sign, style, &text))
    }

    fn name(&self, at: &At) -> String {
        if at.run > 1 {
            self.padded(&format!("{} ({})", at.step, at.run))
        } else {
            self.padded(&at.step)
        }
    }

    fn padded(&self, name: &str) -> String {
        let name = visible(name);
        let blanks = self.names.saturating_sub(columns(&name));
        format!("{name}{}", " ".repeat(blanks))
    }
}

impl Flow {
    /// The playbook of a text, if it is one.
    pub(crate) fn of(file: String, text: String) -> Option<Self> {
        match check(&text, &CheckOptions::default()).document {
            Some(Document::Playbook(playbook)) => Some(Self {
                file,
                text,
                playbook,
            }),
            Some(Document::Subscription(_) | Document::Schedule(_) | Document::Other(_)) | None => {
                None
            }
        }
    }

    /// Where an error comes from.
    fn place(&self, step: &str, error: &TaskError) -> Option<Span> {
        let step = self.playbook.step(step)?;
        Some(origin(&self.text, step, error))
    }
}

/// An error with the line of the playbook that it comes from, where that is at hand.
pub(crate) fn failure_in(
    flow: Option<&Flow>,
    step: &str,
    error: &TaskError,
    stream: &Stream<'_>,
) -> String {
    let mut notes = Vec::new();
    if let Some(index) = error.index {
        notes.push(format!("in iteration {index}"));
    }
    if let Some(attempt) = error.attempt.filter(|attempt| *attempt > 1) {
        notes.push(format!("after {}", counted(attempt as usize, "attempt")));
    }
    let found = diagnostic::Failure {
        kind: error.kind.as_str(),
        message: &error.message,
        span: flow.and_then(|flow| flow.place(step, error)),
        notes: &notes,
    };
    let (file, text) = flow.map_or(("", ""), |flow| (&flow.file, &flow.text));
    diagnostic::render_failure(file, text, &found, stream)
}

fn painted(paint: Paint, sign: &str, style: anstyle::Style, text: &str) -> String {
    if style == palette::QUIET {
        return paint.text(style, format!("{sign} {text}")).to_string();
    }
    format!("{} {text}", paint.text(style, sign))
}

fn taken(took: &Taken) -> String {
    let mut text = took.time.human();
    if let Some(count) = took.count {
        text += &format!(
            ", {} of {}",
            count.done.saturating_sub(count.failed),
            count.of
        );
        if count.failed > 0 {
            text += &format!(", {} failed", count.failed);
        }
    }
    if took.retries > 0 {
        let noun = if took.retries == 1 {
            "retry"
        } else {
            "retries"
        };
        text += &format!(", {} {noun}", took.retries);
    }
    text
}

fn going_on(active: &Active, now: Timestamp) -> String {
    let mut text = String::new();
    if let Some(count) = active.count {
        let full = (u64::from(BAR) * u64::from(count.done)).checked_div(count.of.into());
        let full = usize::try_from(full.unwrap_or(0))
            .unwrap_or(0)
            .min(BAR as usize);
        let rest = BAR as usize - full;
        text += &format!(
            "{}{} {}/{}  ",
            "━".repeat(full),
            "─".repeat(rest),
            count.done,
            count.of
        );
        if count.failed > 0 {
            text += &format!("{} failed  ", count.failed);
        }
    }
    text += &now.since(active.since).human();
    if let Some(error) = &active.trouble {
        text += &format!("  trying again: {}", brief(error));
    }
    text
}

/// An error in a line.
fn brief(error: &TaskError) -> String {
    let first = error.message.lines().next().unwrap_or_default();
    shorten(&visible(first), MAX_ERROR, "…")
}
