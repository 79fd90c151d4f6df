//! `noetl catalog list`

use clap::Args;
use noetl_api::catalog::{CatalogListEntry, CatalogListRequest};
use noetl_types::limits::PageLimit;

use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::roles::Target;
use crate::target::{Access, TargetConnection};

/// List registered definitions by path
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog list
  noetl catalog list etl/ --kind playbook -o json")]
pub(crate) struct CatalogListArgs {
    /// Filter by text in the path
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Filter by kind, such as playbook, subscription or schedule
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Maximum number of definitions
    #[arg(short = 'n', long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(
    args: &CatalogListArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    let entries = connection.block_on(fetch_entries(args, &connection.target))?;
    if entries.is_empty() && args.output.is_table() {
        if !quiet {
            io.print_message(if args.text.is_none() && args.kind.is_none() {
                "no definitions are registered; register one with: noetl catalog register FILE"
            } else {
                "no matching definitions are registered"
            })?;
        }
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&entries, |times| definition_table(&entries, times), io)?;
    Ok(CommandExit::Ok)
}

async fn fetch_entries(
    args: &CatalogListArgs,
    target: &Target,
) -> Result<Vec<CatalogListEntry>, Error> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut request = CatalogListRequest {
        resource_type: args.kind.as_deref().map(Into::into),
        include_content: Some(false),
        q: args.text.as_deref().map(Into::into),
        ..CatalogListRequest::default()
    };
    let mut entries = Vec::new();
    loop {
        let remaining = i64::try_from(limit.saturating_sub(entries.len())).unwrap_or(i64::MAX);
        request.limit = Some(PageLimit::clamped(remaining));
        let page = target.list_definitions(request.clone()).await?;
        entries.extend(page.entries);
        request.cursor = page.next_cursor;
        if request.cursor.is_none() || entries.len() >= limit {
            entries.truncate(limit);
            return Ok(entries);
        }
    }
}

pub(super) fn definition_table(entries: &[CatalogListEntry], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("PATH").shrinkable(),
        TableColumn::new("VERSION").align_right(),
        TableColumn::new("KIND"),
        TableColumn::new("REGISTERED"),
        TableColumn::new("STATUS"),
        TableColumn::new("ID").wide_only(),
    ]);
    for entry in entries {
        table.add_row([
            TableCell::styled(entry.path.as_str(), palette::NAME),
            entry.version.to_string().into(),
            entry.kind.as_str().into(),
            times.format_time(entry.created_at).into(),
            entry.status.as_str().into(),
            entry.catalog_id.to_string().into(),
        ]);
    }
    table
}
