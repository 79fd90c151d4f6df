//! `noetl doctor`: what is amiss on this machine.

mod checks;
mod database;
mod server;
mod walls;

use std::io::Write as _;

use clap::Args;
use serde::Serialize;

use crate::config::{Client, Config, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::render::palette;
use crate::render::words::{columns, visible};

/// Find out what is amiss on this machine
///
/// Looks at the settings, the data folder and its database, the programs that tasks need, the port,
/// the server, the clock, the limits of this process and the walls around tasks. Nothing is changed.
/// What a server says of itself is told too, and whether it knows the token. The exit code is 1 where
/// something does not work.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl doctor
  noetl doctor --server https://noetl.example.com -o json")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It works.
    Ok,
    /// It is as it may be, which is worth knowing.
    Note,
    /// It works, but not all of it.
    Warning,
    /// It does not work.
    Failed,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(check: &'static str, state: State, detail: impl Into<String>) -> Self {
        Self {
            check,
            state,
            detail: detail.into(),
            fix: None,
        }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Looks at everything.
pub(crate) fn run(args: &DoctorArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let mut findings = Vec::new();
    match Config::load(&args.target.given, &io.env) {
        Ok(config) => checks::all(&config, &mut findings, io)?,
        Err(error) => {
            let found = Finding::new("settings", State::Failed, error.to_string());
            findings.push(match error.help() {
                Some(help) => found.fix(help),
                None => found,
            });
        }
    }
    if args.output.is_table() {
        tell(&findings, io)?;
    } else {
        let nothing = |_: &_| crate::output::Table::new([]);
        args.output.list(&findings, nothing, io)?;
    }
    let is_failed = findings.iter().any(|found| found.state == State::Failed);
    Ok(if is_failed { Exit::Failed } else { Exit::Ok })
}

fn tell(findings: &[Finding], io: &mut Io<'_>) -> Result<(), Error> {
    let paint = io.out.paint();
    let width = findings.iter().map(|found| columns(found.check)).max();
    let width = width.unwrap_or(0);
    for found in findings {
        let (sign, style) = match found.state {
            State::Ok => ("✓", palette::GOOD),
            State::Note => ("·", palette::QUIET),
            State::Warning => ("!", palette::DOUBT),
            State::Failed => ("✗", palette::BAD),
        };
        let blanks = " ".repeat(width.saturating_sub(columns(found.check)));
        let (sign, check) = (
            paint.text(style, sign),
            paint.text(palette::NAME, found.check),
        );
        writeln!(io.out, "{sign} {check}{blanks}  {}", visible(&found.detail))?;
        if let Some(fix) = &found.fix {
            let word = paint.text(palette::HELP, "fix");
            writeln!(io.out, "  {}  {word}: {}", " ".repeat(width), visible(fix))?;
        }
    }
    Ok(())
}
