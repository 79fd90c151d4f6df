//! `noetl token`: who may come in.

use std::io::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use noetl_api::Client as Server;
use noetl_api::tokens::{NewToken, TokenView};
use noetl_types::{OrganizationId, PoolName, Scope, TenantId};

use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::HostError;

/// Make, list and revoke tokens of a server
///
/// A token is what a program or a person shows to a server that does not trust its own machine. It is
/// made once, shown once, and kept by whoever needs it; the server keeps only a digest.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command itself shows the token in NOETL_TOKEN, or in the file that
NOETL_TOKEN_FILE names, or the one that a profile names. It needs the scope
admin. The first one is printed by the server when it starts for the first time.

Examples:
  noetl token create ci --scope exec:run --scope exec:read
  noetl token create gpu-worker --scope worker --pool gpu --ttl-days 30
  noetl token list
  noetl token revoke 4821")]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token and print it, once
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token create ci --scope exec:run --scope exec:read > ci.token
  noetl token create gpu-worker --scope worker --pool gpu --ttl-days 30
  noetl token create etl --scope exec:run --path 'etl/*' -o json | jq -r .token")]
struct CreateArgs {
    /// What to call it; logs name it as the one who acts
    name: String,
    /// What it may do; may be given several times
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scopes())]
    scopes: Vec<Scope>,
    /// Pool that it may work for; may be given several times [default: all]
    #[arg(long = "pool", value_name = "POOL", value_parser = pool)]
    pools: Vec<PoolName>,
    /// Paths whose playbooks and runs there are for it, such as etl/* [default: all]
    #[arg(long = "path", value_name = "GLOB")]
    paths: Vec<String>,
    /// Days that it lives [default: until it is revoked]
    #[arg(long, value_name = "N")]
    ttl_days: Option<u32>,
    /// Tenant that it is for; another than one's own only for who runs the installation
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    tenant: Option<TenantId>,
    /// Organization inside of the tenant
    #[arg(long, value_name = "NAME", value_parser = organization)]
    organization: Option<OrganizationId>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// List the tokens of the tenant, without their secrets
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token list
  noetl token list -o wide                 with pools, paths and who made them
  noetl token list -o jsonl | jq -r .id")]
struct ListArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Take a token back: within seconds it opens nothing
///
/// It cannot be given again. Without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token revoke 308400000000000001
  noetl token revoke 4821                  the end of its id is enough
  noetl token revoke 4821 --yes")]
struct RevokeArgs {
    /// The id that 'noetl token list' shows, or a part of it that fits no other
    id: String,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Every scope that there is, so that help and completions name them.
fn scopes() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.iter().map(|scope| scope.as_str()))
        .try_map(|text| Scope::parse(&text))
}

fn pool(text: &str) -> Result<PoolName, String> {
    PoolName::new(text).map_err(|error| error.to_string())
}

fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::new(text).map_err(|error| error.to_string())
}

fn organization(text: &str) -> Result<OrganizationId, String> {
    OrganizationId::new(text).map_err(|error| error.to_string())
}

/// Tokens that are named where several are meant.
const MAX_NAMED: usize = 5;

/// Does what is asked of the tokens.
pub(crate) fn run(args: &TokenArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Create(args) => {
            let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
            reached.ask(async { create(reached.host.server()?, args, io).await })?;
            Ok(Exit::Ok)
        }
        Verb::List(args) => {
            let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
            let tokens = reached.ask(async { all(reached.host.server()?).await })?;
            args.output
                .list(&tokens, |times| table(&tokens, times), io)?;
            Ok(Exit::Ok)
        }
        Verb::Revoke(args) => revoke(args, quiet, io),
    }
}

