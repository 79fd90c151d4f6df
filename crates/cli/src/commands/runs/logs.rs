//! `noetl runs logs`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_types::{ErrorCode, EventType, Json};

use super::{events, find_run};
use crate::config::{Client, SettingFlags};
use crate::connection::Connection;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::Target;

/// Print the output of the tasks of a run
///
/// Prints the standard output and standard error that the log contains, from shells, scripts,
/// containers, Python and similar tasks. Each line starts with the name of its step. For code that
/// also returns a result, the log contains only the end of the output.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs logs last
  noetl runs logs last --step build --bare > build.log")]
pub(crate) struct LogsArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Filter by step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Omit the names of the steps
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Maximum events read from a log.
const MAX_LOG_EVENTS: usize = 200_000;
/// Maximum bytes of data fetched from outside the log, per task and in total.
const MAX_TASK_BYTES: u64 = 64 << 20;
const MAX_TOTAL_BYTES: u64 = 512 << 20;
/// Maximum depth at which task output is searched: in its data, or in that of a labelled task.
const MAX_SEARCH_DEPTH: usize = 4;

pub(super) fn run(args: &LogsArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = Connection::for_reading(&args.target.given, io)?;
    connection.block_on(print_logs(args, &connection.target, io))
}

async fn print_logs(args: &LogsArgs, target: &Target, io: &mut Io<'_>) -> Result<CommandExit> {
    let id = find_run(target, &args.run).await?;
    let mut is_empty = true;
    let mut external_data = ExternalData::default();
    let log = events::fetch_log(target, id, MAX_LOG_EVENTS, io).await?;
    for event in log {
        let step = event.node_name.as_deref().unwrap_or("-").to_owned();
        let is_selected = args.step.as_ref().is_none_or(|wanted| *wanted == step);
        if !is_selected || !is_task_result(&event) {
            continue;
        }
        let data = external_data.fetch_event_data(&event, target).await?;
        let mut outputs = Vec::new();
        let tasks = event.meta.as_ref().and_then(|meta| meta.get("tasks"));
        for task in tasks.and_then(Json::as_list).into_iter().flatten() {
            collect_output(task, 0, &mut outputs);
        }
        // External data is the complete result. The log contains only parts of it.
        let result = data.as_ref().or(event.result.as_ref());
        for value in [result, event.context.as_ref()].into_iter().flatten() {
            collect_output(value, MAX_SEARCH_DEPTH, &mut outputs);
        }
        for (is_error, text) in outputs {
            is_empty = false;
            print_output(args, &step, is_error, text, io)?;
        }
    }
    if external_data.missing > 0 {
        // Printed even in quiet mode, since the output is incomplete.
        let data = pluralize(external_data.missing, "result");
        io.print_warning(format_args!(
            "{data} could not be read: too large, too many, or no longer available"
        ))?;
    } else if is_empty {
        io.print_note("the log contains no output of the tasks of this run")?;
    }
    Ok(CommandExit::Ok)
}

/// Fetches data stored outside the log and counts it.
#[derive(Default)]
struct ExternalData {
    bytes: u64,
    missing: usize,
}

impl ExternalData {
    /// Fetches the data of an event if it is stored outside the log and available.
    async fn fetch_event_data(
        &mut self,
        event: &EventView,
        target: &Target,
    ) -> Result<Option<Json>> {
        let result = event.result.as_ref();
        let Some(reference) = result.and_then(|result| result.get("reference")) else {
            return Ok(None);
        };
        let Some(address) = reference.get("ref").and_then(Json::as_str) else {
            return Ok(None);
        };
        let bytes = reference.get("bytes").and_then(Json::as_u64);
        let total = self.bytes.saturating_add(bytes.unwrap_or(MAX_TASK_BYTES));
        if bytes.is_some_and(|bytes| bytes > MAX_TASK_BYTES) || total > MAX_TOTAL_BYTES {
            self.missing += 1;
            return Ok(None);
        }
        self.bytes = total;
        match target.resolve_reference(address).await {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.error_code().is_some_and(is_unavailable) => {
                self.missing += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// True if the data is unavailable to everyone, so that the rest of the log can still be printed:
/// it was deleted, is too large, or was written by a system with other addresses.
fn is_unavailable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotFound
            | ErrorCode::RetentionDropped
            | ErrorCode::TooLarge
            | ErrorCode::BadQuery
    )
}

fn is_task_result(event: &EventView) -> bool {
    let kind = event.event_type.known_type();
    kind == Some(EventType::CallDone) || kind == Some(EventType::CallError)
}

/// Collects the output of a task from anywhere in its data.
fn collect_output<'j>(value: &'j Json, depth: usize, outputs: &mut Vec<(bool, &'j str)>) {
    let Some(map) = value.as_map() else { return };
    for (name, is_error) in [("stdout", false), ("stderr", true)] {
        let text = map.get(name).and_then(Json::as_str);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            outputs.push((is_error, text));
        }
    }
    if depth > 0 {
        for inner in map.values() {
            collect_output(inner, depth - 1, outputs);
        }
    }
}

fn print_output(
    args: &LogsArgs,
    step: &str,
    is_error: bool,
    text: &str,
    io: &mut Io<'_>,
) -> Result<()> {
    let paint = io.out.paint();
    for line in text.lines() {
        // A file receives the exact output. On a terminal, control characters are escaped.
        let line = if io.out.is_terminal() { escape_control(line) } else { line.to_owned() };
        if args.bare {
            writeln!(io.out, "{line}")?;
            continue;
        }
        let mark = if is_error { "!" } else { "|" };
        let style = if is_error { palette::CAUTION } else { palette::MUTED };
        let prefix = format!("{} {mark}", escape_control(step));
        writeln!(io.out, "{} {line}", paint.text(style, prefix))?;
    }
    Ok(())
}
