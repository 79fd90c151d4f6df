//! `noetl runs list`

use clap::Args;
use noetl_api::execution::ExecutionSummary;
use noetl_api::query::ExecutionsQuery;
use noetl_types::{ExecutionStatus, PlaybookPath, Text, Timestamp};

use super::find::is_platform_run;
use super::status_cell;
use crate::commands::next_page_limit;
use crate::config::nearest_name;
use crate::connection::ClientArgs;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter, parse_when};
use crate::render::palette;
use crate::roles::Target;

/// List runs, newest first
///
/// Runs of the platform itself, below system/, are omitted unless --system or --path is given.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs list                               the newest runs
  noetl runs list --status failed --since 24h   failures of the last day
  noetl runs list --path etl/ -o jsonl | jq .error
  noetl runs list --system                      including runs of the platform")]
pub(crate) struct RunsListArgs {
    #[command(flatten)]
    pub(super) filter: RunFilterArgs,
    /// Maximum number of runs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    client: ClientArgs,
}

/// Filters of runs.
#[derive(Debug, Args)]
pub(crate) struct RunFilterArgs {
    /// Filter by status: pending, running, paused, completed, failed, cancelled
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    pub(super) status: Option<ExecutionStatus>,
    /// Filter by text in the path
    #[arg(long, value_name = "TEXT")]
    pub(super) path: Option<String>,
    /// Filter by label, NAME or NAME=VALUE
    #[arg(long, value_name = "LABEL")]
    pub(super) label: Option<String>,
    /// Only runs started after this: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub(super) since: Option<Timestamp>,
    /// Only runs started before this: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub(super) until: Option<Timestamp>,
    /// Filter by text in the id, path or error
    #[arg(long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    /// Include runs of the platform itself, below system/
    #[arg(long)]
    pub(super) system: bool,
}

fn parse_status(text: &str) -> Result<ExecutionStatus, String> {
    ExecutionStatus::parse(&text.to_ascii_uppercase()).map_err(|_| {
        let names = ExecutionStatus::ALL.iter().map(|status| status.as_str());
        let similar = nearest_name(&text.to_ascii_uppercase(), names);
        let hint = similar.map(|similar| format!(": did you mean {}?", similar.to_lowercase()));
        format!("not a status{}", hint.unwrap_or_default())
    })
}

impl RunFilterArgs {
    /// True if no filter is given.
    fn is_unfiltered(&self) -> bool {
        let Self { status, path, label, since, until, query, system: _ } = self;
        let is_text_given = [path, label, query].iter().any(|text| text.is_some());
        status.is_none() && since.is_none() && until.is_none() && !is_text_given
    }

    /// Query for listing runs. A path filter also matches paths of the platform, so its runs are
    /// included.
    fn list_query(&self) -> ExecutionsQuery {
        self.query(self.system || self.path.is_some())
    }

    /// Query for cancelling runs. Includes runs of the platform only if they are named explicitly.
    pub(super) fn cancel_query(&self) -> ExecutionsQuery {
        let path = self.path.as_deref().unwrap_or_default();
        self.query(self.system || path.starts_with(PlaybookPath::SYSTEM_PREFIX))
    }

    fn query(&self, includes_platform: bool) -> ExecutionsQuery {
        ExecutionsQuery {
            status: self.status,
            path: self.path.as_deref().map(Text::from),
            label: self.label.as_deref().map(Text::from),
            since: self.since,
            until: self.until,
            q: self.query.as_deref().map(Text::from),
            system: (!includes_platform).then_some(false),
            ..ExecutionsQuery::default()
        }
    }
}

/// Fetches the runs of a query, newest first, up to `max_runs` runs.
pub(super) async fn fetch_runs(
    target: &Target,
    mut query: ExecutionsQuery,
    max_runs: usize,
) -> Result<Vec<ExecutionSummary>> {
    let mut runs = Vec::new();
    loop {
        query.limit = next_page_limit(max_runs, runs.len());
        let page = target.list_executions(query.clone()).await?;
        // Older servers ignore this filter.
        let is_excluded =
            |run: &ExecutionSummary| query.system == Some(false) && is_platform_run(run);
        runs.extend(page.executions.into_iter().filter(|run| !is_excluded(run)));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() || runs.len() >= max_runs {
            runs.truncate(max_runs);
            return Ok(runs);
        }
    }
}

pub(super) fn run(args: &RunsListArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    let max_runs = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let runs = fetch_runs(&connection.target, args.filter.list_query(), max_runs);
    let runs = connection.block_on(runs)?;
    let note = if args.filter.is_unfiltered() {
        "there are no runs; start one with: noetl run FILE, or noetl exec PATH"
    } else {
        "there are no matching runs"
    };
    args.client.output.print_list_or_note(&runs, note, run_table, io)
}

pub(super) fn run_table<'t>(
    runs: &'t [ExecutionSummary],
    times: &TimeFormatter,
) -> TextTable<'t, ExecutionSummary> {
    let took = |run: &ExecutionSummary| {
        run.completed_at.unwrap_or(times.now).duration_since(run.started_at).to_human()
    };
    let error_line = |run: &'t ExecutionSummary| {
        run.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default()
    };
    TextTable::new(runs)
        .column("RUN", |run| TableCell::styled(run.execution_id, palette::NAME))
        .column("STATUS", |run| status_cell(run.status))
        .shrinkable("PLAYBOOK", playbook_name)
        .column("STARTED", |run| times.format_time(run.started_at))
        .right("TOOK", took)
        .wide_right("EVENTS", |run| run.event_count)
        .wide("PARENT", |run| TableCell::or_dash(run.parent_execution_id))
        .shrinkable("ERROR", error_line)
}

/// Path and version of the playbook of a run.
pub(super) fn playbook_name(run: &ExecutionSummary) -> String {
    match (&run.path, run.version) {
        (Some(path), Some(version)) => format!("{path}@{version}"),
        (Some(path), None) => path.to_string(),
        (None, _) => "-".to_owned(),
    }
}
