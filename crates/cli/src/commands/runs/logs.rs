//! `noetl runs logs`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_types::{ErrorCode, EventType, Json};

use super::{events, find};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::counted;
use crate::roles::Host;

/// Print what the tasks of a run wrote
///
/// Standard output and standard error of shells, scripts, containers, Python and the like, as far as
/// the log has them, each line behind the name of its step. Of what code prints that also gives a
/// result, the log keeps the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs logs last
  noetl runs logs last --step build --bare > build.log")]
pub(crate) struct LogsArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// Only what this step wrote
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Leave out the names of the steps
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Events of a log that are looked through.
const MAX_EVENTS: usize = 200_000;
/// Bytes of data outside of the log that are looked through, of one task and of all.
const MAX_ONE: u64 = 64 << 20;
const MAX_FETCHED: u64 = 512 << 20;
/// How deep the output of a task is looked for: in its data, or in that of a labelled task.
const MAX_DEPTH: usize = 4;

pub(super) fn run(args: &LogsArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    reached.ask(print(args, &reached.host, quiet, io))
}

async fn print(args: &LogsArgs, host: &Host, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let id = find(host, &args.run).await?;
    let mut is_silent = true;
    let mut fetched = Fetched::default();
    let log = events::whole(host, id, MAX_EVENTS, io).await?;
    for event in log {
        let step = event.node_name.as_deref().unwrap_or("-").to_owned();
        let is_meant = args.step.as_ref().is_none_or(|wanted| *wanted == step);
        if !is_meant || !is_call(&event) {
            continue;
        }
        let kept_elsewhere = fetched.data_of(&event, host).await?;
        let mut written = Vec::new();
        let tasks = event.meta.as_ref().and_then(|meta| meta.get("tasks"));
        for task in tasks.and_then(Json::as_list).into_iter().flatten() {
            gather(task, 0, &mut written);
        }
        // What is kept elsewhere is all of the result, of which the log has parts.
        let result = kept_elsewhere.as_ref().or(event.result.as_ref());
        for place in [result, event.context.as_ref()].into_iter().flatten() {
            gather(place, MAX_DEPTH, &mut written);
        }
        for (is_error, text) in written {
            is_silent = false;
            tell(args, &step, is_error, text, io)?;
        }
    }
    if fetched.missing > 0 {
        // Also where talk is not wanted: what is printed is not all.
        let data = counted(fetched.missing, "result");
        io.warn(&[format!(
            "{data} could not be looked at: too large, too many, or gone"
        )])?;
    } else if is_silent && !quiet {
        io.talk("the tasks of this run wrote nothing that its log has")?;
    }
    Ok(Exit::Ok)
}

/// Data that is kept outside of the log, which only refers to it.
#[derive(Default)]
struct Fetched {
    bytes: u64,
    missing: usize,
}

impl Fetched {
    /// The data of an event, where it is kept outside of the log and can be had.
    async fn data_of(&mut self, event: &EventView, host: &Host) -> Result<Option<Json>, Error> {
        let result = event.result.as_ref();
        let Some(reference) = result.and_then(|result| result.get("reference")) else {
            return Ok(None);
        };
        let Some(address) = reference.get("ref").and_then(Json::as_str) else {
            return Ok(None);
        };
        let bytes = reference.get("bytes").and_then(Json::as_u64);
        let all = self.bytes.saturating_add(bytes.unwrap_or(MAX_ONE));
        if bytes.is_some_and(|bytes| bytes > MAX_ONE) || all > MAX_FETCHED {
            self.missing += 1;
            return Ok(None);
        }
        self.bytes = all;
        match host.resolve(address).await {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.code().is_some_and(is_gone) => {
                self.missing += 1;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether data that is refused so cannot be had by anybody, which leaves the rest of the log to be read:
/// it is gone, too large, or was written elsewhere, where addresses have another form.
fn is_gone(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotFound
            | ErrorCode::RetentionDropped
            | ErrorCode::TooLarge
            | ErrorCode::BadQuery
    )
}

fn is_call(event: &EventView) -> bool {
    let kind = event.event_type.known();
    kind == Some(EventType::CallDone) || kind == Some(EventType::CallError)
}

/// What a task wrote, wherever in its data that is.
fn gather<'j>(value: &'j Json, depth: usize, written: &mut Vec<(bool, &'j str)>) {
    let Some(map) = value.as_map() else { return };
    for (name, is_error) in [("stdout", false), ("stderr", true)] {
        let text = map.get(name).and_then(Json::as_str);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            written.push((is_error, text));
        }
    }
    if depth > 0 {
        for inner in map.values() {
            gather(inner, depth - 1, written);
        }
    }
}

fn tell(
    args: &LogsArgs,
    step: &str,
    is_error: bool,
    text: &str,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let paint = io.out.paint();
    for line in text.lines() {
        // What a task wrote is its own: in a file it is kept as it is, a terminal is spared it.
        let line = if io.out.is_terminal() {
            crate::render::words::visible(line)
        } else {
            line.to_owned()
        };
        if args.bare {
            writeln!(io.out, "{line}")?;
            continue;
        }
        let mark = if is_error { "!" } else { "|" };
        let style = if is_error {
            palette::DOUBT
        } else {
            palette::QUIET
        };
        let head = format!("{} {mark}", crate::render::words::visible(step));
        writeln!(io.out, "{} {line}", paint.text(style, head))?;
    }
    Ok(())
}
