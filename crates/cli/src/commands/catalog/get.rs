//! `noetl catalog get`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::{CatalogItem, ListRequest, ResourceRequest};
use noetl_types::ErrorCode;
use noetl_types::limits::PageLimit;

use crate::commands::exec::path_and_version;
use crate::config::{Client, Flags, nearest};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};
use crate::render::words::{visible, visible_lines};
use crate::roles::{Host, HostError};

/// Print a definition as it was registered
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog get etl/daily > daily.yaml   the newest version
  noetl catalog get etl/daily@3 -o json      another, with what is known of it")]
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
        // In a file it is what was registered; a terminal is spared what others wrote for it.
        if io.out.is_terminal() {
            write!(io.out, "{}{ending}", visible_lines(&item.content))?;
        } else {
            write!(io.out, "{}{ending}", item.content)?;
        }
    } else {
        args.output.thing(&item, io)?;
    }
    Ok(Exit::Ok)
}

/// A definition, by path and perhaps version.
pub(super) async fn item(path: &str, host: &Host) -> Result<CatalogItem, Error> {
    let name = path;
    let (path, version) = path_and_version(path)?;
    let request = ResourceRequest {
        path: Some(path),
        version,
        ..ResourceRequest::default()
    };
    match host.definition(request).await {
        Ok(item) => Ok(item),
        Err(error) => Err(not_found(name, error, host).await),
    }
}

/// An error that says which definition was probably meant, where there is none as named.
pub(crate) async fn not_found(name: &str, error: HostError, host: &Host) -> Error {
    if error.code() != Some(ErrorCode::NotFound) {
        return error.into();
    }
    let request = ListRequest {
        include_content: Some(false),
        limit: Some(PageLimit::MAX),
        ..ListRequest::default()
    };
    // Whoever cannot be asked for a hint has none.
    let known = host.definitions(request).await.unwrap_or_default().entries;
    let path = name.rsplit_once('@').map_or(name, |(path, _)| path);
    Error::NoDefinition {
        name: visible(name),
        near: nearest(path, known.iter().map(|entry| entry.path.as_str())),
    }
}
