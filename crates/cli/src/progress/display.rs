//! Prints the progress: permanent lines, and on a terminal also the active steps.

use std::io::{self, Write};
use std::time::Duration;

use noetl_api::execution::EventView;
use noetl_playbook::model::Playbook;
use noetl_playbook::source::Span;
use noetl_playbook::{CheckOptions, Document, check, find_error_span};
use noetl_types::{ExecutionStatus, Json, TaskError, TaskErrorKind, Timestamp};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::state::{ActiveStep, ProgressNote, ProgressState, StepPass, StepStats};
use crate::io::{ColorPaint, Io, OutputStream};
use crate::render::text_layout::{display_width, escape_control, pluralize, truncate_to_width};
use crate::render::{diagnostic, palette};

/// Style of the progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressStyle {
    /// Failures only.
    Quiet,
    /// One line per event.
    Lines,
    /// Lines for ended steps, with the active steps below them.
    Live,
}

impl ProgressStyle {
    /// Style for the message stream.
    pub(crate) fn for_output(io: &Io<'_>) -> Self {
        if io.quiet {
            Self::Quiet
        } else if io.err.is_terminal() {
            Self::Live
        } else {
            Self::Lines
        }
    }
}

/// Interval between redraws of a terminal.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// Timer for redraws of a terminal.
pub(crate) fn frame_interval() -> Interval {
    let mut frames = interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    frames
}

/// Playbook of the run, for source excerpts.
#[derive(Debug)]
pub(crate) struct PlaybookSource {
    /// Name of the file.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) playbook: Box<Playbook>,
}

/// Progress display of a run.
#[derive(Debug)]
pub(crate) struct ProgressDisplay<'s> {
    style: ProgressStyle,
    /// Playbook, if available.
    source: Option<&'s PlaybookSource>,
    state: ProgressState,
    live: LiveLines,
    /// Width of the step names.
    name_width: usize,
    ticks: usize,
    has_printed_failure: bool,
}

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum width to which step names are aligned.
const MAX_NAME_WIDTH: usize = 32;
/// Maximum active steps shown. Further steps are only counted.
const MAX_SHOWN_STEPS: usize = 12;
/// Width of a progress bar.
const BAR_WIDTH: u32 = 20;
/// Maximum characters of an error on one line.
const MAX_ERROR_CHARS: usize = 200;

impl<'s> ProgressDisplay<'s> {
    pub(crate) fn new(style: ProgressStyle, source: Option<&'s PlaybookSource>) -> Self {
        let steps = source.iter().flat_map(|source| &source.playbook.workflow);
        let widest = steps.map(|step| display_width(&step.name.value)).max();
        Self {
            style,
            source,
            state: ProgressState::default(),
            live: LiveLines::default(),
            name_width: widest.unwrap_or(0).min(MAX_NAME_WIDTH),
            ticks: 0,
            has_printed_failure: false,
        }
    }

    /// Final status of the run, if it has ended.
    pub(crate) fn final_status(&self) -> Option<ExecutionStatus> {
        self.state.final_status
    }

    /// True if an uncaught failure was printed with its position.
    pub(crate) fn has_printed_failure(&self) -> bool {
        self.has_printed_failure
    }

    /// Prints events.
    pub(crate) fn print_events(&mut self, events: &[EventView], io: &mut Io<'_>) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            for note in self.state.apply_event(event) {
                self.push_note(&note, io, &mut lines);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.live.erase_lines(&mut io.err)?;
        for line in lines {
            io.print_message(line)?;
        }
        Ok(())
    }

    /// Redraws the active steps on a terminal.
    pub(crate) fn redraw(&mut self, now: Timestamp, io: &mut Io<'_>) -> io::Result<()> {
        if self.style != ProgressStyle::Live {
            return Ok(());
        }
        self.ticks = self.ticks.wrapping_add(1);
        let width = io.err.width();
        let paint = io.err.paint();
        let spinner = SPINNER[self.ticks % SPINNER.len()];
        let mut lines: Vec<String> = Vec::new();
        for (pass, active) in self.state.active_steps.iter().take(MAX_SHOWN_STEPS) {
            let text = format!("{}  {}", self.step_label(pass), format_active(active, now));
            let text = truncate_to_width(&text, width.saturating_sub(3), "…");
            lines.push(format!("{} {text}", paint.text(palette::CODE, spinner)));
        }
        let hidden = self.state.active_steps.iter().skip(MAX_SHOWN_STEPS).count();
        if hidden > 0 {
            lines.push(format!("  and {} more", pluralize(hidden, "step")));
        }
        self.live.draw_lines(&lines, &mut io.err)
    }

