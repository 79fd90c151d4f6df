//! `noetl catalog history`

use clap::Args;
use noetl_types::PlaybookPath;

use super::list::table;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};

/// List the versions of a definition, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog history etl/daily
  noetl catalog history etl/daily -o jsonl | jq .version")]
pub(crate) struct HistoryArgs {
    /// The path
    path: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Versions that are listed.
const MAX_VERSIONS: usize = 10_000;

pub(super) fn run(args: &HistoryArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let path = PlaybookPath::new(args.path.as_str()).map_err(|error| Error::BadValue {
        what: "PATH",
        reason: error.to_string(),
    })?;
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    let versions = reached.ask(async {
        let (mut versions, mut cursor) = (Vec::new(), None);
        loop {
            let page = reached.host.versions(path.clone(), cursor).await?;
            versions.extend(page.entries);
            cursor = page.next_cursor;
            if cursor.is_none() || versions.len() >= MAX_VERSIONS {
                return Ok::<_, Error>(versions);
            }
        }
    })?;
    args.output
        .list(&versions, |times| table(&versions, times), io)?;
    Ok(Exit::Ok)
}
