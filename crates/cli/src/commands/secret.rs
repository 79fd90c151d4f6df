//! `noetl secret`: credentials that playbooks name.

mod audit;

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client;
use noetl_api::credential::{MAX_LISTED, PutCredential};
use noetl_types::json::parse;
use noetl_types::{Json, Text};

use crate::config::{Config, Flags, Given, Token};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::{self, HostError};

/// Keep secrets that playbooks name: set, list, remove, rotate, audit
///
/// A playbook names a credential (`auth: pg_main`), and only the worker that runs the task gets to see
/// it. It is sealed before it is stored, and blacked out in whatever a task reports.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The secret is read from standard input, so that it is in no history and in no list of processes: a JSON
object with the fields of its type, or a plain text, which becomes the field 'secret' (or 'token' of a
bearer).

Examples:
  echo '{\"db_host\":\"db\",\"db_user\":\"etl\",\"db_password\":\"…\",\"db_name\":\"sales\"}' | noetl secret set pg_main --type postgres
  pass show api-token | noetl secret set api_main --type bearer
  noetl secret list
  noetl secret rm api_main
  noetl secret rotate
  noetl secret audit api_main --since 24h")]
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
#[derive(Debug, Args)]
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
    settings: Flags<Token>,
}

/// List the secrets: their names and types, never what they hold
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    settings: Flags<Token>,
}

/// Forget a secret
#[derive(Debug, Args)]
struct RmArgs {
    /// What playbooks call it
    name: String,
    #[command(flatten)]
    settings: Flags<Token>,
}

/// Seal every secret under the current key of the server, so that an old key may go
#[derive(Debug, Args)]
struct RotateArgs {
    #[command(flatten)]
    settings: Flags<Token>,
}

/// Does what is asked of the secrets.
pub(crate) fn run(args: &SecretArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Set(args) => {
            let given = &args.settings.given;
            ask(given, io, async |client, io| set(client, args, io).await)
        }
        Verb::List(args) => ask(&args.settings.given, io, list),
        Verb::Rm(args) => ask(&args.settings.given, io, async |client, io| {
            let gone = client.delete_credential(&args.name).await;
            let gone = gone.map_err(HostError::There)?;
            Ok(io.talk(visible(&gone.message))?)
        }),
        Verb::Rotate(args) => ask(&args.settings.given, io, rotate),
        Verb::Audit(args) => audit::run(args, io),
    }?;
    Ok(Exit::Ok)
}

fn ask(
    given: &Given,
    io: &mut Io<'_>,
    question: impl AsyncFnOnce(&Client, &mut Io<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let config = Config::load(given, &io.env)?;
    io.warn(&config.warnings)?;
    let client = roles::client(&config)?;
    let threads = roles::threads(&config, 1)?;
    threads.block_on(question(&client, io))
}

async fn set(client: &Client, args: &SetArgs, io: &mut Io<'_>) -> Result<(), Error> {
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
    let kept = client.put_credential(&put).await;
    let kept = kept.map_err(HostError::There)?;
    let (name, kind) = (visible(&kept.name), visible(&kept.kind));
    io.talk(format_args!("secret {name} ({kind}) is kept"))?;
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

async fn list(client: &Client, io: &mut Io<'_>) -> Result<(), Error> {
    let found = client.credentials().await.map_err(HostError::There)?;
    let paint = io.out.paint();
    let is_cut = found.items.len() >= MAX_LISTED;
    for secret in found.items {
        let name = paint.text(palette::NAME, visible(&secret.name));
        let since = paint.text(palette::QUIET, format!("since {}", secret.updated_at));
        let words = visible(&secret.description.unwrap_or_default());
        writeln!(
            io.out,
            "{name}  {}  {since}  {words}",
            visible(&secret.kind)
        )?;
    }
    if is_cut {
        let text = format!("only the first {MAX_LISTED} secrets are shown; there may be more");
        io.warn(&[text])?;
    }
    Ok(())
}

async fn rotate(client: &Client, io: &mut Io<'_>) -> Result<(), Error> {
    let done = client.rotate_credentials().await;
    let done = done.map_err(HostError::There)?;
    io.talk(format_args!(
        "{} secrets were under another key: {} are under the current one now, {} could not be opened",
        done.processed, done.rewrapped, done.failed
    ))?;
    Ok(())
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