    /// Removes the active steps, keeping the permanent lines.
    pub(crate) fn clear_live_lines(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        self.live.erase_lines(&mut io.err)
    }

    fn push_note(&mut self, note: &ProgressNote, io: &Io<'_>, lines: &mut Vec<String>) {
        if let Some(line) = self.note_line(note, io) {
            lines.push(line);
        }
        if let ProgressNote::Failed { pass, error, is_caught: false, .. } = note {
            lines.push(render_step_failure(self.source, &pass.step, error, &io.err));
            self.has_printed_failure = true;
        }
    }

    /// Line of a note, if the style prints one.
    fn note_line(&self, note: &ProgressNote, io: &Io<'_>) -> Option<String> {
        let paint = io.err.paint();
        let width = io.err.width();
        if self.style == ProgressStyle::Quiet {
            return None;
        }
        let (sign, style, text) = match note {
            ProgressNote::Entered { .. } if self.style == ProgressStyle::Live => return None,
            ProgressNote::Entered { pass, items } => {
                let items = items.map_or_else(String::new, |items| {
                    format!("  {}", pluralize(items as usize, "item"))
                });
                ("▸", palette::MUTED, format!("{}{items}", self.step_label(pass)))
            }
            ProgressNote::Completed { pass, stats } => {
                let text = format!("{}  {}", self.step_label(pass), format_stats(stats));
                ("✓", palette::SUCCESS, text)
            }
            ProgressNote::Failed { pass, stats, error, is_caught } => {
                let name = self.step_label(pass);
                let stats = format_stats(stats);
                let text = if *is_caught {
                    format!("{name}  {stats}, failed and caught: {}", error_summary(error))
                } else {
                    format!("{name}  {stats}, failed")
                };
                ("✗", palette::FAILURE, text)
            }
            ProgressNote::Cancelled { pass, stats } => {
                let text = format!("{}  {}, cancelled", self.step_label(pass), format_stats(stats));
                ("–", palette::CAUTION, text)
            }
            ProgressNote::Retried { pass, error, after } => {
                let (name, after) = (self.step_label(pass), after.to_human());
                let text = format!("{name}  retry in {after}: {}", error_summary(error));
                ("↻", palette::CAUTION, text)
            }
            ProgressNote::Expired { pass, reason } => {
                let text = format!("{}  lost by its worker ({reason})", self.step_label(pass));
                ("↻", palette::CAUTION, text)
            }
            ProgressNote::Skipped { step, reason } => {
                let name = self.pad_name(step);
                ("–", palette::MUTED, format!("{name}  skipped: {reason}"))
            }
        };
        let text = text.trim_end();
        let text = if io.err.is_terminal() {
            truncate_to_width(text, width.saturating_sub(2), "…")
        } else {
            // A file has no width limit.
            text.to_owned()
        };
        Some(paint_line(paint, sign, style, &text))
    }

    fn step_label(&self, pass: &StepPass) -> String {
        if pass.number > 1 {
            self.pad_name(&format!("{} ({})", pass.step, pass.number))
        } else {
            self.pad_name(&pass.step)
        }
    }

    fn pad_name(&self, name: &str) -> String {
        let name = escape_control(name);
        let blanks = self.name_width.saturating_sub(display_width(&name));
        format!("{name}{}", " ".repeat(blanks))
    }
}

/// Lines at the bottom of a terminal that are redrawn repeatedly.
#[derive(Debug, Default)]
struct LiveLines {
    drawn_lines: usize,
}

impl LiveLines {
    /// Erases the lines, so that permanent output can be written.
    fn erase_lines(&mut self, stream: &mut OutputStream<'_>) -> io::Result<()> {
        stream.write_control(&self.erase_sequence(), b"")
    }

    fn erase_sequence(&mut self) -> String {
        match std::mem::take(&mut self.drawn_lines) {
            0 => String::new(),
            // Moves up to the first line, then clears to the end of the screen.
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        }
    }

