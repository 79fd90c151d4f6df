//! `noetl secret`: credentials that playbooks name.

mod audit;

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client as Server;
use noetl_api::credential::{CredentialView, MAX_LISTED, PutCredential};
use noetl_types::json::parse;
use noetl_types::{Json, Text};

use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags, Given};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::{counted, visible};
use crate::roles::HostError;

/// Keep secrets that playbooks name: set, list, remove, rotate, audit
///
/// A playbook names a credential (`auth: pg_main`), and only the worker that runs the task gets to see
/// it. It is sealed before it is stored, and blacked out in whatever a task reports.
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
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Set(SetArgs),
    List(ListArgs),
    Rm(RmArgs),
    Rotate(RotateArgs),
    Audit(audit::AuditArgs),
}

/// Keep a secret, read from standard input; one of the same name is replaced
///
/// So it is in no history and in no list of processes. It is a JSON object with the fields of its type,
/// or a plain text, which becomes the field 'secret' (or 'token' of a bearer).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret set pg_main --type postgres < pg_main.json

where pg_main.json holds
  {\"db_host\":\"db\",\"db_user\":\"etl\",\"db_password\":\"…\",\"db_name\":\"sales\"}")]
struct SetArgs {
    /// What playbooks call it
    name: String,
    /// What it is for, such as postgres, bearer, basic, nats or secret
    #[arg(long = "type", value_name = "TYPE", default_value = "secret")]
    kind: String,
    /// What it is for, in words
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Word to find it by; may be given several times
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
    #[command(flatten)]
    target: Flags<Client>,
}

/// List the secrets: their names and types, never what they hold
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret list
  noetl secret list -o jsonl | jq -r .name")]
struct ListArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Forget a secret
///
/// It is gone for good. Without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret rm api_main
  noetl secret rm api_main --yes")]
struct RmArgs {
    /// What playbooks call it
    name: String,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Seal every secret under the current key of the server, so that an old key may go
///
/// Where one cannot be opened, it stays as it is, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl secret rotate
  noetl secret rotate -o json | jq .failed")]
struct RotateArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Does what is asked of the secrets.
pub(crate) fn run(args: &SecretArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Set(args) => {
            let given = &args.target.given;
            ask(given, quiet, io, async |server, io| {
                set(server, args, io).await
            })
        }
        Verb::List(args) => ask(&args.target.given, quiet, io, async |server, io| {
            list(server, args.output, quiet, io).await
        }),
        Verb::Rm(args) => return rm(args, quiet, io),
        Verb::Rotate(args) => {
            let given = &args.target.given;
            return ask(given, quiet, io, async |server, io| {
                rotate(server, args.output, io).await
            });
        }
        Verb::Audit(args) => audit::run(args, io),
    }?;
    Ok(Exit::Ok)
}

fn ask<T>(
    given: &Given,
    quiet: bool,
    io: &mut Io<'_>,
    question: impl AsyncFnOnce(&Server, &mut Io<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let reached = Reached::find(given, Wants::Act, quiet, io)?;
    reached.ask(async { question(reached.host.server()?, io).await })
}

fn rm(args: &RmArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let name = visible(&args.name);
    let question = format!("Forget secret {name} at {}?", reached.name());
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    reached.ask(async {
        let gone = reached.host.server()?.delete_credential(&args.name).await;
        Ok(gone.map_err(HostError::from)?)
    })?;
    writeln!(io.out, "{name} forgotten")?;
    Ok(Exit::Ok)
}

async fn set(server: &Server, args: &SetArgs, io: &mut Io<'_>) -> Result<(), Error> {
    if io.err.is_terminal() && io.out.is_terminal() {
        io.talk("reading the secret from standard input; end it with Ctrl-D")?;
    }
    let mut text = String::new();
    io.input.read_to_string(&mut text)?;
    let put = PutCredential {
        name: args.name.as_str().into(),
        kind: args.kind.as_str().into(),
        data: fields(text.trim(), &args.kind),
        meta: None,
        tags: args
            .tags
            .iter()
            .map(|tag| Text::from(tag.as_str()))
            .collect(),
        description: args.description.as_deref().map(Text::from),
    };
    let kept = server.put_credential(&put).await;
    let kept = kept.map_err(HostError::from)?;
    writeln!(io.out, "{} kept", visible(&kept.name))?;
    Ok(())
}

/// An object as it is; a plain text under the name that its type has for it.
fn fields(text: &str, kind: &str) -> Json {
    if let Ok(object @ Json::Map(_)) = parse(text.as_bytes()) {
        return object;
    }
    let is_token = kind.starts_with("bearer");
    let field = if is_token { "token" } else { "secret" };
    Json::object([(field, Json::from(text))])
}

async fn list(server: &Server, output: Output, quiet: bool, io: &mut Io<'_>) -> Result<(), Error> {
    let secrets = server.credentials().await.map_err(HostError::from)?.items;
    if secrets.is_empty() && output.is_table() {
        if !quiet {
            io.talk("there are no secrets; keep one with: noetl secret set NAME")?;
        }
        return Ok(());
    }
    output.list(&secrets, |times| table(&secrets, times), io)?;
    if secrets.len() >= MAX_LISTED {
        let text = format!("only the first {MAX_LISTED} secrets are shown; there may be more");
        io.warn(&[text])?;
    }
    Ok(())
}

fn table(secrets: &[CredentialView], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("SECRET").gives_way(),
        Column::new("TYPE"),
        Column::new("CHANGED"),
        Column::new("TAGS").wide(),
        Column::new("MADE").wide(),
        Column::new("ABOUT").gives_way(),
    ]);
    for secret in secrets {
        let tags: Vec<&str> = secret.tags.iter().map(Text::as_str).collect();
        table.row([
            Cell::styled(secret.name.as_str(), palette::NAME),
            secret.kind.as_str().into(),
            times.tell(secret.updated_at).into(),
            tags.join(",").into(),
            times.tell(secret.created_at).into(),
            secret.description.as_ref().map_or("", Text::as_str).into(),
        ]);
    }
    table
}

async fn rotate(server: &Server, output: Output, io: &mut Io<'_>) -> Result<Exit, Error> {
    let done = server.rotate_credentials().await;
    let done = done.map_err(HostError::from)?;
    let of_another = |count: u64| counted(usize::try_from(count).unwrap_or(usize::MAX), "secret");
    if !output.is_table() {
        output.thing(&done, io)?;
    } else if done.processed == 0 {
        io.talk("every secret is under the current key")?;
    } else {
        io.talk(format_args!(
            "{} of another key: {} under the current one now",
            of_another(done.processed),
            done.rewrapped
        ))?;
    }
    if done.failed == 0 {
        return Ok(Exit::Ok);
    }
    let text = format!(
        "{} could not be opened: start the server with the key that sealed them, then rotate again",
        of_another(done.failed)
    );
    io.warn(&[text])?;
    // The old key may not go yet, which a script has to know.
    Ok(Exit::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_is_the_secret_of_its_type() {
        assert_eq!(fields("abc", "secret").to_string(), r#"{"secret":"abc"}"#);
        assert_eq!(fields("123", "bearer").to_string(), r#"{"token":"123"}"#);
        assert_eq!(fields(r#"{"a":1}"#, "bearer").to_string(), r#"{"a":1}"#);
    }
}
