//! `noetl token`: manages access tokens of a server.

use std::io::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use noetl_api::Client as ApiClient;
use noetl_api::tokens::{CreateTokenRequest, TokenView};
use noetl_types::{OrganizationId, PoolName, Scope, TenantId};

use crate::config::{Client, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::roles::TargetError;
use crate::target::{Access, TargetConnection};

/// Create, list and revoke tokens of a server
///
/// A token authenticates a program or a person to a server. It is printed only once, when it is
/// created; the server stores only a digest.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command authenticates with the token in NOETL_TOKEN, in the file named by
NOETL_TOKEN_FILE, or of the profile. This token needs the scope admin. The
server prints the first token at its first start.

Examples:
  noetl token create ci --scope exec:run --scope exec:read
  noetl token create gpu-worker --scope worker --pool gpu --ttl-days 30
  noetl token list
  noetl token revoke 4821")]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Create(TokenCreateArgs),
    List(TokenListArgs),
    Revoke(TokenRevokeArgs),
}

/// Create a token and print it once
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token create ci --scope exec:run --scope exec:read > ci.token
  noetl token create gpu-worker --scope worker --pool gpu --ttl-days 30
  noetl token create etl --scope exec:run --path 'etl/*' -o json | jq -r .token")]
struct TokenCreateArgs {
    /// Name of the token, shown as the actor in logs
    name: String,
    /// Scope of the token (repeatable)
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope_parser())]
    scopes: Vec<Scope>,
    /// Restrict the token to a worker pool (repeatable) [default: all]
    #[arg(long = "pool", value_name = "POOL", value_parser = parse_pool)]
    pools: Vec<PoolName>,
    /// Restrict the token to playbook paths, such as etl/* [default: all]
    #[arg(long = "path", value_name = "GLOB")]
    paths: Vec<String>,
    /// Days until the token expires [default: never]
    #[arg(long, value_name = "N")]
    ttl_days: Option<u32>,
    /// Tenant of the token (another tenant requires a token of the platform operator)
    #[arg(long, value_name = "TENANT", value_parser = parse_tenant)]
    tenant: Option<TenantId>,
    /// Organization within the tenant
    #[arg(long, value_name = "NAME", value_parser = parse_organization)]
    organization: Option<OrganizationId>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// List the tokens of the tenant, without their secrets
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token list
  noetl token list -o wide                 with pools, paths and creators
  noetl token list -o jsonl | jq -r .id")]
struct TokenListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Revoke a token (takes effect within seconds)
///
/// This cannot be undone. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token revoke 308400000000000001
  noetl token revoke 4821                  the end of its id is enough
  noetl token revoke 4821 --yes")]
struct TokenRevokeArgs {
    /// Id as shown by 'noetl token list', or a unique part of it
    id: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Parser that lists every scope in help and completions.
fn scope_parser() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.iter().map(|scope| scope.as_str()))
        .try_map(|text| Scope::parse(&text))
}

fn parse_pool(text: &str) -> Result<PoolName, String> {
    PoolName::new(text).map_err(|error| error.to_string())
}

fn parse_tenant(text: &str) -> Result<TenantId, String> {
    TenantId::new(text).map_err(|error| error.to_string())
}

fn parse_organization(text: &str) -> Result<OrganizationId, String> {
    OrganizationId::new(text).map_err(|error| error.to_string())
}

/// Maximum tokens listed in an ambiguity error.
const MAX_LISTED_MATCHES: usize = 5;

/// Runs the `noetl token` subcommands.
pub(crate) fn run(args: &TokenArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        TokenCommand::Create(args) => {
            let connection =
                TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
            connection.block_on(async {
                create_token(connection.target.require_server()?, args, io).await
            })?;
            Ok(CommandExit::Ok)
        }
        TokenCommand::List(args) => {
            let connection =
                TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
            let tokens = connection
                .block_on(async { fetch_all_tokens(connection.target.require_server()?).await })?;
            args.output.print_list(&tokens, |times| token_table(&tokens, times), io)?;
            Ok(CommandExit::Ok)
        }
        TokenCommand::Revoke(args) => revoke_token(args, quiet, io),
    }
}

