//! `noetl secret audit`

use clap::Args;
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditRow};
use noetl_types::{ExecutionId, Text, Timestamp};

use crate::commands::platform::Operated;
use crate::commands::runs::{find, whole};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times, read_when};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::visible;

/// Tell what was done to secrets, newest first: who, for which run, and what came of it
#[derive(Debug, Args)]
#[command(after_long_help = "\
It asks for all tenants, so it shows the token of the internal API
(NOETL_INTERNAL_API_TOKEN), or that of an admin of the tenant 'default'.

Examples:
  noetl secret audit                       the newest
  noetl secret audit pg_main --since 24h   what was done to one since yesterday
  noetl secret audit --run 4821            what was lent to one run
  noetl secret audit -o jsonl | jq 'select(.outcome != \"ok\")'")]
pub(crate) struct AuditArgs {
    /// Only what was done to this secret
    name: Option<String>,
    /// Only what was done for this run
    #[arg(
        long,
        value_name = "RUN",
        help = "Only what was done for this run: its id, a part of it that fits no other, or last; \
                at NOETL_INTERNAL_URL its whole id"
    )]
    run: Option<String>,
    /// Only what was done since: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = read_when)]
    since: Option<Timestamp>,
    /// Only what was done before: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = read_when)]
    until: Option<Timestamp>,
    /// How many at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(SecretAuditQuery::MAX)))]
    limit: u32,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

pub(super) fn run(args: &AuditArgs, io: &mut Io<'_>) -> Result<(), Error> {
    let at = Operated::find(&args.settings.given, io)?;
    let execution_id = args.run.as_deref().map(|run| id_of(run, &at, args, io));
    let query = SecretAuditQuery {
        credential: args.name.as_deref().map(Text::from),
        execution_id: execution_id.transpose()?,
        from: args.since,
        to: args.until,
        limit: args.limit,
    };
    let rows = at.ask(async |client| client.secret_audit(&query).await)?;
    let rows = rows.rows;
    if rows.is_empty() && args.output.is_table() {
        return Ok(io.talk("there are no such acts")?);
    }
    args.output.list(&rows, |times| table(&rows, times), io)
}

/// The id of a run. A part of one is looked for among the runs of the server that is asked for the acts:
/// another one has other runs, and where only the internal API is known, there are none to look among.
fn id_of(
    run: &str,
    at: &Operated,
    args: &AuditArgs,
    io: &mut Io<'_>,
) -> Result<ExecutionId, Error> {
    if let Some(id) = whole(run) {
        return Ok(id);
    }
    // What is odd about the settings is told by who asks for the acts.
    let reached = Reached::find(&args.settings.given, Wants::Act, true, io)?;
    if reached.name() != at.url() {
        return Err(Error::NotWhole {
            text: visible(run),
            url: at.url().to_owned(),
        });
    }
    reached.ask(find(&reached.host, run))
}

fn table(rows: &[SecretAuditRow], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("WHEN"),
        Column::new("ACT"),
        Column::new("SECRET").gives_way(),
        Column::new("OUTCOME"),
        Column::new("ACTOR").gives_way(),
        Column::new("RUN"),
        Column::new("WORKER").gives_way(),
        Column::new("TENANT").wide(),
        Column::new("ADDRESS").wide(),
        Column::new("KEY").wide(),
        Column::new("SEQ").right().wide(),
    ]);
    let or_dash = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "-".to_owned()));
    for row in rows {
        let outcome = if row.outcome == "ok" {
            Cell::from(row.outcome.as_str())
        } else {
            Cell::styled(row.outcome.as_str(), palette::BAD)
        };
        table.row([
            times.tell(row.occurred_at).into(),
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
