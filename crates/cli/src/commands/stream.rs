//! `noetl stream`: the stream of all events.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client;
use noetl_api::stream::StreamStatus;
use noetl_types::{FeedPosition, Json};

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, SERVER_URL, TOKEN};
use crate::config::{Config, Given};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::reach;
use crate::render::words::visible;
use crate::roles::{self, HostError};

/// Look at the stream of all events, or have it made anew
#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    verb: Verb,
    /// Address of the server
    #[arg(
        help = "Address of the server [env: NOETL_SERVER_URL]",
        long,
        global = true,
        value_name = "URL"
    )]
    server: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(StatusArgs),
    Tail(TailArgs),
    Rebuild(RebuildArgs),
}

/// Say where the stream stands, and what is wrong with it
#[derive(Debug, Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print events of all runs as they are written
///
/// They come from the log of the server, so that they are seen whether the stream is on or not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl stream tail                          what happens from now on, until Ctrl-C
  noetl stream tail --from-start --limit 10  the first ten events of the log
  noetl stream tail --json                   whole events, one on each line")]
struct TailArgs {
    /// Begin with the first event of the log
    #[arg(long)]
    from_start: bool,
    /// Stop after so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print whole events as JSON, one on each line
    #[arg(long)]
    json: bool,
}

/// Have the whole log published again
///
/// For a broker that has lost messages. Those that it has are published twice, which consumers know
/// by the id of a message.
#[derive(Debug, Args)]
struct RebuildArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Threads of the command.
const THREADS: usize = 2;
/// Events that are asked for at once, and how long a question waits for them.
const PAGE: u32 = 500;
const WAIT_MS: u64 = 10_000;

/// Does what is asked.
pub(crate) fn run(args: &StreamArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let config = Config::load(&Given::default(), &io.env)?;
    let threads = roles::threads(&config, THREADS)?;
    // An order is given by an operator, who is known by the token of the platform.
    let is_order = matches!(args.verb, Verb::Rebuild(_));
    let token = match config.get(&INTERNAL_TOKEN)? {
        Some(token) if is_order => Some(token),
        _ => config.get(&TOKEN)?,
    };
    let url = match (&args.server, config.get(&INTERNAL_URL)?) {
        (Some(url), _) => url.clone(),
        (None, Some(url)) if is_order => url,
        (None, _) => config.value(&SERVER_URL)?,
    };
    let client = reach::client_of(&url, token, &config)?;
    threads.block_on(async {
        match &args.verb {
            Verb::Status(verb) => {
                let status = client.stream_status().await.map_err(HostError::There)?;
                show(&status, verb.json, io)
            }
            Verb::Rebuild(verb) => {
                let status = client.stream_rebuild().await.map_err(HostError::There)?;
                show(&status, verb.json, io)
            }
            Verb::Tail(verb) => tail(&client, verb, io).await,
        }
    })?;
    Ok(Exit::Ok)
}

fn show(status: &StreamStatus, json: bool, io: &mut Io<'_>) -> Result<(), Error> {
    if json {
        let text = serde_json::to_string(status).map_err(std::io::Error::other)?;
        writeln!(io.out, "{text}")?;
        return Ok(());
    }
    let nats = match (status.nats_connected, &status.nats_version) {
        (true, Some(version)) => format!("connected, version {version}"),
        (true, None) => "connected".to_owned(),
        (false, _) => "not connected".to_owned(),
    };
    let lines = [
        ("state", status.state.to_string()),
        ("trouble", text(status.trouble.as_deref())),
        ("publisher", text(status.owner.as_deref())),
        (
            "behind",
            format!("{} events, {} ms", status.lag_events, status.lag_ms),
        ),
        ("held back", format!("{} ms", status.horizon_age_ms)),
        ("published", status.published.to_string()),
        ("put aside", status.parked.to_string()),
        ("NATS", nats),
    ];
    for (name, value) in lines {
        writeln!(io.out, "{name:<10} {}", visible(&value))?;
    }
    Ok(())
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or("-").to_owned()
}

async fn tail(client: &Client, args: &TailArgs, io: &mut Io<'_>) -> Result<(), Error> {
    let mut after = args.from_start.then(FeedPosition::default);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE);
        let feed = client.stream_feed(after, limit, WAIT_MS).await;
        let feed = feed.map_err(HostError::There)?;
        after = Some(feed.next);
        for event in &feed.events {
            if args.json {
                writeln!(io.out, "{event}")?;
            } else {
                writeln!(io.out, "{}", line(event))?;
            }
            left = left.saturating_sub(1);
        }
        io.out.flush()?;
    }
    Ok(())
}

/// An event on one line.
fn line(event: &Json) -> String {
    let field = |name: &str| match event.get(name) {
        Some(Json::Str(text)) => visible(text),
        Some(Json::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    format!(
        "{} {} {:>4} {:<18} {} {}",
        field("event_time"),
        field("execution_id"),
        field("seq"),
        field("event_type"),
        field("status"),
        field("node_name"),
    )
}