async fn create_token(
    server: &ApiClient,
    args: &TokenCreateArgs,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let request = CreateTokenRequest {
        name: args.name.as_str().into(),
        scopes: args.scopes.clone(),
        pools: (!args.pools.is_empty()).then(|| args.pools.clone()),
        path_globs: (!args.paths.is_empty())
            .then(|| args.paths.iter().map(|glob| glob.as_str().into()).collect()),
        ttl_days: args.ttl_days,
        tenant_id: args.tenant.clone(),
        organization_id: args.organization.clone(),
    };
    let created = server.create_token(&request).await;
    let created = created.map_err(TargetError::from)?;
    if !args.output.is_table() {
        return args.output.print_item(&created, io);
    }
    // Only the token is written to standard output, so that it can be redirected into a file.
    writeln!(io.out, "{}", created.token)?;
    io.print_message(format_args!(
        "token {} ({}) created; it is shown only once",
        created.view.id,
        escape_control(&created.view.name)
    ))?;
    Ok(())
}

async fn fetch_all_tokens(server: &ApiClient) -> Result<Vec<TokenView>, Error> {
    let mut tokens = Vec::new();
    let mut cursor = None;
    loop {
        let page = server.list_tokens(cursor.as_ref()).await;
        let page = page.map_err(TargetError::from)?;
        tokens.extend(page.tokens);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tokens);
        }
    }
}

fn token_table(tokens: &[TokenView], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("ID"),
        TableColumn::new("NAME").shrinkable(),
        TableColumn::new("STATE"),
        TableColumn::new("SCOPES").shrinkable(),
        TableColumn::new("LAST USED"),
        TableColumn::new("EXPIRES"),
        TableColumn::new("POOLS").wide_only(),
        TableColumn::new("PATHS").wide_only(),
        TableColumn::new("ORGANIZATION").wide_only(),
        TableColumn::new("CREATED").wide_only(),
        TableColumn::new("CREATED BY").wide_only(),
    ]);
    for token in tokens {
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        let pools = token.pools.as_ref().map(|pools| join_with_commas(pools));
        let paths = token.path_globs.as_ref().map(|paths| join_with_commas(paths));
        let all = || "all".to_owned();
        table.add_row([
            token.id.to_string().into(),
            TableCell::styled(token.name.as_str(), palette::NAME),
            token_state(token, times),
            scopes.join(",").into(),
            times.format_time_or_dash(token.last_used_at).into(),
            times.format_time_or_dash(token.expires_at).into(),
            pools.unwrap_or_else(all).into(),
            paths.unwrap_or_else(all).into(),
            token.organization_id.as_str().into(),
            times.format_time(token.created_at).into(),
            token.created_by.as_str().into(),
        ]);
    }
    table
}

fn join_with_commas(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(",")
}

/// Cell with the state of a token.
fn token_state(token: &TokenView, times: &TimeFormatter) -> TableCell {
    if token.revoked_at.is_some() {
        return TableCell::styled("revoked", palette::FAILURE);
    }
    if token.expires_at.is_some_and(|end| end <= times.now) {
        return TableCell::styled("expired", palette::CAUTION);
    }
    TableCell::styled("active", palette::SUCCESS)
}

/// Finds a token by its id, or by a unique beginning or end of it.
fn find_token<'t>(text: &str, tokens: &'t [TokenView]) -> Result<&'t TokenView, Error> {
    let is_id = |token: &&TokenView| token.id.to_string() == text;
    if let Some(token) = tokens.iter().find(is_id) {
        return Ok(token);
    }
    let is_part = |token: &&TokenView| {
        let id = token.id.to_string();
        !text.is_empty() && (id.starts_with(text) || id.ends_with(text))
    };
    let matches: Vec<&TokenView> = tokens.iter().filter(is_part).collect();
    match matches.as_slice() {
        [token] => Ok(token),
        [] => Err(Error::NoToken { text: escape_control(text) }),
        candidates => Err(Error::AmbiguousToken {
            text: escape_control(text),
            some: (candidates.iter().take(MAX_LISTED_MATCHES))
                .map(|token| token.id.to_string())
                .collect(),
        }),
    }
}

fn revoke_token(
    args: &TokenRevokeArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let tokens = connection
        .block_on(async { fetch_all_tokens(connection.target.require_server()?).await })?;
    let token = find_token(&args.id, &tokens)?;
    let (id, name) = (token.id, escape_control(&token.name));
    let question = format!("Revoke token {id} ({name}) at {}?", connection.display_name());
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    let revoked = connection.block_on(async {
        let revoked = connection.target.require_server()?.revoke_token(id).await;
        Ok(revoked.map_err(TargetError::from)?)
    })?;
    writeln!(io.out, "{id} revoked")?;
    if !quiet {
        io.print_message(format_args!(
            "token {} no longer grants access",
            escape_control(&revoked.name)
        ))?;
    }
    Ok(CommandExit::Ok)
}
