//! `noetl catalog get`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::{CatalogItem, ResourceRequest};

use crate::commands::exec::path_and_version;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};
use crate::roles::Host;

/// Print a definition as it was registered
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog get etl/daily > daily.yaml      the newest version
  noetl catalog get etl/daily@3 -o json         another one, with all that is known of it")]
pub(crate) struct GetArgs {
    /// The path, perhaps with a version: PATH@3
    path: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &GetArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    let item = reached.ask(item(&args.path, &reached.host))?;
    if args.output.is_table() {
        let ending = if item.content.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        write!(io.out, "{}{ending}", item.content)?;
    } else {
        args.output.thing(&item, io)?;
    }
    Ok(Exit::Ok)
}

/// A definition, by path and perhaps version.
pub(super) async fn item(path: &str, host: &Host) -> Result<CatalogItem, Error> {
    let (path, version) = path_and_version(path)?;
    let request = ResourceRequest {
        path: Some(path),
        version,
        ..ResourceRequest::default()
    };
    Ok(host.definition(request).await?)
}
