//! `noetl runs logs`
//!
//! The output of a task is in its result, or, if it ran for a while, in chunks that were sent while
//! it ran. The last chunk of an attempt says that they are complete: then its result is skipped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_api::output::{OutputQuery, OutputView};
use noetl_types::{CommandId, ErrorCode, EventType, ExecutionId, Json, Text, Timestamp};
use serde::Serialize;
use tokio::time::sleep;

use super::{events, find_run};
use crate::connection::ClientArgs;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::{ExecutionWatch, Target};

/// Print the output of the tasks of a run
///
/// Prints the standard output and standard error of shells, scripts, containers, Python and similar
/// tasks, also of tasks that are running, timed out or were cancelled. Each line starts with the
/// name of its step. For code that also returns a result and ends quickly, only the end of the
/// output is known.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs logs last
  noetl runs logs last -f
  noetl runs logs last build --bare > build.log")]
pub(crate) struct LogsArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Filter by step
    step: Option<String>,
    /// Follow the run until it ends
    #[arg(short, long)]
    follow: bool,
    /// Omit the names of the steps
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Maximum events read from a log.
const MAX_LOG_EVENTS: usize = 200_000;
/// Maximum bytes of data fetched from outside the log, per task and in total.
const MAX_TASK_BYTES: u64 = 64 << 20;
const MAX_TOTAL_BYTES: u64 = 512 << 20;
/// Maximum depth at which task output is searched: in its data, or in that of a labelled task.
const MAX_SEARCH_DEPTH: usize = 4;
/// Chunks per request.
const PAGE_CHUNKS: u32 = 100;
/// Interval at which a followed run is asked for new output.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn run(args: &LogsArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    connection.block_on(print_logs(args, &connection.target, io))
}

async fn print_logs(args: &LogsArgs, target: &Target, io: &mut Io<'_>) -> Result<CommandExit> {
    let id = find_run(target, &args.run).await?;
    let mut log = RunLog {
        args,
        target,
        id,
        after: 0,
        complete: BTreeSet::new(),
        external_data: ExternalData::default(),
    };
    let mut printer = LogPrinter::new(args);
    if args.follow {
        follow_logs(&mut log, &mut printer, io).await?;
    } else {
        let mut chunks = VecDeque::new();
        while let Some(page) = log.next_chunks().await? {
            chunks.extend(page);
        }
        for event in events::fetch_log(target, id, MAX_LOG_EVENTS, io).await? {
            while let Some(chunk) = chunks.pop_front_if(|chunk| chunk.at <= event.created_at) {
                printer.print_entry(chunk.into(), io)?;
            }
            log.print_result(&event, &mut printer, io).await?;
        }
        for chunk in chunks {
            printer.print_entry(chunk.into(), io)?;
        }
    }
    let is_empty = printer.finish(io)?;
    if log.external_data.missing > 0 {
        // Printed even in quiet mode, since the output is incomplete.
        let data = pluralize(log.external_data.missing, "result");
        io.print_warning(format_args!(
            "{data} could not be read: too large, too many, or no longer available"
        ))?;
    } else if is_empty {
        io.print_note("the log contains no output of the tasks of this run")?;
    }
    Ok(CommandExit::Ok)
}

/// Prints output as it arrives, until the run ends.
async fn follow_logs(
    log: &mut RunLog<'_>,
    printer: &mut LogPrinter<'_>,
    io: &mut Io<'_>,
) -> Result<()> {
    let mut watch = ExecutionWatch::new(log.target, log.id, None);
    loop {
        let events = tokio::select! {
            events = watch.next_batch() => events?,
            () = sleep(FOLLOW_INTERVAL) => Some(Vec::new()),
        };
        // The chunks of an attempt are stored before its result, so that they are read first.
        while let Some(chunks) = log.next_chunks().await? {
            for chunk in chunks {
                printer.print_entry(chunk.into(), io)?;
            }
        }
        let Some(events) = events else { return Ok(()) };
        for event in &events {
            log.print_result(event, printer, io).await?;
        }
        io.out.flush()?;
        let has_ended = |event: &EventView| {
            event.event_type.known_type().is_some_and(|kind| kind.terminal_status().is_some())
        };
        if events.iter().any(has_ended) {
            return Ok(());
        }
    }
}

/// The output of a run.
struct RunLog<'r> {
    args: &'r LogsArgs,
    target: &'r Target,
    id: ExecutionId,
    /// Position of the last chunk that was read.
    after: u64,
    /// Commands whose chunks contain all of their output.
    complete: BTreeSet<CommandId>,
    external_data: ExternalData,
}

impl RunLog<'_> {
    /// Returns the next chunks, or `None` if there are no more for now.
    async fn next_chunks(&mut self) -> Result<Option<Vec<OutputView>>> {
        let query = OutputQuery {
            step: self.args.step.as_deref().map(Text::from),
            after: Some(self.after),
            limit: Some(PAGE_CHUNKS),
            ..OutputQuery::default()
        };
        let chunks = self.target.fetch_output(self.id, query).await?.chunks;
        let Some(last) = chunks.last() else { return Ok(None) };
        self.after = last.position;
        self.complete.extend(chunks.iter().filter(|it| it.last).map(|it| it.command_id));
        Ok(Some(chunks))
    }

    /// Prints the output in the result of a task, unless its chunks contain it.
    async fn print_result(
        &mut self,
        event: &EventView,
        printer: &mut LogPrinter<'_>,
        io: &mut Io<'_>,
    ) -> Result<()> {
        let step = event.node_name.clone().unwrap_or_else(|| "-".into());
        let is_selected = self.args.step.as_ref().is_none_or(|wanted| *wanted == *step);
        let command_id = reported_command(event);
        let is_complete = command_id.is_some_and(|id| self.complete.contains(&id));
        if !is_selected || is_complete || !is_task_result(event) {
            return Ok(());
        }
        let data = self.external_data.fetch_event_data(event, self.target).await?;
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
            let (text, empty) = (Text::from(text), Text::default());
            let (stdout, stderr) = if is_error { (empty, text) } else { (text, empty) };
            let entry = LogEntry {
                at: event.created_at,
                step: step.clone(),
                command_id,
                attempt: None,
                index: None,
                task: None,
                stdout,
                stderr,
                dropped_bytes: 0,
                is_last: true,
            };
            printer.print_entry(entry, io)?;
        }
        Ok(())
    }
}

