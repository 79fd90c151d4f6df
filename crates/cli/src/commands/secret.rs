//! `noetl secret`: manages credentials of playbooks.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::credential::{CredentialPutRequest, CredentialView, MAX_LISTED_CREDENTIALS};
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditRow};
use noetl_types::json::parse;
use noetl_types::{ExecutionId, Json, Text, Timestamp};

use crate::commands::runs::{find_run, parse_full_id};
use crate::config::{Client, Config, Operator, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::{ClientArgs, Connection};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TextTable, TimeFormatter, parse_when};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};

/// Manage secrets of playbooks: set, list, remove, rotate, audit
///
/// A playbook refers to a credential by name (`auth: pg_main`), and only the worker that runs the
/// task receives it. Secrets are encrypted at rest and redacted from task reports.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  noetl secret set pg_main --type postgres < pg_main.json
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret list
  noetl secret rm api_main
  noetl secret rotate
  noetl secret audit api_main --since 24h")]
pub(crate) enum SecretCommand {
    Set(SecretSetArgs),
    /// List the names and types of secrets, without their values
    #[command(after_long_help = "\
Examples:
  noetl secret list
  noetl secret list -o jsonl | jq -r .name")]
    List(ClientArgs),
    Rm(SecretRmArgs),
    /// Re-encrypt every secret with the current key of the server, so that old keys can be removed
    ///
    /// A secret that cannot be decrypted is left unchanged, and the exit code is 1.
    #[command(after_long_help = "\
Examples:
  noetl secret rotate
  noetl secret rotate -o json | jq .failed")]
    Rotate(ClientArgs),
    Audit(SecretAuditArgs),
}

/// Create or replace a secret, read from standard input
///
/// Standard input keeps the secret out of the shell history and the process list. The secret is a
/// JSON object with the fields of its type, or a plain text, which becomes the usual field of its
/// type.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret set pg_main --type postgres < pg_main.json

where pg_main.json contains
  {\"db_host\":\"db\",\"db_user\":\"etl\",\"db_password\":\"…\",\"db_name\":\"sales\"}")]
pub(crate) struct SecretSetArgs {
    /// Name of the secret
    name: String,
    /// Type of the secret
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "secret",
        help = "Type: bearer, basic, api_key, postgres, nats, secret, or any other name"
    )]
    kind: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Tag (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Delete a secret
///
/// This cannot be undone. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret rm api_main
  noetl secret rm api_main --yes")]
pub(crate) struct SecretRmArgs {
    /// Name of the secret
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

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

/// Runs the `noetl secret` subcommands.
pub(crate) fn run(command: &SecretCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        SecretCommand::Set(args) => set_secret(args, io),
        SecretCommand::List(client) => list_secrets(client, io),
        SecretCommand::Rm(args) => remove_secret(args, io),
        SecretCommand::Rotate(client) => rotate_secrets(client, io),
        SecretCommand::Audit(args) => list_operations(args, io),
    }
}

fn set_secret(args: &SecretSetArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    if io.err.is_terminal() && io.out.is_terminal() {
        io.print_message("reading the secret from standard input; finish with Ctrl-D")?;
    }
    let mut text = String::new();
    io.input.read_to_string(&mut text)?;
    let data = secret_fields(text.trim(), &args.kind)?;
    let server = Connection::to_server(&args.target.given, io)?;
    let request = CredentialPutRequest {
        name: args.name.as_str().into(),
        kind: args.kind.as_str().into(),
        data,
        meta: None,
        tags: args.tags.iter().map(|tag| Text::from(tag.as_str())).collect(),
        description: args.description.as_deref().map(Text::from),
    };
    let stored = server.send(async |client| client.put_credential(&request).await)?;
    writeln!(io.out, "{} stored", escape_control(&stored.name))?;
    Ok(CommandExit::Ok)
}

/// Fields of a type of secret that tools read.
struct TypeFields {
    kinds: &'static [&'static str],
    /// At least one name of each group is required. The first is the usual one.
    required: &'static [&'static [&'static str]],
    /// Field of a secret that is given as plain text.
    plain_text: Option<&'static str>,
}

const TYPE_FIELDS: [TypeFields; 4] = [
    TypeFields {
        kinds: &["bearer", "bearer_token"],
        required: &[&["token", "bearer_token"]],
        plain_text: Some("token"),
    },
    TypeFields {
        kinds: &["basic"],
        required: &[&["username", "user"], &["password"]],
        plain_text: None,
    },
    TypeFields {
        kinds: &["api_key"],
        required: &[&["api_key", "key"]],
        plain_text: Some("api_key"),
    },
    TypeFields {
        kinds: &["postgres"],
        required: &[&[
            "db_host", "host", "db_name", "database", "dbname", "connection_string", "dsn",
        ]],
        plain_text: Some("connection_string"),
    },
];

/// Returns an object with the fields of its type unchanged, or wraps a plain text in the field of
/// its type. Secrets of other types have any fields.
fn secret_fields(text: &str, kind: &str) -> Result<Json> {
    let fields = TYPE_FIELDS.iter().find(|fields| fields.kinds.contains(&kind));
    let wrong_shape = |fault: &str| {
        let error = Error::usage(format!("a secret of type {kind} {fault}"));
        let groups = fields.map_or(&[][..], |fields| fields.required);
        let names: Vec<String> = groups.iter().map(|names| format!("'{}'", names[0])).collect();
        error.with_help(match names.as_slice() {
            [] => "give a text, or a JSON object".to_owned(),
            [name] => format!("give a JSON object with the field {name}"),
            names => format!("give a JSON object with the fields {}", names.join(" and ")),
        })
    };
    if text.is_empty() {
        return Err(wrong_shape("is empty"));
    }
    let object = match parse(text.as_bytes()) {
        Ok(Json::Map(object)) => object,
        Err(_) if text.starts_with('{') => return Err(wrong_shape("is not valid JSON")),
        _ => match fields.map_or(Some("secret"), |fields| fields.plain_text) {
            Some(field) => return Ok(Json::object([(field, Json::from(text))])),
            None => return Err(wrong_shape("cannot be a plain text")),
        },
    };
    let mut required = fields.map_or(&[][..], |fields| fields.required).iter();
    match required.find(|names| names.iter().all(|name| object.get(*name).is_none())) {
        Some(missing) => Err(wrong_shape(&format!("requires the field '{}'", missing[0]))),
        None => Ok(Json::Map(object)),
    }
}

fn list_secrets(client: &ClientArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = client.connect_to_server(io)?;
    let secrets = server.send(async |server| server.list_credentials().await)?.items;
    let note = "there are no secrets; create one with: noetl secret set NAME";
    let exit = client.output.print_list_or_note(&secrets, note, secret_table, io)?;
    if secrets.len() >= MAX_LISTED_CREDENTIALS {
        io.print_warning(format_args!(
            "only the first {MAX_LISTED_CREDENTIALS} secrets are shown; there may be more"
        ))?;
    }
    Ok(exit)
}

fn secret_table<'t>(
    secrets: &'t [CredentialView],
    times: &TimeFormatter,
) -> TextTable<'t, CredentialView> {
    let tags = |secret: &CredentialView| {
        secret.tags.iter().map(Text::as_str).collect::<Vec<_>>().join(",")
    };
    TextTable::new(secrets)
        .shrinkable("SECRET", |secret| TableCell::styled(&secret.name, palette::NAME))
        .column("TYPE", |secret| &secret.kind)
        .column("CHANGED", |secret| times.format_time(secret.updated_at))
        .wide("TAGS", tags)
        .wide("CREATED", |secret| times.format_time(secret.created_at))
        .shrinkable("DESCRIPTION", |secret| secret.description.as_ref().map_or("", Text::as_str))
}

