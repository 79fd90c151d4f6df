//! Report of `noetl check` for people.

use std::io::Write as _;

use noetl_playbook::Document;

use super::{CheckReport, CheckSummary, FileOutcome, FileReport};
use crate::error::Error;
use crate::io::{ColorPaint, Io};
use crate::render::text_layout::{escape_control, pluralize};
use crate::render::{diagnostic, palette};

/// Diagnostics with source lines, followed by a summary.
#[derive(Debug)]
pub(crate) struct HumanReport {
    quiet: bool,
}

impl HumanReport {
    /// With `quiet`, prints only diagnostics.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }
}

impl CheckReport for HumanReport {
    fn report_file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error> {
        match file.outcome {
            FileOutcome::Unreadable(error) => error.print_to(io)?,
            FileOutcome::Checked(checked) => {
                for diagnostic in &checked.diagnostics {
                    let snippet = diagnostic::render_diagnostic(
                        &file.name,
                        &checked.text,
                        diagnostic,
                        &io.out,
                    );
                    writeln!(io.out, "{snippet}\n")?;
                }
                if checked.diagnostics.is_empty() && checked.passes && !self.quiet {
                    let ok = io.out.paint().text(palette::SUCCESS, "ok").to_string();
                    writeln!(
                        io.out,
                        "{ok} {}{}",
                        file.name,
                        describe_document(checked.document.as_ref())
                    )?;
                }
            }
        }
        Ok(())
    }

    fn finish_report(&mut self, summary: &CheckSummary, io: &mut Io<'_>) -> Result<(), Error> {
        if self.quiet {
            return Ok(());
        }
        let paint = io.err.paint();
        io.print_message(summary_line(summary, paint))?;
        if let Some(code) = summary.most_severe() {
            let command = format!("noetl explain {code}");
            io.print_message(format_args!("see: {}", paint.text(palette::NAME, command)))?;
        }
        Ok(())
    }
}

fn describe_document(document: Option<&Document>) -> String {
    match document {
        None => String::new(),
        Some(Document::Playbook(playbook)) => {
            let steps = pluralize(playbook.workflow.len(), "step");
            format!(" (playbook '{}', {steps})", escape_control(&playbook.metadata.name))
        }
        Some(Document::Subscription(subscription)) => {
            format!(" (subscription '{}')", escape_control(&subscription.metadata.name))
        }
        Some(Document::Schedule(schedule)) => {
            format!(" (schedule '{}')", escape_control(&schedule.metadata.name))
        }
        Some(Document::Other(other)) => {
            format!(" ({}, stored unchecked)", escape_control(&other.kind))
        }
    }
}

fn summary_line(summary: &CheckSummary, paint: ColorPaint) -> String {
    let severities = [
        (summary.errors, "error", palette::FAILURE),
        (summary.warnings, "warning", palette::CAUTION),
        (summary.notes, "note", palette::SUCCESS),
    ];
    let counts: Vec<String> = severities
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, style)| paint.text(*style, pluralize(*count, noun)).to_string())
        .collect();
    let mut parts = vec![format!("{} checked", pluralize(summary.files, "file"))];
    if !counts.is_empty() {
        parts.push(format!(": {}", counts.join(", ")));
    } else if summary.files > 0 {
        parts.push(format!(": {}", paint.text(palette::SUCCESS, "no problems")));
    }
    if summary.hidden > 0 {
        parts.push(format!(" ({} not shown)", summary.hidden));
    }
    if summary.unreadable > 0 {
        parts.push(format!(", {} not read", summary.unreadable));
    }
    parts.concat()
}
