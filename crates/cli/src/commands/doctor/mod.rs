//! `noetl doctor`: finds problems on this machine.

mod checks;
mod sandbox;
mod server;

use std::io::Write as _;

use clap::Args;
use serde::Serialize;

use crate::config::Config;
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::palette;
use crate::render::text_layout::{display_width, escape_control};

/// Diagnose problems on this machine
///
/// Checks the settings, the data directory and its database, the programs that tasks need, the
/// port, the server, the clock, the process limits and the task sandbox. Also reports the health of
/// the server and whether it accepts the token. Nothing is changed. The exit code is 1 if a check
/// fails.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl doctor
  noetl doctor --server https://noetl.example.com -o json")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    client: ClientArgs,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckState {
    Ok,
    /// Works; the detail is informational.
    Note,
    /// Works in part.
    Warning,
    /// Does not work.
    Failed,
}

/// Finding of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CheckFinding {
    check: &'static str,
    state: CheckState,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl CheckFinding {
    fn new(check: &'static str, state: CheckState, detail: impl Into<String>) -> Self {
        Self { check, state, detail: detail.into(), fix: None }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Finding of a check that ended with an error.
    fn from_error(check: &'static str, error: &Error) -> Self {
        Self { fix: error.help_text(), ..failed(check, error.to_string()) }
    }
}

fn ok(check: &'static str, detail: impl Into<String>) -> CheckFinding {
    CheckFinding::new(check, CheckState::Ok, detail)
}

fn note(check: &'static str, detail: impl Into<String>) -> CheckFinding {
    CheckFinding::new(check, CheckState::Note, detail)
}

fn warning(check: &'static str, detail: impl Into<String>) -> CheckFinding {
    CheckFinding::new(check, CheckState::Warning, detail)
}

fn failed(check: &'static str, detail: impl Into<String>) -> CheckFinding {
    CheckFinding::new(check, CheckState::Failed, detail)
}

/// Runs all checks and prints the findings.
pub(crate) fn run(args: &DoctorArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let mut findings = Vec::new();
    match Config::load(&args.client.target.given, &io.env) {
        Ok(config) => checks::run_checks(&config, &mut findings, io)?,
        Err(error) => findings.push(CheckFinding::from_error("settings", &error)),
    }
    if args.client.output.is_table() {
        print_findings(&findings, io)?;
    } else {
        args.client.output.print_data_list(&findings, io)?;
    }
    let is_failed = findings.iter().any(|finding| finding.state == CheckState::Failed);
    Ok(if is_failed { CommandExit::Failed } else { CommandExit::Ok })
}

fn print_findings(findings: &[CheckFinding], io: &mut Io<'_>) -> Result<()> {
    let paint = io.out.paint();
    let width = findings.iter().map(|finding| display_width(finding.check)).max();
    let width = width.unwrap_or(0);
    for finding in findings {
        let (sign, style) = match finding.state {
            CheckState::Ok => ("✓", palette::SUCCESS),
            CheckState::Note => ("·", palette::MUTED),
            CheckState::Warning => ("!", palette::CAUTION),
            CheckState::Failed => ("✗", palette::FAILURE),
        };
        let blanks = " ".repeat(width.saturating_sub(display_width(finding.check)));
        let (sign, check) = (paint.text(style, sign), paint.text(palette::NAME, finding.check));
        writeln!(io.out, "{sign} {check}{blanks}  {}", escape_control(&finding.detail))?;
        if let Some(fix) = &finding.fix {
            let label = paint.text(palette::HELP, "fix");
            writeln!(io.out, "  {}  {label}: {}", " ".repeat(width), escape_control(fix))?;
        }
    }
    Ok(())
}
