//! `noetl secret audit`

use clap::Args;
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditRow};
use noetl_types::{ExecutionId, Text, Timestamp};

use crate::commands::platform::OperatorConnection;
use crate::commands::runs::{find_run, parse_full_id};
use crate::config::{Operator, SettingFlags};
use crate::error::Error;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter, parse_when};
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::target::{Access, TargetConnection};

/// List operations on secrets, newest first, with actor, run and outcome
#[derive(Debug, Args)]
#[command(after_long_help = "\
The list covers all tenants, so the command uses the token of the internal API
(NOETL_INTERNAL_API_TOKEN), or an admin token of the tenant 'default'.

Examples:
  noetl secret audit                       the newest operations
  noetl secret audit pg_main --since 24h   recent operations on one secret
  noetl secret audit --run 4821            operations for one run
  noetl secret audit -o jsonl | jq 'select(.outcome != \"ok\")'")]
pub(crate) struct SecretAuditArgs {
    /// Filter by secret
    name: Option<String>,
    /// Filter by run
    #[arg(
        long,
        value_name = "RUN",
        help = "Filter by run: its id, a unique part of its id, or last; \
                with NOETL_INTERNAL_URL, its full id"
    )]
    run: Option<String>,
    /// Only operations after this: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    since: Option<Timestamp>,
    /// Only operations before this: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    until: Option<Timestamp>,
    /// Maximum number of operations
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(SecretAuditQuery::MAX_ROWS)))]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

pub(super) fn run(args: &SecretAuditArgs, io: &mut Io<'_>) -> Result<(), Error> {
    let server = OperatorConnection::connect(&args.settings.given, io)?;
    let execution_id = args.run.as_deref().map(|run| resolve_run_id(run, &server, args, io));
    let query = SecretAuditQuery {
        credential: args.name.as_deref().map(Text::from),
        execution_id: execution_id.transpose()?,
        from: args.since,
        to: args.until,
        limit: args.limit,
    };
    let rows = server.send(async |client| client.list_secret_audit(&query).await)?.rows;
    if rows.is_empty() && args.output.is_table() {
        return Ok(io.print_message("there are no matching operations")?);
    }
    args.output.print_list(&rows, |times| audit_table(&rows, times), io)
}

/// Resolves the id of a run. Part of an id is searched among the runs of the same server that is
/// queried. If only the internal API is known, runs cannot be searched.
fn resolve_run_id(
    run: &str,
    server: &OperatorConnection,
    args: &SecretAuditArgs,
    io: &mut Io<'_>,
) -> Result<ExecutionId, Error> {
    if let Some(id) = parse_full_id(run) {
        return Ok(id);
    }
    // Quiet, because the operator connection has already printed the warnings about settings.
    let connection = TargetConnection::connect(&args.settings.given, Access::Write, true, io)?;
    if connection.display_name() != server.url() {
        return Err(Error::PartialRunId {
            text: escape_control(run),
            url: server.url().to_owned(),
        });
    }
    connection.block_on(find_run(&connection.target, run))
}

fn audit_table(rows: &[SecretAuditRow], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("WHEN"),
        TableColumn::new("OPERATION"),
        TableColumn::new("SECRET").shrinkable(),
        TableColumn::new("OUTCOME"),
        TableColumn::new("ACTOR").shrinkable(),
        TableColumn::new("RUN"),
        TableColumn::new("WORKER").shrinkable(),
        TableColumn::new("TENANT").wide_only(),
        TableColumn::new("ADDRESS").wide_only(),
        TableColumn::new("KEY").wide_only(),
        TableColumn::new("SEQ").align_right().wide_only(),
    ]);
    let or_dash = |text: Option<String>| TableCell::from(text.unwrap_or_else(|| "-".to_owned()));
    for row in rows {
        let outcome = if row.outcome == "ok" {
            TableCell::from(row.outcome.as_str())
        } else {
            TableCell::styled(row.outcome.as_str(), palette::FAILURE)
        };
        table.add_row([
            times.format_time(row.occurred_at).into(),
            row.operation.as_str().into(),
            or_dash(row.credential.as_ref().map(Text::to_string)),
            outcome,
            row.actor.as_str().into(),
            or_dash(row.execution_id.map(|id| id.to_string())),
            or_dash(row.worker_id.as_ref().map(ToString::to_string)),
            row.tenant_id.as_str().into(),
            or_dash(row.address.as_ref().map(Text::to_string)),
            or_dash(row.kek_version.as_ref().map(Text::to_string)),
            row.seq.to_string().into(),
        ]);
    }
    table
}