    /// Replaces the lines. None may be wider than the terminal.
    fn draw_lines(&mut self, lines: &[String], stream: &mut OutputStream<'_>) -> io::Result<()> {
        let mut block = Vec::new();
        for line in lines {
            writeln!(block, "{line}")?;
        }
        let sequence = self.erase_sequence();
        self.drawn_lines = lines.len();
        stream.write_control(&sequence, &block)?;
        stream.flush()
    }
}

impl PlaybookSource {
    /// Parses a playbook. Returns `None` for other documents.
    pub(crate) fn parse_playbook(file: String, text: String) -> Option<Self> {
        match check(&text, &CheckOptions::default()).document {
            Some(Document::Playbook(playbook)) => Some(Self { file, text, playbook }),
            Some(Document::Other(_)) | None => None,
        }
    }

    /// Position of the cause of an error.
    fn error_span(&self, step: &str, error: &TaskError) -> Option<Span> {
        let step = self.playbook.find_step(step)?;
        Some(find_error_span(&self.text, step, error))
    }
}

/// Renders an error with the playbook line that caused it, if available.
pub(crate) fn render_step_failure(
    source: Option<&PlaybookSource>,
    step: &str,
    error: &TaskError,
    stream: &OutputStream<'_>,
) -> String {
    let mut notes = Vec::new();
    if let Some(index) = error.index {
        notes.push(format!("in iteration {index}"));
    }
    if let Some(attempt) = error.attempt.filter(|attempt| *attempt > 1) {
        notes.push(format!("after {}", pluralize(attempt as usize, "attempt")));
    }
    let failure = diagnostic::RunFailure {
        kind: &failure_label(error),
        message: &error.message,
        span: source.and_then(|source| source.error_span(step, error)),
        notes: &notes,
    };
    let (file, text) = source.map_or(("", ""), |source| (&source.file, &source.text));
    diagnostic::render_failure(file, text, &failure, stream)
}

/// Label of an error: the exit code of a program, or the kind.
fn failure_label(error: &TaskError) -> String {
    match error.code.as_ref().and_then(Json::as_i64) {
        Some(code) if error.kind == TaskErrorKind::Transform => format!("exit {code}"),
        _ => error.kind.as_str().to_owned(),
    }
}

fn paint_line(paint: ColorPaint, sign: &str, style: anstyle::Style, text: &str) -> String {
    if style == palette::MUTED {
        return paint.text(style, format!("{sign} {text}")).to_string();
    }
    format!("{} {text}", paint.text(style, sign))
}

fn format_stats(stats: &StepStats) -> String {
    let mut text = stats.time.to_human();
    if let Some(progress) = stats.loop_progress {
        text +=
            &format!(", {} of {}", progress.done.saturating_sub(progress.failed), progress.total);
        if progress.failed > 0 {
            text += &format!(", {} failed", progress.failed);
        }
    }
    if stats.retries > 0 {
        let noun = if stats.retries == 1 { "retry" } else { "retries" };
        text += &format!(", {} {noun}", stats.retries);
    }
    text
}

fn format_active(active: &ActiveStep, now: Timestamp) -> String {
    let mut text = String::new();
    if let Some(progress) = active.loop_progress {
        let filled =
            (u64::from(BAR_WIDTH) * u64::from(progress.done)).checked_div(progress.total.into());
        let filled = usize::try_from(filled.unwrap_or(0)).unwrap_or(0).min(BAR_WIDTH as usize);
        let empty = BAR_WIDTH as usize - filled;
        text += &format!(
            "{}{} {}/{}  ",
            "━".repeat(filled),
            "─".repeat(empty),
            progress.done,
            progress.total
        );
        if progress.failed > 0 {
            text += &format!("{} failed  ", progress.failed);
        }
    }
    text += &now.duration_since(active.since).to_human();
    if let Some(error) = &active.retry_error {
        text += &format!("  retrying: {}", error_summary(error));
    }
    text
}

/// First line of an error, shortened.
pub(crate) fn error_summary(error: &TaskError) -> String {
    let first = error.message.lines().next().unwrap_or_default();
    truncate_to_width(&escape_control(first), MAX_ERROR_CHARS, "…")
}
