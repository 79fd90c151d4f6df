//! Findings for people.

use std::io::Write as _;

use noetl_playbook::Document;

use super::{FileReport, Outcome, Report, Tally};
use crate::error::Error;
use crate::io::{Io, Paint};
use crate::render::words::{counted, visible};
use crate::render::{diagnostic, palette};

/// Findings as snippets of the text, then a summary.
#[derive(Debug)]
pub(crate) struct Human {
    quiet: bool,
}

impl Human {
    /// With `quiet`, findings are all that is told.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }
}

impl Report for Human {
    fn file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error> {
        match file.outcome {
            Outcome::Unreadable(error) => error.tell(io)?,
            Outcome::Checked(checked) => {
                for found in &checked.diagnostics {
                    let snippet = diagnostic::render(&file.name, &checked.text, found, &io.out);
                    writeln!(io.out, "{snippet}\n")?;
                }
                if checked.diagnostics.is_empty() && checked.passes && !self.quiet {
                    let ok = io.out.paint().text(palette::GOOD, "ok").to_string();
                    writeln!(
                        io.out,
                        "{ok} {}{}",
                        file.name,
                        describe(checked.document.as_ref())
                    )?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, tally: &Tally, io: &mut Io<'_>) -> Result<(), Error> {
        if self.quiet {
            return Ok(());
        }
        let paint = io.err.paint();
        io.talk(summary(tally, paint))?;
        if let Some(code) = tally.worst() {
            let command = format!("noetl explain {code}");
            io.talk(format_args!(
                "to learn more: {}",
                paint.text(palette::NAME, command)
            ))?;
        }
        Ok(())
    }
}

fn describe(document: Option<&Document>) -> String {
    match document {
        None => String::new(),
        Some(Document::Playbook(playbook)) => {
            let steps = counted(playbook.workflow.len(), "step");
            format!(
                " (playbook '{}', {steps})",
                visible(&playbook.metadata.name)
            )
        }
        Some(Document::Subscription(subscription)) => {
            format!(" (subscription '{}')", visible(&subscription.metadata.name))
        }
        Some(Document::Schedule(schedule)) => {
            format!(" (schedule '{}')", visible(&schedule.metadata.name))
        }
        Some(Document::Other(other)) => format!(" ({}, stored unchecked)", visible(&other.kind)),
    }
}

fn summary(tally: &Tally, paint: Paint) -> String {
    let counts = [
        (tally.errors, "error", palette::BAD),
        (tally.warnings, "warning", palette::DOUBT),
        (tally.notes, "note", palette::GOOD),
    ];
    let found: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, style)| paint.text(*style, counted(*count, noun)).to_string())
        .collect();
    let mut parts = vec![format!("{} checked", counted(tally.files, "file"))];
    if !found.is_empty() {
        parts.push(format!(": {}", found.join(", ")));
    } else if tally.files > 0 {
        parts.push(format!(": {}", paint.text(palette::GOOD, "no problems")));
    }
    if tally.hidden > 0 {
        parts.push(format!(" ({} not shown)", tally.hidden));
    }
    if tally.unreadable > 0 {
        parts.push(format!(", {} not read", tally.unreadable));
    }
    parts.concat()
}
