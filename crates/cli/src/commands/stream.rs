//! `noetl stream`: inspects and rebuilds the event stream.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::stream::StreamStatus;
use noetl_types::{FeedPosition, Json, Millis, Timestamp};

use crate::config::{Operator, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::{ClientArgs, Connection};
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pad_to_width, pluralize, truncate_to_width};

/// Inspect or rebuild the stream of all events
#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Show the state of the stream and its problems
    #[command(after_long_help = "\
Examples:
  noetl stream status
  noetl stream status -o json | jq .lag_events")]
    Status(ClientArgs),
    Tail(StreamTailArgs),
    Rebuild(StreamRebuildArgs),
}

/// Print events of all runs as they are written
///
/// Events are read from the log of the server, so they are shown even if the stream is disabled.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream tail                          new events
  noetl stream tail --from-start --limit 10  the first ten events of the log
  noetl stream tail -o jsonl                 full events, one per line")]
pub(crate) struct StreamTailArgs {
    /// Start with the first event of the log
    #[arg(long)]
    from_start: bool,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Publish the whole log again
///
/// Use this after a broker has lost messages. Messages that the broker still has are published
/// twice; consumers recognize duplicates by message id. Shows the state of the stream and asks for
/// confirmation. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream rebuild --dry-run     only show the state of the stream
  noetl stream rebuild --yes")]
pub(crate) struct StreamRebuildArgs {
    /// Only show the state of the stream
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

/// Maximum events per request, and the time a request waits for events.
const MAX_PAGE_EVENTS: u32 = 500;
const POLL_WAIT_MS: u64 = 10_000;

/// Runs the `noetl stream` subcommands.
pub(crate) fn run(command: &StreamCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        StreamCommand::Status(args) => {
            let server = args.connect_to_server(io)?;
            let status = server.send(async |client| client.stream_status().await)?;
            print_stream_status(&status, args.output, io)
        }
        StreamCommand::Tail(args) => tail_stream(args, io),
        // Rebuilding is an operator command and uses the platform token.
        StreamCommand::Rebuild(args) => rebuild_stream(args, io),
    }
}

fn rebuild_stream(args: &StreamRebuildArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::for_operator(&args.settings.given, io)?;
    // Queried from the server that will rebuild the stream. Another server has another stream.
    let fetch_status = || server.send(async |client| client.internal_stream_status().await);
    if args.dry_run {
        return print_stream_status(&fetch_status()?, args.output, io);
    }
    if !args.confirm.yes {
        match fetch_status() {
            Ok(status) => {
                for line in status_lines(&status) {
                    io.print_message(line)?;
                }
            }
            // An older server does not report the status but can still rebuild the stream.
            Err(error) if error.exit_code() == CommandExit::NotFound => {}
            Err(error) => return Err(error),
        }
        let question = format!("Publish the whole log again at {}?", server.display_name());
        if !confirm(args.confirm, &question, "yes", io)? {
            return Ok(CommandExit::Failed);
        }
    }
    let status = server.send(async |client| client.stream_rebuild().await)?;
    print_stream_status(&status, args.output, io)
}

/// Width of the name column of the stream status.
const NAME_WIDTH: usize = 9;

fn print_stream_status(
    status: &StreamStatus,
    output: OutputArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    if !output.is_table() {
        return output.print_item(status, io);
    }
    for line in status_lines(status) {
        writeln!(io.out, "{line}")?;
    }
    if !status.enabled {
        io.print_note(
            "enable it with NOETL_EVENT_STREAM_ENABLED=on and NOETL_NATS_URL on the server",
        )?;
    }
    Ok(CommandExit::Ok)
}

/// Lines with the names and values of the stream status.
fn status_lines(status: &StreamStatus) -> Vec<String> {
    let nats_state = match (status.nats_connected, &status.nats_version) {
        (true, Some(version)) => format!("connected, version {version}"),
        (true, None) => "connected".to_owned(),
        (false, _) => "not connected".to_owned(),
    };
    let backlog = pluralize(usize::try_from(status.lag_events).unwrap_or(usize::MAX), "event");
    let backlog = match status.lag_events {
        0 => "nothing".to_owned(),
        _ => format!("{backlog}, the oldest for {}", Millis::from_ms(status.lag_ms).to_human()),
    };
    let mut lines = vec![("state", status.state.to_string())];
    lines.extend(status.problem.as_ref().map(|text| ("problem", text.to_string())));
    lines.extend(status.owner.as_ref().map(|text| ("publisher", text.to_string())));
    if status.enabled {
        lines.push(("behind", backlog));
        if status.horizon_age_ms > 0 {
            let age = Millis::from_ms(status.horizon_age_ms).to_human();
            lines.push(("held back", format!("{age}, by an open transaction")));
        }
        lines.push(("published", status.published.to_string()));
        lines.push(("rejected", status.undeliverable.to_string()));
        lines.push(("NATS", nats_state));
    }
    let line =
        |(name, value): &(&str, String)| format!("{name:<NAME_WIDTH$}  {}", escape_control(value));
    lines.iter().map(line).collect()
}

fn tail_stream(args: &StreamTailArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let mut after = args.from_start.then(FeedPosition::default);
    let mut remaining = args.limit.unwrap_or(u64::MAX);
    while remaining > 0 {
        let limit = u32::try_from(remaining).unwrap_or(u32::MAX).min(MAX_PAGE_EVENTS);
        let feed =
            server.send(async |client| client.stream_feed(after, limit, POLL_WAIT_MS).await)?;
        after = Some(feed.next);
        for event in &feed.events {
            if args.client.output.is_table() {
                print_event(event, &args.client.output.time_formatter(io), io)?;
            } else {
                args.client.output.print_stream_item(event, io)?;
            }
            remaining = remaining.saturating_sub(1);
        }
        io.out.flush()?;
    }
    Ok(CommandExit::Ok)
}

/// Widths of the type and status columns. Fixed, since lines are printed one by one.
const TYPE_WIDTH: usize = 18;
const STATUS_WIDTH: usize = 9;

fn print_event(event: &Json, times: &TimeFormatter, io: &mut Io<'_>) -> Result<()> {
    let field = |name: &str| match event.get(name) {
        Some(Json::Str(text)) => escape_control(text),
        Some(Json::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let time = field("event_time");
    let time = Timestamp::parse(&time).map_or(time, |time| times.format_time(time));
    let kind = pad_to_width(&field("event_type"), TYPE_WIDTH);
    let plain = format!(
        "{time}  {}  {:>4}  {kind}  {}  {}",
        field("execution_id"),
        field("seq"),
        pad_to_width(&field("status"), STATUS_WIDTH),
        field("node_name"),
    );
    let plain = plain.trim_end();
    let plain = if io.out.is_terminal() {
        truncate_to_width(plain, io.out.width(), "…")
    } else {
        plain.to_owned()
    };
    let style = match event.get("status").and_then(Json::as_str) {
        Some("FAILED") => palette::FAILURE,
        Some("COMPLETED") => palette::SUCCESS,
        Some(_) | None => anstyle::Style::new(),
    };
    let painted = io.out.paint().text(style, &kind).to_string();
    writeln!(io.out, "{}", plain.replacen(&kind, &painted, 1))?;
    Ok(())
}