async fn create(server: &Server, args: &CreateArgs, io: &mut Io<'_>) -> Result<(), Error> {
    let request = NewToken {
        name: args.name.as_str().into(),
        scopes: args.scopes.clone(),
        pools: (!args.pools.is_empty()).then(|| args.pools.clone()),
        path_globs: (!args.paths.is_empty())
            .then(|| args.paths.iter().map(|glob| glob.as_str().into()).collect()),
        ttl_days: args.ttl_days,
        tenant_id: args.tenant.clone(),
        organization_id: args.organization.clone(),
    };
    let made = server.create_token(&request).await;
    let made = made.map_err(HostError::from)?;
    if !args.output.is_table() {
        return args.output.thing(&made, io);
    }
    // The token alone goes to standard output, so that it can go straight into a file.
    writeln!(io.out, "{}", made.token)?;
    io.talk(format_args!(
        "token {} ({}) is made; it is shown this once",
        made.view.id,
        visible(&made.view.name)
    ))?;
    Ok(())
}

async fn all(server: &Server) -> Result<Vec<TokenView>, Error> {
    let mut tokens = Vec::new();
    let mut cursor = None;
    loop {
        let page = server.tokens(cursor.as_ref()).await;
        let page = page.map_err(HostError::from)?;
        tokens.extend(page.tokens);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tokens);
        }
    }
}

fn table(tokens: &[TokenView], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("ID"),
        Column::new("NAME").gives_way(),
        Column::new("STATE"),
        Column::new("SCOPES").gives_way(),
        Column::new("USED"),
        Column::new("ENDS"),
        Column::new("POOLS").wide(),
        Column::new("PATHS").wide(),
        Column::new("ORGANIZATION").wide(),
        Column::new("MADE").wide(),
        Column::new("BY").wide(),
    ]);
    for token in tokens {
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        let pools = token.pools.as_ref().map(|pools| joined(pools));
        let paths = token.path_globs.as_ref().map(|paths| joined(paths));
        let everything = || "all".to_owned();
        table.row([
            token.id.to_string().into(),
            Cell::styled(token.name.as_str(), palette::NAME),
            state(token, times),
            scopes.join(",").into(),
            times.tell_or_dash(token.last_used_at).into(),
            times.tell_or_dash(token.expires_at).into(),
            pools.unwrap_or_else(everything).into(),
            paths.unwrap_or_else(everything).into(),
            token.organization_id.as_str().into(),
            times.tell(token.created_at).into(),
            token.created_by.as_str().into(),
        ]);
    }
    table
}

fn joined(words: &[impl ToString]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join(",")
}

/// Whether a token opens anything.
fn state(token: &TokenView, times: &Times) -> Cell {
    if token.revoked_at.is_some() {
        return Cell::styled("revoked", palette::BAD);
    }
    if token.expires_at.is_some_and(|end| end <= times.now) {
        return Cell::styled("expired", palette::DOUBT);
    }
    Cell::styled("active", palette::GOOD)
}

/// The token whose id a text is, or begins or ends with where it fits no other.
fn meant<'t>(text: &str, tokens: &'t [TokenView]) -> Result<&'t TokenView, Error> {
    let is_id = |token: &&TokenView| token.id.to_string() == text;
    if let Some(token) = tokens.iter().find(is_id) {
        return Ok(token);
    }
    let is_part = |token: &&TokenView| {
        let id = token.id.to_string();
        !text.is_empty() && (id.starts_with(text) || id.ends_with(text))
    };
    let found: Vec<&TokenView> = tokens.iter().filter(is_part).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Error::NoToken {
            text: visible(text),
        }),
        several => Err(Error::ManyTokens {
            text: visible(text),
            some: (several.iter().take(MAX_NAMED))
                .map(|token| token.id.to_string())
                .collect(),
        }),
    }
}

fn revoke(args: &RevokeArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let tokens = reached.ask(async { all(reached.host.server()?).await })?;
    let token = meant(&args.id, &tokens)?;
    let (id, name) = (token.id, visible(&token.name));
    let question = format!("Take token {id} ({name}) back at {}?", reached.name());
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    let revoked = reached.ask(async {
        let revoked = reached.host.server()?.revoke_token(id).await;
        Ok(revoked.map_err(HostError::from)?)
    })?;
    writeln!(io.out, "{id} revoked")?;
    if !quiet {
        io.talk(format_args!(
            "token {} opens nothing more",
            visible(&revoked.name)
        ))?;
    }
    Ok(Exit::Ok)
}
