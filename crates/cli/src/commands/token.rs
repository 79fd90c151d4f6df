//! `noetl token`: who may come in.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::Client;
use noetl_api::tokens::{NewToken, TokenView};
use noetl_types::{OrganizationId, PoolName, Scope, TenantId, TokenId};

use crate::config::{Config, Flags, Given, Token};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::{self, HostError};

/// Make, list and revoke tokens of a server
///
/// A token is what a program or a person shows to a server that does not trust its own machine. It is
/// made once, shown once, and kept by whoever needs it; the server keeps only a digest.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command itself shows the token in NOETL_TOKEN, or in the file that NOETL_TOKEN_FILE names, which
needs the scope admin. The first one is printed by the server when it starts for the first time.

Examples:
  noetl token create ci --scope exec:run --scope exec:read
  noetl token create gpu-worker --scope worker --pool gpu --ttl-days 30
  noetl token list
  noetl token revoke 308400000000000001")]
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
struct CreateArgs {
    /// What to call it; logs name it as the one who acts
    name: String,
    /// What it may do; may be given several times
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope)]
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
    settings: Flags<Token>,
}

/// List the tokens of the tenant, without their secrets
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    settings: Flags<Token>,
}

/// Take a token back: within seconds it opens nothing
#[derive(Debug, Args)]
struct RevokeArgs {
    /// The id that 'noetl token list' shows
    #[arg(value_parser = token_id)]
    id: TokenId,
    #[command(flatten)]
    settings: Flags<Token>,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).map_err(|error| {
        let words: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        format!("{error}: there are {}", words.join(", "))
    })
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

fn token_id(text: &str) -> Result<TokenId, String> {
    text.parse()
        .map_err(|error: noetl_types::id::IdError| error.to_string())
}

/// Does what is asked of the tokens.
pub(crate) fn run(args: &TokenArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let given: &Given = match &args.verb {
        Verb::Create(args) => &args.settings.given,
        Verb::List(args) => &args.settings.given,
        Verb::Revoke(args) => &args.settings.given,
    };
    let config = Config::load(given, &io.env)?;
    io.warn(&config.warnings)?;
    let client = roles::client(&config)?;
    let threads = roles::threads(&config, 1)?;
    threads.block_on(async {
        match &args.verb {
            Verb::Create(args) => create(&client, args, io).await,
            Verb::List(_) => list(&client, io).await,
            Verb::Revoke(args) => revoke(&client, args.id, io).await,
        }
    })?;
    Ok(Exit::Ok)
}

async fn create(client: &Client, args: &CreateArgs, io: &mut Io<'_>) -> Result<(), Error> {
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
    let made = client.create_token(&request).await;
    let made = made.map_err(HostError::There)?;
    // The token alone goes to standard output, so that it can go straight into a file.
    writeln!(io.out, "{}", made.token)?;
    io.talk(format_args!(
        "token {} ({}) is made; it is shown this once",
        made.view.id,
        visible(&made.view.name)
    ))?;
    Ok(())
}

async fn list(client: &Client, io: &mut Io<'_>) -> Result<(), Error> {
    let mut cursor = None;
    loop {
        let page = client.tokens(cursor.as_ref()).await;
        let page = page.map_err(HostError::There)?;
        for token in &page.tokens {
            line(token, io)?;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn line(token: &TokenView, io: &mut Io<'_>) -> Result<(), Error> {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let state = match (token.revoked_at, token.expires_at, token.last_used_at) {
        (Some(since), _, _) => format!("revoked {since}"),
        (None, Some(end), _) => format!("until {end}"),
        (None, None, Some(used)) => format!("used {used}"),
        (None, None, None) => "never used".to_owned(),
    };
    let paint = io.out.paint();
    writeln!(
        io.out,
        "{}  {}  {}  {}",
        token.id,
        paint.text(palette::NAME, visible(&token.name)),
        scopes.join(","),
        paint.text(palette::QUIET, state)
    )?;
    Ok(())
}

async fn revoke(client: &Client, id: TokenId, io: &mut Io<'_>) -> Result<(), Error> {
    let revoked = client.revoke_token(id).await.map_err(HostError::There)?;
    let name = visible(&revoked.name);
    io.talk(format_args!("token {id} ({name}) is revoked"))?;
    Ok(())
}
