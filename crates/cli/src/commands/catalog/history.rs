//! `noetl catalog history`

use clap::Args;
use noetl_types::PlaybookPath;

use super::list::definition_table;
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::target::{Access, TargetConnection};

/// List the versions of a definition, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog history etl/daily
  noetl catalog history etl/daily -o jsonl | jq .version")]
pub(crate) struct CatalogHistoryArgs {
    /// Path of the definition
    path: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Maximum versions listed.
const MAX_LISTED_VERSIONS: usize = 10_000;

pub(super) fn run(
    args: &CatalogHistoryArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let path = PlaybookPath::new(args.path.as_str())
        .map_err(|error| Error::InvalidArgument { what: "PATH", reason: error.to_string() })?;
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    let versions = connection.block_on(async {
        let (mut versions, mut cursor) = (Vec::new(), None);
        loop {
            let page = connection.target.list_versions(path.clone(), cursor).await?;
            versions.extend(page.entries);
            cursor = page.next_cursor;
            if cursor.is_none() || versions.len() >= MAX_LISTED_VERSIONS {
                return Ok::<_, Error>(versions);
            }
        }
    })?;
    args.output.print_list(&versions, |times| definition_table(&versions, times), io)?;
    Ok(CommandExit::Ok)
}
