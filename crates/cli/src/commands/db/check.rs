//! `noetl db check`: finds damage and tampering, and prints each problem as it is found.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use noetl_server::ControlPlane;
use noetl_server::verification::{
    AnchorCounts, AnchorHead, OutsideAnchor, Problem, ProblemKind, VerifyCounts, VerifyObserver,
    VerifyReport, VerifyScope,
};
use noetl_store::Store;
use serde::Serialize;
use tokio::time::Instant;

use super::DbCheckArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::text_layout::{escape_control, pluralize};

/// Problems that a JSON document contains. All are counted, and printed as lines.
const MAX_DOCUMENT_PROBLEMS: usize = 10_000;
/// Time between two progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Result of a check, for JSON output.
#[derive(Debug, Serialize)]
struct CheckSummary<'d> {
    database: &'d str,
    intact: bool,
    #[serde(flatten)]
    report: VerifyReport,
    /// Problems, up to a limit. The count is complete.
    #[serde(rename = "found")]
    problems: Vec<Problem>,
}

/// Prints problems as they are found.
struct ProblemPrinter<'p, 's> {
    io: &'p mut Io<'s>,
    output: OutputArgs,
    /// Problems for a document.
    problems: Vec<Problem>,
    printed_at: Instant,
    /// First failure to print.
    failed: std::io::Result<()>,
}

impl VerifyObserver for ProblemPrinter<'_, '_> {
    fn on_problem(&mut self, problem: Problem) {
        let printed = if self.output.is_table() {
            writeln!(self.io.out, "{}", escape_control(&problem.message))
        } else if self.output.is_json_lines() {
            serde_json::to_string(&problem)
                .map_err(Into::into)
                .and_then(|line| writeln!(self.io.out, "{line}"))
        } else {
            if self.problems.len() < MAX_DOCUMENT_PROBLEMS {
                self.problems.push(problem);
            }
            Ok(())
        };
        self.record_failure(printed);
    }

    fn on_progress(&mut self, counts: VerifyCounts) {
        if self.printed_at.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.printed_at = Instant::now();
        let VerifyCounts { executions, events, problems, .. } = counts;
        let printed = self.io.print_note(format_args!(
            "checked {executions} runs with {events} events; {problems} problems so far"
        ));
        self.record_failure(printed);
    }
}

impl ProblemPrinter<'_, '_> {
    fn record_failure(&mut self, printed: std::io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = printed;
        }
    }
}

pub(super) async fn check_database(
    store: &dyn Store,
    services: &ControlPlane,
    args: &DbCheckArgs,
    name: &str,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let outside = parse_outside_anchor(args.anchor.as_deref())?;
    let damage = match args.run {
        None => store.check_integrity().await?,
        Some(id) if store.find_execution(id).await?.is_none() => {
            return Err(Error::not_found(format!("there is no run {id} in {name}"))
                .with_help("list the runs with 'noetl runs list'"));
        }
        Some(_) => Vec::new(),
    };
    let mut printer = ProblemPrinter {
        io,
        output: args.output,
        problems: Vec::new(),
        printed_at: Instant::now(),
        failed: Ok(()),
    };
    let damage_count = u64::try_from(damage.len()).unwrap_or(u64::MAX);
    for text in damage {
        printer.on_problem(Problem::of_store(ProblemKind::Database, text));
    }
    let scope = args.run.map_or(VerifyScope::All, VerifyScope::Execution);
    let mut report = services.verification.verify_store(scope, &outside, &mut printer).await?;
    report.counts.problems += damage_count;
    let ProblemPrinter { io, problems, failed, .. } = printer;
    failed?;
    let intact = report.counts.problems == 0;
    let summary = CheckSummary { database: name, intact, report, problems };
    print_summary(args.output, &summary, io)
}

fn print_summary(
    output: OutputArgs,
    summary: &CheckSummary<'_>,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let exit = if summary.intact { CommandExit::Ok } else { CommandExit::Failed };
    if output.is_json_lines() {
        return Ok(exit);
    }
    if !output.is_table() {
        output.print_item(summary, io)?;
        return Ok(exit);
    }
    let CheckSummary { database, report, .. } = summary;
    let VerifyCounts { executions, events, unfolded, problems } = report.counts;
    if unfolded > 0 {
        io.print_warning(format_args!(
            "the rows of {unfolded} runs were not compared with their logs, because this release \
             cannot run their definitions"
        ))?;
    }
    if problems == 0 {
        let (runs, events) = (count_noun(executions, "run"), count_noun(events, "event"));
        writeln!(io.out, "{database} is intact: {runs} with {events}")?;
    } else {
        io.print_message(format_args!("{} found in {database}", count_noun(problems, "problem")))?;
    }
    if let Some(anchors) = report.anchors {
        print_anchors(anchors, io)?;
    }
    Ok(exit)
}

/// Says what the chain of anchors protects, and what it does not.
fn print_anchors(anchors: AnchorCounts, io: &mut Io<'_>) -> Result<()> {
    let AnchorCounts { anchors: count, outside, anchored_until, unanchored, unsealed } = anchors;
    let Some(until) = anchored_until else {
        io.print_note(
            "no log is anchored: a removed run or a log that was rewritten as a whole is not found",
        )?;
        return Ok(());
    };
    let anchored = count_noun(count, "anchor");
    if outside == 0 {
        io.print_note(format_args!(
            "the logs agree with {anchored} up to {until}, which are only in the database; compare \
             them with what is kept outside of it: --anchor FILE|HEAD"
        ))?;
    } else {
        io.print_note(format_args!(
            "outside of the database: {outside} of {anchored}, up to {until}"
        ))?;
    }
    if unanchored > 0 {
        let runs = count_noun(unanchored, "run");
        io.print_note(format_args!("{runs} changed since the newest anchor; that is unprotected"))?;
    }
    if unsealed {
        io.print_note("the seals of the server were not checked: set NOETL_ENCRYPTION_KEY")?;
    }
    Ok(())
}

fn parse_outside_anchor(text: Option<&str>) -> Result<OutsideAnchor> {
    let Some(text) = text else {
        return Ok(OutsideAnchor::None);
    };
    if let Some(head) = AnchorHead::parse(text) {
        return Ok(OutsideAnchor::Head(head));
    }
    let path = PathBuf::from(text);
    if path.is_file() {
        return Ok(OutsideAnchor::File(path));
    }
    let text = escape_control(text);
    Err(Error::not_found(format!("'{text}' is neither an anchor file nor a head"))
        .with_help("a head has the form NUMBER:DIGEST and is printed by 'noetl db anchor'"))
}

fn count_noun(count: u64, noun: &str) -> String {
    pluralize(usize::try_from(count).unwrap_or(usize::MAX), noun)
}
