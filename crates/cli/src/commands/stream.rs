//! `noetl stream`: the stream of all events.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client as Server;
use noetl_api::stream::StreamStatus;
use noetl_types::{FeedPosition, Json, Millis, Timestamp};

use super::platform::Operated;
use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Output, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::{counted, padded, shorten, visible};
use crate::roles::HostError;

/// Look at the stream of all events, or have it made anew
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(StatusArgs),
    Tail(TailArgs),
    Rebuild(RebuildArgs),
}

/// Say where the stream stands, and what is wrong with it
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream status
  noetl stream status -o json | jq .lag_events")]
struct StatusArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Print events of all runs as they are written
///
/// They come from the log of the server, so that they are seen whether the stream is on or not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream tail                          what happens from now on
  noetl stream tail --from-start --limit 10  the first ten events of the log
  noetl stream tail -o jsonl                 whole events, one on each line")]
struct TailArgs {
    /// Begin with the first event of the log
    #[arg(long)]
    from_start: bool,
    /// Stop after so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Have the whole log published again
///
/// For a broker that has lost messages. Those that it has are published twice, which consumers know
/// by the id of a message. It is said first where the stream stands, and has to be agreed to; without
/// a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream rebuild --dry-run     only say where the stream stands
  noetl stream rebuild --yes")]
struct RebuildArgs {
    /// Only say where the stream stands
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Events that are asked for at once, and how long a question waits for them.
const PAGE: u32 = 500;
const WAIT_MS: u64 = 10_000;

/// Does what is asked.
pub(crate) fn run(args: &StreamArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Status(args) => {
            let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
            let status = reached.ask(async {
                let status = reached.host.server()?.stream_status().await;
                Ok(status.map_err(HostError::from)?)
            })?;
            show(&status, args.output, quiet, io)?;
        }
        Verb::Tail(args) => {
            let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
            reached.ask(async { tail(reached.host.server()?, args, io).await })?;
        }
        // An order is given by an operator, who is known by the token of the platform.
        Verb::Rebuild(args) => return rebuild(args, quiet, io),
    }
    Ok(Exit::Ok)
}

fn rebuild(args: &RebuildArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let at = Operated::find(&args.settings.given, io)?;
    // Asked of who would carry the order out: another server has another stream.
    let standing = || at.ask(async |client| client.stream_standing().await);
    if args.dry_run {
        show(&standing()?, args.output, quiet, io)?;
        return Ok(Exit::Ok);
    }
    if !args.consent.yes {
        match standing() {
            Ok(status) => {
                for (name, value) in lines(&status) {
                    io.talk(format_args!("{name:<NAME$}  {}", visible(&value)))?;
                }
            }
            // A server of an older release does not tell it, and takes the order all the same.
            Err(error) if error.exit() == Exit::NotFound => {}
            Err(error) => return Err(error),
        }
        let question = format!("Publish the whole log again, at {}?", at.url());
        if !agreed(args.consent, &question, "yes", io)? {
            return Ok(Exit::Failed);
        }
    }
    let status = at.ask(async |client| client.stream_rebuild().await)?;
    show(&status, args.output, quiet, io)?;
    Ok(Exit::Ok)
}

/// Columns for the names of what is told about the stream.
const NAME: usize = 9;

fn show(status: &StreamStatus, output: Output, quiet: bool, io: &mut Io<'_>) -> Result<(), Error> {
    if !output.is_table() {
        return output.thing(status, io);
    }
    for (name, value) in lines(status) {
        writeln!(io.out, "{name:<NAME$}  {}", visible(&value))?;
    }
    if !status.enabled && !quiet {
        io.talk("turn it on with NOETL_EVENT_STREAM_ENABLED=on and NOETL_NATS_URL at the server")?;
    }
    Ok(())
}

/// What is told about the stream.
fn lines(status: &StreamStatus) -> Vec<(&'static str, String)> {
    let nats = match (status.nats_connected, &status.nats_version) {
        (true, Some(version)) => format!("connected, version {version}"),
        (true, None) => "connected".to_owned(),
        (false, _) => "not connected".to_owned(),
    };
    let behind = counted(
        usize::try_from(status.lag_events).unwrap_or(usize::MAX),
        "event",
    );
    let behind = match status.lag_events {
        0 => "nothing".to_owned(),
        _ => format!(
            "{behind}, the first for {}",
            Millis::from_ms(status.lag_ms).human()
        ),
    };
    let mut lines = vec![("state", status.state.to_string())];
    lines.extend(
        status
            .trouble
            .as_ref()
            .map(|text| ("trouble", text.to_string())),
    );
    lines.extend(
        status
            .owner
            .as_ref()
            .map(|text| ("publisher", text.to_string())),
    );
    if status.enabled {
        lines.push(("behind", behind));
        if status.horizon_age_ms > 0 {
            let age = Millis::from_ms(status.horizon_age_ms).human();
            lines.push(("held back", format!("{age}, by an open transaction")));
        }
        lines.push(("published", status.published.to_string()));
        lines.push(("put aside", status.parked.to_string()));
        lines.push(("NATS", nats));
    }
    lines
}

async fn tail(server: &Server, args: &TailArgs, io: &mut Io<'_>) -> Result<(), Error> {
    let mut after = args.from_start.then(FeedPosition::default);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE);
        let feed = server.stream_feed(after, limit, WAIT_MS).await;
        let feed = feed.map_err(HostError::from)?;
        after = Some(feed.next);
        for event in &feed.events {
            if args.output.is_table() {
                line(event, &args.output.times(io), io)?;
            } else {
                args.output.one_of_many(event, io)?;
            }
            left = left.saturating_sub(1);
        }
        io.out.flush()?;
    }
    Ok(())
}

/// Columns for the type of an event and its status: a line is printed before the next is known.
const TYPE: usize = 18;
const STATUS: usize = 9;

/// Prints an event on one line.
fn line(event: &Json, times: &Times, io: &mut Io<'_>) -> Result<(), Error> {
    let field = |name: &str| match event.get(name) {
        Some(Json::Str(text)) => visible(text),
        Some(Json::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let time = field("event_time");
    let time = Timestamp::parse(&time).map_or(time, |time| times.tell(time));
    let kind = padded(&field("event_type"), TYPE);
    let plain = format!(
        "{time}  {}  {:>4}  {kind}  {}  {}",
        field("execution_id"),
        field("seq"),
        padded(&field("status"), STATUS),
        field("node_name"),
    );
    let plain = plain.trim_end();
    let plain = if io.out.is_terminal() {
        shorten(plain, io.out.width(), "…")
    } else {
        plain.to_owned()
    };
    let style = match event.get("status").and_then(Json::as_str) {
        Some("FAILED") => palette::BAD,
        Some("COMPLETED") => palette::GOOD,
        Some(_) | None => anstyle::Style::new(),
    };
    let painted = io.out.paint().text(style, &kind).to_string();
    writeln!(io.out, "{}", plain.replacen(&kind, &painted, 1))?;
    Ok(())
}
