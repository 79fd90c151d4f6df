//! `noetl replay`: shows the state of a run at a point of its log.

mod show;
mod source;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use noetl_api::replay::{ReplayCutoff, ReplayQuery};
use noetl_server::replay::{build_replay_answer, replay_log};
use noetl_types::replay::ProjectionKind;
use noetl_types::{EventId, ExecutionId, Timestamp};

use super::runs::{find_run, invalid_run_error};
use crate::config::{Config, GivenSettings};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::to_json_value;
use crate::render::result::{ResultFormat, print_result};
use crate::roles::{self, Target};
use source::LogSource;

/// Show the state of a run at a point in time
///
/// Replays the log of the run up to the given event and shows the resulting state: its status,
/// commands, loops, and a checksum. Replaying the same log always produces the same checksum. The
/// log is read from the server given by --server or a profile, from a file with one event per line,
/// or by default from the database of 'noetl run' and 'noetl dev', which may be in use.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl replay last                             current state of the newest run
  noetl replay 559312345678901234 --at-seq 12   after its first twelve events
  noetl replay 559312345678901234 --at-time 2026-11-16T09:30:00Z
  noetl replay 559312345678901234 -o json | jq .checksum
  noetl replay --log events.jsonl               a log file

Exit codes:
    0  the run was replayed
    1  the log cannot be read
    2  the command line is invalid
    3  the run, the event or the file was not found")]
pub(crate) struct ReplayArgs {
    /// Run: its id, part of its id, or last; with --log, the full id
    #[arg(value_name = "RUN", required_unless_present = "log")]
    run: Option<String>,
    /// Stop at this event
    #[arg(long, value_name = "ID", conflicts_with_all = ["at_seq", "at_time"])]
    at_event: Option<EventId>,
    /// Stop at this position in the log; 0 is before the first event
    #[arg(long, value_name = "N", conflicts_with = "at_time", value_parser = clap::value_parser!(i64).range(0..))]
    at_seq: Option<i64>,
    /// Stop at this time of recording, such as 2026-11-16T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at_time: Option<Timestamp>,
    /// Show only this part
    #[arg(long, value_name = "PART", default_value = "all", value_parser = ProjectionKind::parse,
        help = "Show only this part: execution, stage, frame, command, business_object, loop or all")]
    projection: ProjectionKind,
    /// Output format (tables by default)
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<ResultFormat>,
    /// Read from the server at this address
    #[arg(long, value_name = "URL", conflicts_with_all = ["store", "log"])]
    server: Option<String>,
    /// Read from the server of this profile (the selected one by default)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["server", "store", "log"])]
    profile: Option<String>,
    /// Read this database (that of 'noetl run' by default)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "log")]
    store: Option<PathBuf>,
    /// Read this file with one JSON event per line; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
}

/// Parses a time given on the command line.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    match Timestamp::parse_lenient(text) {
        Ok(Some(time)) => Ok(time),
        Ok(None) => Err("the time is empty".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(args: &ReplayArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let config = Config::load(&GivenSettings::default(), &io.env)?;
    let runtime = roles::build_tokio_runtime(&config, 2)?;
    let response = match source::select_source(args, &config, io)? {
        LogSource::LogFile(origin) => {
            let folded =
                source::replay_log_file(&origin, args.execution_id_in_log()?, args.cutoff(), io)?;
            runtime.block_on(build_replay_answer(folded, args.projection))?
        }
        LogSource::Server(client) => runtime.block_on(async {
            let query = args.build_query(&Target::Remote(client.clone())).await?;
            Ok::<_, Error>(client.replay_state(&query).await?)
        })?,
        LogSource::Database(store) => runtime.block_on(async {
            let reader = roles::open_read_only_runtime(Arc::clone(&store), &config)?;
            let query = args.build_query(&Target::Local(reader)).await?;
            let folded = replay_log(&*store, &query).await?;
            Ok::<_, Error>(build_replay_answer(folded, query.projection).await?)
        })?,
    };
    if args.output.is_some() {
        return print_result(&to_json_value(&response)?, args.output, io);
    }
    write!(io.out, "{}", show::render_replay(&response, &io.out))?;
    Ok(CommandExit::Ok)
}

impl ReplayArgs {
    fn cutoff(&self) -> ReplayCutoff {
        match (self.at_event, self.at_seq, self.at_time) {
            (Some(id), _, _) => ReplayCutoff::Event(id),
            (None, Some(seq), _) => ReplayCutoff::Position(seq),
            (None, None, Some(time)) => ReplayCutoff::Time(time),
            (None, None, None) => ReplayCutoff::End,
        }
    }

    /// Parses the run in a log file. Requires the full id, since the log cannot be searched by part
    /// of an id.
    fn execution_id_in_log(&self) -> Result<Option<ExecutionId>> {
        let id = self.run.as_ref().map(|text| text.parse().map_err(|_| invalid_run_error(text)));
        id.transpose()
    }

    async fn build_query(&self, target: &Target) -> Result<ReplayQuery> {
        // Clap requires a run unless `--log` is given, and then no query is built.
        let run = self.run.as_deref().unwrap_or_default();
        Ok(ReplayQuery {
            cutoff: self.cutoff(),
            projection: self.projection,
            ..ReplayQuery::new(find_run(target, run).await?)
        })
    }
}