fn remove_secret(args: &SecretRmArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::to_server(&args.target.given, io)?;
    let name = escape_control(&args.name);
    let question = format!("Delete secret {name} at {}?", server.display_name());
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    server.send(async |client| client.delete_credential(&args.name).await)?;
    writeln!(io.out, "{name} deleted")?;
    Ok(CommandExit::Ok)
}

fn rotate_secrets(client: &ClientArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = client.connect_to_server(io)?;
    let response = server.send(async |server| server.rotate_credentials().await)?;
    let secret_count =
        |count: u64| pluralize(usize::try_from(count).unwrap_or(usize::MAX), "secret");
    if !client.output.is_table() {
        client.output.print_item(&response, io)?;
    } else if response.processed == 0 {
        io.print_message("all secrets are encrypted with the current key")?;
    } else {
        io.print_message(format_args!(
            "{} with another key: {} re-encrypted with the current key",
            secret_count(response.processed),
            response.rewrapped
        ))?;
    }
    if response.failed == 0 {
        return Ok(CommandExit::Ok);
    }
    io.print_warning(format_args!(
        "{} could not be decrypted; start the server with the key that encrypted them, then rotate again",
        secret_count(response.failed)
    ))?;
    // Scripts must notice that the old key is still needed.
    Ok(CommandExit::Failed)
}

fn list_operations(args: &SecretAuditArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::for_operator(&args.settings.given, io)?;
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
        io.print_message("there are no matching operations")?;
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&rows, audit_table, io)
}

/// Resolves the id of a run. Part of an id is searched among the runs of the same server that is
/// queried. If only the internal API is known, runs cannot be searched.
fn resolve_run_id(
    run: &str,
    operator: &Connection,
    args: &SecretAuditArgs,
    io: &Io<'_>,
) -> Result<ExecutionId> {
    if let Some(id) = parse_full_id(run) {
        return Ok(id);
    }
    // The operator connection has already printed the warnings about settings.
    let server = Connection::from_config(&Config::load(&args.settings.given, &io.env)?, io)?;
    let url = operator.display_name();
    if server.display_name() != url {
        let run = escape_control(run);
        return Err(Error::usage(format!(
            "'{run}' is not a full run id, and {url} provides only the internal API"
        ))
        .with_help(
            "use the full id, as shown by 'noetl runs list', or specify the server with --server URL",
        ));
    }
    server.block_on(find_run(&server.target, run))
}

fn audit_table<'t>(
    rows: &'t [SecretAuditRow],
    times: &TimeFormatter,
) -> TextTable<'t, SecretAuditRow> {
    let outcome = |row: &SecretAuditRow| match row.outcome.as_str() {
        "ok" => TableCell::from("ok"),
        other => TableCell::styled(other, palette::FAILURE),
    };
    TextTable::new(rows)
        .column("WHEN", |row| times.format_time(row.occurred_at))
        .column("OPERATION", |row| row.operation.as_str())
        .shrinkable("SECRET", |row| TableCell::or_dash(row.credential.as_ref()))
        .column("OUTCOME", outcome)
        .shrinkable("ACTOR", |row| &row.actor)
        .column("RUN", |row| TableCell::or_dash(row.execution_id))
        .shrinkable("WORKER", |row| TableCell::or_dash(row.worker_id.as_ref()))
        .wide("TENANT", |row| &row.tenant_id)
        .wide("ADDRESS", |row| TableCell::or_dash(row.address.as_ref()))
        .wide("KEY", |row| TableCell::or_dash(row.kek_version.as_ref()))
        .wide_right("SEQ", |row| row.seq)
}

#[cfg(test)]
mod tests;
