//! `noetl secret`: manages credentials of playbooks.

mod audit;

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client as ApiClient;
use noetl_api::credential::{CredentialPutRequest, CredentialView, MAX_LISTED_CREDENTIALS};
use noetl_types::json::parse;
use noetl_types::{Json, Text};

use crate::config::{Client, GivenSettings, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::TargetError;
use crate::target::{Access, TargetConnection};

/// Manage secrets of playbooks: set, list, remove, rotate, audit
///
/// A playbook refers to a credential by name (`auth: pg_main`), and only the worker that runs the
/// task receives it. Secrets are encrypted at rest and redacted from task reports.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret set pg_main --type postgres < pg_main.json
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret list
  noetl secret rm api_main
  noetl secret rotate
  noetl secret audit api_main --since 24h")]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    command: SecretCommand,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
    Set(SecretSetArgs),
    List(SecretListArgs),
    Rm(SecretRmArgs),
    Rotate(SecretRotateArgs),
    Audit(audit::SecretAuditArgs),
}

/// Create or replace a secret, read from standard input
///
/// Standard input keeps the secret out of the shell history and the process list. The secret is a
/// JSON object with the fields of its type, or a plain text, which becomes the field 'secret' (or
/// 'token' for type bearer).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret set pg_main --type postgres < pg_main.json

where pg_main.json contains
  {\"db_host\":\"db\",\"db_user\":\"etl\",\"db_password\":\"…\",\"db_name\":\"sales\"}")]
struct SecretSetArgs {
    /// Name of the secret
    name: String,
    /// Type, such as postgres, bearer, basic, nats or secret
    #[arg(long = "type", value_name = "TYPE", default_value = "secret")]
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

/// List the names and types of secrets, without their values
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret list
  noetl secret list -o jsonl | jq -r .name")]
struct SecretListArgs {
    #[command(flatten)]
    output: OutputArgs,
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
struct SecretRmArgs {
    /// Name of the secret
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Re-encrypt every secret with the current key of the server, so that old keys can be removed
///
/// A secret that cannot be decrypted is left unchanged, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret rotate
  noetl secret rotate -o json | jq .failed")]
struct SecretRotateArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Runs the `noetl secret` subcommands.
pub(crate) fn run(args: &SecretArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        SecretCommand::Set(args) => {
            let given = &args.target.given;
            with_server(given, quiet, io, async |server, io| set_secret(server, args, io).await)
        }
        SecretCommand::List(args) => {
            with_server(&args.target.given, quiet, io, async |server, io| {
                list_secrets(server, args.output, quiet, io).await
            })
        }
        SecretCommand::Rm(args) => return remove_secret(args, quiet, io),
        SecretCommand::Rotate(args) => {
            let given = &args.target.given;
            return with_server(given, quiet, io, async |server, io| {
                rotate_secrets(server, args.output, io).await
            });
        }
        SecretCommand::Audit(args) => audit::run(args, io),
    }?;
    Ok(CommandExit::Ok)
}

fn with_server<T>(
    given: &GivenSettings,
    quiet: bool,
    io: &mut Io<'_>,
    request: impl AsyncFnOnce(&ApiClient, &mut Io<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let connection = TargetConnection::connect(given, Access::Write, quiet, io)?;
    connection.block_on(async { request(connection.target.require_server()?, io).await })
}

fn remove_secret(args: &SecretRmArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let name = escape_control(&args.name);
    let question = format!("Delete secret {name} at {}?", connection.display_name());
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    connection.block_on(async {
        let deleted = connection.target.require_server()?.delete_credential(&args.name).await;
        Ok(deleted.map_err(TargetError::from)?)
    })?;
    writeln!(io.out, "{name} deleted")?;
    Ok(CommandExit::Ok)
}

async fn set_secret(
    server: &ApiClient,
    args: &SecretSetArgs,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    if io.err.is_terminal() && io.out.is_terminal() {
        io.print_message("reading the secret from standard input; finish with Ctrl-D")?;
    }
    let mut text = String::new();
    io.input.read_to_string(&mut text)?;
    let request = CredentialPutRequest {
        name: args.name.as_str().into(),
        kind: args.kind.as_str().into(),
        data: secret_fields(text.trim(), &args.kind),
        meta: None,
        tags: args.tags.iter().map(|tag| Text::from(tag.as_str())).collect(),
        description: args.description.as_deref().map(Text::from),
    };
    let stored = server.put_credential(&request).await;
    let stored = stored.map_err(TargetError::from)?;
    writeln!(io.out, "{} stored", escape_control(&stored.name))?;
    Ok(())
}

/// Returns an object unchanged, or wraps a plain text in the field of its type.
fn secret_fields(text: &str, kind: &str) -> Json {
    if let Ok(object @ Json::Map(_)) = parse(text.as_bytes()) {
        return object;
    }
    let is_token = kind.starts_with("bearer");
    let field = if is_token { "token" } else { "secret" };
    Json::object([(field, Json::from(text))])
}

async fn list_secrets(
    server: &ApiClient,
    output: OutputArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let secrets = server.list_credentials().await.map_err(TargetError::from)?.items;
    if secrets.is_empty() && output.is_table() {
        if !quiet {
            io.print_message("there are no secrets; create one with: noetl secret set NAME")?;
        }
        return Ok(());
    }
    output.print_list(&secrets, |times| secret_table(&secrets, times), io)?;
    if secrets.len() >= MAX_LISTED_CREDENTIALS {
        let text =
            format!("only the first {MAX_LISTED_CREDENTIALS} secrets are shown; there may be more");
        io.print_warnings(&[text])?;
    }
    Ok(())
}

fn secret_table(secrets: &[CredentialView], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("SECRET").shrinkable(),
        TableColumn::new("TYPE"),
        TableColumn::new("CHANGED"),
        TableColumn::new("TAGS").wide_only(),
        TableColumn::new("CREATED").wide_only(),
        TableColumn::new("DESCRIPTION").shrinkable(),
    ]);
    for secret in secrets {
        let tags: Vec<&str> = secret.tags.iter().map(Text::as_str).collect();
        table.add_row([
            TableCell::styled(secret.name.as_str(), palette::NAME),
            secret.kind.as_str().into(),
            times.format_time(secret.updated_at).into(),
            tags.join(",").into(),
            times.format_time(secret.created_at).into(),
            secret.description.as_ref().map_or("", Text::as_str).into(),
        ]);
    }
    table
}

async fn rotate_secrets(
    server: &ApiClient,
    output: OutputArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let response = server.rotate_credentials().await;
    let response = response.map_err(TargetError::from)?;
    let secret_count =
        |count: u64| pluralize(usize::try_from(count).unwrap_or(usize::MAX), "secret");
    if !output.is_table() {
        output.print_item(&response, io)?;
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
    let text = format!(
        "{} could not be decrypted; start the server with the key that encrypted them, then rotate again",
        secret_count(response.failed)
    );
    io.print_warnings(&[text])?;
    // Scripts must notice that the old key is still needed.
    Ok(CommandExit::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_becomes_the_typed_secret() {
        assert_eq!(secret_fields("abc", "secret").to_string(), r#"{"secret":"abc"}"#);
        assert_eq!(secret_fields("123", "bearer").to_string(), r#"{"token":"123"}"#);
        assert_eq!(secret_fields(r#"{"a":1}"#, "bearer").to_string(), r#"{"a":1}"#);
    }
}
