//! `noetl replay`: a run as it was at any moment of it.

mod show;
mod source;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use noetl_api::replay::{Cut, ReplayAnswer, ReplayQuery};
use noetl_types::replay::Projection;
use noetl_types::{EventId, ExecutionId, Json, Timestamp};

use super::runs::find;
use crate::config::Config;
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::render::result::{Form, render};
use crate::roles::{self, Host};
use source::Source;

/// Show a run as it was at any moment of it
///
/// The log of the run is folded up to the event that you name, and what it was then is shown: where
/// it stood, its commands, its loops, and a checksum that is the same wherever and whenever the same
/// log is folded. The log is read from a server, by its address or a profile, and where none is named
/// from the database of 'noetl run' and 'noetl dev', beside whoever writes to it; or from a file with
/// one event a line.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl replay last                             the newest run as it is now
  noetl replay 559312345678901234 --at-seq 12   after its first twelve events
  noetl replay 559312345678901234 --at-time 2026-11-16T09:30:00Z
  noetl replay 559312345678901234 -o json | jq .checksum
  noetl replay --log events.jsonl               a log from elsewhere

Exit codes:
    0  the run was replayed
    1  the log cannot be read
    2  the command line is wrong
    3  the run, the event or the file was not found")]
pub(crate) struct ReplayArgs {
    /// The run: its id, a part of its id, or last; of a log, the id
    #[arg(value_name = "RUN", required_unless_present = "log")]
    run: Option<String>,
    /// Stop at this event
    #[arg(long, value_name = "ID", conflicts_with_all = ["at_seq", "at_time"])]
    at_event: Option<EventId>,
    /// Stop at this place of the log; 0 is before the first event
    #[arg(long, value_name = "N", conflicts_with = "at_time", value_parser = clap::value_parser!(i64).range(0..))]
    at_seq: Option<i64>,
    /// Stop at what was recorded by this time, such as 2026-11-16T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at_time: Option<Timestamp>,
    /// Show only this part
    #[arg(long, value_name = "PART", default_value = "all", value_parser = Projection::parse,
        help = "Show only this part: execution, stage, frame, command, business_object, loop or all")]
    projection: Projection,
    /// The form of the answer; by default tables for people
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Form>,
    /// Ask the server at this address
    #[arg(long, value_name = "URL", conflicts_with_all = ["store", "log"])]
    server: Option<String>,
    /// Ask the server of this profile; by default that of the profile in use
    #[arg(long, value_name = "NAME", conflicts_with_all = ["server", "store", "log"])]
    profile: Option<String>,
    /// Read this database; by default that of 'noetl run'
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "log")]
    store: Option<PathBuf>,
    /// Read this file with one event a line as JSON; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
}

/// A time of the command line.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    match Timestamp::parse_lenient(text) {
        Ok(Some(time)) => Ok(time),
        Ok(None) => Err("it is empty".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Replays a run.
pub(crate) fn run(args: &ReplayArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let config = Config::load(&crate::config::Given::default(), &io.env)?;
    let threads = roles::threads(&config, 2)?;
    let answer = match source::of(args, &config, io)? {
        Source::Log(origin) => {
            let folded = source::fold_log(&origin, args.id_in_log()?, args.cut(), io)?;
            let answer = noetl_server::replay::answer(folded, args.projection);
            threads.block_on(answer).map_err(source::refused)?
        }
        Source::Server(client) => threads.block_on(async {
            let query = args.query(&Host::There(client.clone())).await?;
            let answer = client.replay_state(&query).await;
            Ok::<_, Error>(answer.map_err(roles::HostError::from)?)
        })?,
        Source::File(store) => threads.block_on(async {
            let reader = roles::reading_runtime(Arc::clone(&store), &config)?;
            let query = args.query(&Host::Here(reader)).await?;
            let folded = noetl_server::replay::replay(&*store, &query).await;
            let folded = folded.map_err(source::refused)?;
            let answer = noetl_server::replay::answer(folded, query.projection).await;
            answer.map_err(source::refused)
        })?,
    };
    write(&answer, args.output, io)?;
    Ok(Exit::Ok)
}

fn write(answer: &ReplayAnswer, form: Option<Form>, io: &mut Io<'_>) -> Result<(), Error> {
    if form.is_none() {
        let text = show::people(answer, io.out.paint());
        write!(io.out, "{text}")?;
        return Ok(());
    }
    let text = serde_json::to_vec(answer).map_err(std::io::Error::other)?;
    let json: Json = serde_json::from_slice(&text).map_err(std::io::Error::other)?;
    if let Some(text) = render(&json, form) {
        write!(io.out, "{text}")?;
    }
    Ok(())
}

impl ReplayArgs {
    fn cut(&self) -> Cut {
        match (self.at_event, self.at_seq, self.at_time) {
            (Some(id), _, _) => Cut::Event(id),
            (None, Some(seq), _) => Cut::Position(seq),
            (None, None, Some(time)) => Cut::Time(time),
            (None, None, None) => Cut::End,
        }
    }

    /// The run of a log, which has to be named by its id where it is named: there is nobody to ask.
    fn id_in_log(&self) -> Result<Option<ExecutionId>, Error> {
        let named = self.run.as_ref().map(|text| {
            let bad = |_| Error::BadRun { text: text.clone() };
            text.parse().map_err(bad)
        });
        named.transpose()
    }

    async fn query(&self, host: &Host) -> Result<ReplayQuery, Error> {
        // The command line wants a run unless there is a log, which is no question to ask of others.
        let run = self.run.as_deref().unwrap_or_default();
        Ok(ReplayQuery {
            cut: self.cut(),
            projection: self.projection,
            ..ReplayQuery::new(find(host, run).await?)
        })
    }
}
