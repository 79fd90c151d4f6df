//! `noetl catalog get`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::{CatalogListRequest, CatalogResource, CatalogResourceRequest};
use noetl_types::ErrorCode;
use noetl_types::limits::PageLimit;

use crate::commands::exec::parse_path_and_version;
use crate::config::{Client, SettingFlags, nearest_name};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::text_layout::{escape_control, escape_control_lines};
use crate::roles::{Target, TargetError};
use crate::target::{Access, TargetConnection};

/// Print the source of a definition
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog get etl/daily > daily.yaml   the newest version
  noetl catalog get etl/daily@3 -o json      version 3, with its metadata")]
pub(crate) struct CatalogGetArgs {
    /// Path of the definition, optionally with a version: PATH@3
    path: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(
    args: &CatalogGetArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    let definition = connection.block_on(fetch_definition(&args.path, &connection.target))?;
    if args.output.is_table() {
        let ending = if definition.content.ends_with('\n') { "" } else { "\n" };
        // A file receives the exact registered text. On a terminal, control characters are escaped,
        // since the text may come from other users.
        if io.out.is_terminal() {
            write!(io.out, "{}{ending}", escape_control_lines(&definition.content))?;
        } else {
            write!(io.out, "{}{ending}", definition.content)?;
        }
    } else {
        args.output.print_item(&definition, io)?;
    }
    Ok(CommandExit::Ok)
}

/// Fetches a definition by path and optional version.
pub(super) async fn fetch_definition(
    path: &str,
    target: &Target,
) -> Result<CatalogResource, Error> {
    let (playbook_path, version) = parse_path_and_version(path)?;
    let request = CatalogResourceRequest {
        path: Some(playbook_path),
        version,
        ..CatalogResourceRequest::default()
    };
    match target.find_definition(request).await {
        Ok(definition) => Ok(definition),
        Err(error) => Err(definition_not_found(path, error, target).await),
    }
}

/// Converts a "not found" error into one that suggests the definition with the nearest name.
pub(crate) async fn definition_not_found(name: &str, error: TargetError, target: &Target) -> Error {
    if error.error_code() != Some(ErrorCode::NotFound) {
        return error.into();
    }
    let request = CatalogListRequest {
        include_content: Some(false),
        limit: Some(PageLimit::MAX),
        ..CatalogListRequest::default()
    };
    // The suggestion is optional: if the list cannot be fetched, no suggestion is made.
    let definitions = target.list_definitions(request).await.unwrap_or_default().entries;
    let path = name.rsplit_once('@').map_or(name, |(path, _)| path);
    Error::NoDefinition {
        name: escape_control(name),
        near: nearest_name(path, definitions.iter().map(|entry| entry.path.as_str())),
    }
}