/// Returns the command whose result an event contains.
fn reported_command(event: &EventView) -> Option<CommandId> {
    let context = event.result.as_ref()?.get("context")?;
    context.get("command_id")?.as_str()?.parse().ok()
}

/// A part of the output, as it is printed.
#[derive(Debug, Serialize)]
struct LogEntry {
    at: Timestamp,
    step: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_id: Option<CommandId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Text>,
    stdout: Text,
    stderr: Text,
    dropped_bytes: u64,
    #[serde(skip)]
    is_last: bool,
}

impl From<OutputView> for LogEntry {
    fn from(chunk: OutputView) -> Self {
        Self {
            at: chunk.at,
            step: chunk.step,
            command_id: Some(chunk.command_id),
            attempt: Some(chunk.attempt),
            index: chunk.index,
            task: chunk.task,
            stdout: chunk.stdout,
            stderr: chunk.stderr,
            dropped_bytes: chunk.dropped_bytes,
            is_last: chunk.last,
        }
    }
}

/// Prints output, as lines or as data.
struct LogPrinter<'a> {
    args: &'a LogsArgs,
    is_empty: bool,
    /// Entries of a document that is printed at the end.
    entries: Vec<LogEntry>,
    /// Incomplete last lines, by command, attempt, and whether they are of the standard error, with
    /// their step.
    partial_lines: BTreeMap<LineKey, (Text, String)>,
}

type LineKey = (Option<CommandId>, Option<u32>, bool);

impl<'a> LogPrinter<'a> {
    fn new(args: &'a LogsArgs) -> Self {
        Self { args, is_empty: true, entries: Vec::new(), partial_lines: BTreeMap::new() }
    }

    fn print_entry(&mut self, entry: LogEntry, io: &mut Io<'_>) -> Result<()> {
        let is_silent = entry.stdout.is_empty() && entry.stderr.is_empty();
        self.is_empty &= is_silent && entry.dropped_bytes == 0;
        let output = self.args.client.output;
        if output.is_table() {
            return self.print_lines(&entry, io);
        }
        if is_silent && entry.dropped_bytes == 0 {
            return Ok(());
        }
        if self.args.follow || output.is_json_lines() {
            return output.print_stream_item(&entry, io);
        }
        self.entries.push(entry);
        Ok(())
    }

    fn print_lines(&mut self, entry: &LogEntry, io: &mut Io<'_>) -> Result<()> {
        if entry.dropped_bytes > 0 {
            let text = format!("[truncated: {} bytes]", entry.dropped_bytes);
            print_line(self.args, &entry.step, true, &text, io)?;
        }
        for (text, is_error) in [(&entry.stdout, false), (&entry.stderr, true)] {
            let key = (entry.command_id, entry.attempt, is_error);
            let partial = self.partial_lines.remove(&key).map(|(_, line)| line);
            let text = partial.unwrap_or_default() + text.as_str();
            let complete =
                if entry.is_last { text.len() } else { text.rfind('\n').map_or(0, |end| end + 1) };
            let (lines, rest) = text.split_at(complete);
            for line in lines.lines() {
                print_line(self.args, &entry.step, is_error, line, io)?;
            }
            if !rest.is_empty() {
                self.partial_lines.insert(key, (entry.step.clone(), rest.to_owned()));
            }
        }
        Ok(())
    }

    /// Prints what is left. Returns true if there was no output.
    fn finish(&mut self, io: &mut Io<'_>) -> Result<bool> {
        for ((_, _, is_error), (step, line)) in std::mem::take(&mut self.partial_lines) {
            print_line(self.args, &step, is_error, &line, io)?;
        }
        let output = self.args.client.output;
        if !output.is_table() && !self.args.follow && !output.is_json_lines() {
            output.print_data_list(&self.entries, io)?;
        }
        Ok(self.is_empty)
    }
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
    // Scripts merge their streams.
    let merged = map.contains_key("exit_code").then_some(("output", false));
    for (name, is_error) in [("stdout", false), ("stderr", true)].into_iter().chain(merged) {
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

fn print_line(
    args: &LogsArgs,
    step: &str,
    is_error: bool,
    line: &str,
    io: &mut Io<'_>,
) -> Result<()> {
    // A file receives the exact output. On a terminal, control characters are escaped.
    let line = if io.out.is_terminal() { escape_control(line) } else { line.to_owned() };
    if args.bare {
        writeln!(io.out, "{line}")?;
        return Ok(());
    }
    let paint = io.out.paint();
    let mark = if is_error { "!" } else { "|" };
    let style = if is_error { palette::CAUTION } else { palette::MUTED };
    let prefix = format!("{} {mark}", escape_control(step));
    writeln!(io.out, "{} {line}", paint.text(style, prefix))?;
    Ok(())
}
