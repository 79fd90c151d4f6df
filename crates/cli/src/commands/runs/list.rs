//! `noetl runs list`

use clap::Args;
use noetl_api::execution::ExecutionLine;
use noetl_api::query::ExecutionsQuery;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionStatus, PlaybookPath, Text, Timestamp};

use super::find::is_of_platform;
use super::status;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times, read_when};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::roles::Host;

/// List runs, newest first
///
/// What the platform runs for itself, below system/, is left out unless --system or --path is given.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs list                               the newest
  noetl runs list --status failed --since 24h   what failed since yesterday
  noetl runs list --path etl/ -o jsonl | jq .error
  noetl runs list --system                      also what the platform runs")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) filter: Filter,
    /// How many at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those that stand so: pending, running, paused, completed, failed, cancelled
    #[arg(long, value_name = "STATUS", value_parser = read_status)]
    pub(super) status: Option<ExecutionStatus>,
    /// Only those whose path holds this text
    #[arg(long, value_name = "TEXT")]
    pub(super) path: Option<String>,
    /// Only those with a label, NAME or NAME=VALUE
    #[arg(long, value_name = "LABEL")]
    pub(super) label: Option<String>,
    /// Only those that began since: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = read_when)]
    pub(super) since: Option<Timestamp>,
    /// Only those that began before: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = read_when)]
    pub(super) until: Option<Timestamp>,
    /// Only those whose id, path or error holds this text
    #[arg(long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    /// Also what the platform runs for itself, below system/
    #[arg(long)]
    pub(super) system: bool,
}

fn read_status(text: &str) -> Result<ExecutionStatus, String> {
    ExecutionStatus::parse(&text.to_ascii_uppercase()).map_err(|_| {
        let words = ExecutionStatus::ALL.iter().map(|status| status.as_str());
        let near = crate::config::nearest(&text.to_ascii_uppercase(), words);
        let hint = near.map(|near| format!(": did you mean {}?", near.to_lowercase()));
        format!("it is not a status{}", hint.unwrap_or_default())
    })
}

impl Filter {
    /// Whether it lets every run through.
    fn is_open(&self) -> bool {
        let Self {
            status,
            path,
            label,
            since,
            until,
            query,
            system: _,
        } = self;
        let words = [path, label, query];
        status.is_none()
            && since.is_none()
            && until.is_none()
            && words.iter().all(|word| word.is_none())
    }

    /// The runs to show. The text of a path may be a part of one of the platform's own, so whoever gives
    /// one sees those too.
    fn shown(&self) -> ExecutionsQuery {
        self.query(self.system || self.path.is_some())
    }

    /// The runs to cancel: what keeps the platform going is among them only where it is named.
    pub(super) fn cancelled(&self) -> ExecutionsQuery {
        let path = self.path.as_deref().unwrap_or_default();
        self.query(self.system || path.starts_with(PlaybookPath::PLATFORM))
    }

    fn query(&self, with_platform: bool) -> ExecutionsQuery {
        ExecutionsQuery {
            status: self.status,
            path: self.path.as_deref().map(Text::from),
            label: self.label.as_deref().map(Text::from),
            since: self.since,
            until: self.until,
            q: self.query.as_deref().map(Text::from),
            system: (!with_platform).then_some(false),
            ..ExecutionsQuery::default()
        }
    }
}

/// The runs that a query finds, newest first, as many as there are up to a number.
pub(super) async fn fetch(
    host: &Host,
    mut query: ExecutionsQuery,
    most: usize,
) -> Result<Vec<ExecutionLine>, Error> {
    let mut runs = Vec::new();
    loop {
        let left = i64::try_from(most.saturating_sub(runs.len())).unwrap_or(i64::MAX);
        query.limit = PageLimit::clamped(left);
        let page = host.executions(query.clone()).await?;
        // A server of an older release does not know the filter.
        let is_left_out = |run: &ExecutionLine| query.system == Some(false) && is_of_platform(run);
        runs.extend(page.executions.into_iter().filter(|run| !is_left_out(run)));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() || runs.len() >= most {
            runs.truncate(most);
            return Ok(runs);
        }
    }
}

pub(super) fn run(args: &ListArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let runs = reached.ask(fetch(&reached.host, args.filter.shown(), most))?;
    if runs.is_empty() && args.output.is_table() {
        if !quiet {
            io.talk(if args.filter.is_open() {
                "there are no runs; start one with: noetl run FILE, or noetl exec PATH"
            } else {
                "there are no such runs"
            })?;
        }
        return Ok(Exit::Ok);
    }
    args.output.list(&runs, |times| table(&runs, times), io)?;
    Ok(Exit::Ok)
}

/// Runs in a table.
pub(super) fn table(runs: &[ExecutionLine], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("RUN"),
        Column::new("STATUS"),
        Column::new("PLAYBOOK").gives_way(),
        Column::new("STARTED"),
        Column::new("TOOK").right(),
        Column::new("EVENTS").right().wide(),
        Column::new("PARENT").wide(),
        Column::new("ERROR").gives_way(),
    ]);
    for run in runs {
        let took = run.completed_at.unwrap_or(times.now).since(run.started_at);
        let parent = run.parent_execution_id.map(|id| id.to_string());
        let error = run.error.as_deref().unwrap_or_default();
        table.row([
            Cell::styled(run.execution_id.to_string(), palette::NAME),
            status(run.status),
            playbook(run).into(),
            times.tell(run.started_at).into(),
            took.human().into(),
            run.event_count.to_string().into(),
            parent.unwrap_or_else(|| "-".to_owned()).into(),
            error.lines().next().unwrap_or_default().into(),
        ]);
    }
    table
}

/// The playbook of a run, with its version.
pub(super) fn playbook(run: &ExecutionLine) -> String {
    match (&run.path, run.version) {
        (Some(path), Some(version)) => format!("{path}@{version}"),
        (Some(path), None) => path.to_string(),
        (None, _) => "-".to_owned(),
    }
}
