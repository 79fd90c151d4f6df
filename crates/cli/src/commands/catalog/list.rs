//! `noetl catalog list`

use clap::Args;
use noetl_api::catalog::{CatalogLine, ListRequest};
use noetl_types::limits::PageLimit;

use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::roles::Host;

/// List what is registered, by path
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog list
  noetl catalog list etl/ --kind playbook -o json")]
pub(crate) struct ListArgs {
    /// Only those whose path holds this text
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only those of a kind, such as playbook, subscription or schedule
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// How many at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &ListArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    let entries = reached.ask(entries(args, &reached.host))?;
    if entries.is_empty() && args.output.is_table() {
        if !quiet {
            io.talk(if args.text.is_none() && args.kind.is_none() {
                "nothing is registered; hand a playbook over with: noetl catalog register FILE"
            } else {
                "nothing of that kind is registered"
            })?;
        }
        return Ok(Exit::Ok);
    }
    args.output
        .list(&entries, |times| table(&entries, times), io)?;
    Ok(Exit::Ok)
}

async fn entries(args: &ListArgs, host: &Host) -> Result<Vec<CatalogLine>, Error> {
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut request = ListRequest {
        resource_type: args.kind.as_deref().map(Into::into),
        include_content: Some(false),
        q: args.text.as_deref().map(Into::into),
        ..ListRequest::default()
    };
    let mut entries = Vec::new();
    loop {
        let left = i64::try_from(most.saturating_sub(entries.len())).unwrap_or(i64::MAX);
        request.limit = Some(PageLimit::clamped(left));
        let page = host.definitions(request.clone()).await?;
        entries.extend(page.entries);
        request.cursor = page.next_cursor;
        if request.cursor.is_none() || entries.len() >= most {
            entries.truncate(most);
            return Ok(entries);
        }
    }
}

/// Definitions in a table.
pub(super) fn table(entries: &[CatalogLine], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("PATH").gives_way(),
        Column::new("VERSION").right(),
        Column::new("KIND"),
        Column::new("REGISTERED"),
        Column::new("STATUS"),
        Column::new("ID").wide(),
    ]);
    for entry in entries {
        table.row([
            Cell::styled(entry.path.as_str(), palette::NAME),
            entry.version.to_string().into(),
            entry.kind.as_str().into(),
            times.tell(entry.created_at).into(),
            entry.status.as_str().into(),
            entry.catalog_id.to_string().into(),
        ]);
    }
    table
}
