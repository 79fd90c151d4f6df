//! `noetl token`: manages access tokens of a server.

use std::io::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use noetl_api::tokens::{CreateTokenRequest, TokenView};
use noetl_types::{OrganizationId, PoolName, Scope, ScopeSet, TenantId};

use crate::config::{Client, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::{ClientArgs, Connection};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::escape_control;

/// Create, list and revoke tokens of a server
///
/// A token authenticates a program or a person to a server. It is printed only once, when it is
/// created; the server stores only a digest.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
The command authenticates with the token in NOETL_TOKEN, in the file named by
NOETL_TOKEN_FILE, or of the profile. This token needs the scope admin. The
server prints the first token at its first start.

Examples:
  noetl token create ci --role ci
  noetl token create gpu-worker --role worker --pool gpu --ttl-days 30
  noetl token list
  noetl token revoke gpu-worker")]
pub(crate) enum TokenCommand {
    Create(TokenCreateArgs),
    /// List the tokens of the tenant, without their secrets
    #[command(after_long_help = "\
Examples:
  noetl token list
  noetl token list -o wide                 with pools, paths and creators
  noetl token list -o jsonl | jq -r .id")]
    List(ClientArgs),
    Revoke(TokenRevokeArgs),
}

/// Create a token and print it once
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token create ci --role ci > ci.token
  noetl token create gpu-worker --role worker --pool gpu --ttl-days 30
  noetl token create etl --scope exec:run --path 'etl/*' -o json | jq -r .token")]
pub(crate) struct TokenCreateArgs {
    /// Name of the token, shown as the actor in logs
    name: String,
    /// Role of the token, a set of scopes
    #[arg(long, value_enum, value_name = "ROLE", required_unless_present = "scopes")]
    role: Option<TokenRole>,
    /// Scope of the token, also in addition to those of a role (repeatable)
    #[arg(long = "scope", value_name = "SCOPE", value_parser = scope_parser())]
    scopes: Vec<Scope>,
    /// Restrict the token to a worker pool (repeatable) [default: all]
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<PoolName>,
    /// Restrict the token to playbook paths, such as etl/* [default: all]
    #[arg(long = "path", value_name = "GLOB")]
    paths: Vec<String>,
    /// Days until the token expires [default: never]
    #[arg(long, value_name = "N")]
    ttl_days: Option<u32>,
    /// Tenant of the token (another tenant requires a token of the platform operator)
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Organization within the tenant
    #[arg(long, value_name = "NAME")]
    organization: Option<OrganizationId>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Set of scopes for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TokenRole {
    /// Read runs and playbooks: exec:read, catalog:read
    Viewer,
    /// Write, run and control playbooks: the scopes of ci, sub:write, cred:use
    Author,
    /// Run and control playbooks, and decide approvals: the scopes of viewer, exec:run, exec:approve,
    /// cred:use, metrics:read
    Operator,
    /// Run a worker: worker
    Worker,
    /// Register and run playbooks in a pipeline: the scopes of viewer, exec:run, catalog:write
    Ci,
}

impl TokenRole {
    fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Viewer => &[Scope::ExecRead, Scope::CatalogRead],
            Self::Author => &[
                Scope::ExecRead,
                Scope::ExecRun,
                Scope::CatalogRead,
                Scope::CatalogWrite,
                Scope::SubWrite,
                Scope::CredUse,
            ],
            Self::Operator => &[
                Scope::ExecRead,
                Scope::ExecRun,
                Scope::ExecApprove,
                Scope::CatalogRead,
                Scope::CredUse,
                Scope::MetricsRead,
            ],
            Self::Worker => &[Scope::Worker],
            Self::Ci => &[Scope::ExecRead, Scope::ExecRun, Scope::CatalogRead, Scope::CatalogWrite],
        }
    }
}

/// Revoke a token (takes effect within seconds)
///
/// This cannot be undone. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl token revoke gpu-worker
  noetl token revoke 308400000000000001
  noetl token revoke 4821                  the end of its id is enough
  noetl token revoke 4821 --yes")]
pub(crate) struct TokenRevokeArgs {
    /// Name or id as shown by 'noetl token list', or a unique part of the id
    #[arg(value_name = "TOKEN")]
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

/// Maximum tokens listed in an ambiguity error.
const MAX_LISTED_MATCHES: usize = 5;

/// Runs the `noetl token` subcommands.
pub(crate) fn run(command: &TokenCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        TokenCommand::Create(args) => create_token(args, io),
        TokenCommand::List(client) => {
            let tokens = fetch_all_tokens(&client.connect_to_server(io)?)?;
            client.output.print_list(&tokens, token_table, io)
        }
        TokenCommand::Revoke(args) => revoke_token(args, io),
    }
}

fn create_token(args: &TokenCreateArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let role_scopes = args.role.map_or(&[][..], TokenRole::scopes);
    let scopes: ScopeSet = role_scopes.iter().chain(&args.scopes).copied().collect();
    let scopes = scopes.iter().collect();
    let request = CreateTokenRequest {
        name: args.name.as_str().into(),
        scopes,
        pools: (!args.pools.is_empty()).then(|| args.pools.clone()),
        path_globs: (!args.paths.is_empty())
            .then(|| args.paths.iter().map(|glob| glob.as_str().into()).collect()),
        ttl_days: args.ttl_days,
        tenant_id: args.tenant.clone(),
        organization_id: args.organization.clone(),
    };
    let created = server.send(async |client| client.create_token(&request).await)?;
    if !args.client.output.is_table() {
        return args.client.output.print_item(&created, io);
    }
    // Only the token is written to standard output, so that it can be redirected into a file.
    writeln!(io.out, "{}", created.token)?;
    let (id, name) = (created.view.id, escape_control(&created.view.name));
    io.print_message(format_args!("token {id} ({name}) created; it is shown only once"))?;
    Ok(CommandExit::Ok)
}

fn fetch_all_tokens(server: &Connection) -> Result<Vec<TokenView>> {
    let (mut tokens, mut cursor) = (Vec::new(), None);
    loop {
        let page = server.send(async |client| client.list_tokens(cursor.as_ref()).await)?;
        tokens.extend(page.tokens);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tokens);
        }
    }
}

fn token_table<'t>(tokens: &'t [TokenView], times: &TimeFormatter) -> TextTable<'t, TokenView> {
    let all = || "all".to_owned();
    TextTable::new(tokens)
        .column("ID", |token| token.id)
        .shrinkable("NAME", |token| TableCell::styled(&token.name, palette::NAME))
        .column("STATE", |token| token_state(token, times))
        .shrinkable("SCOPES", |token| join_with_commas(&token.scopes))
        .column("LAST USED", |token| times.format_time_or_dash(token.last_used_at))
        .column("EXPIRES", |token| times.format_time_or_dash(token.expires_at))
        .wide("POOLS", |token| token.pools.as_deref().map_or_else(all, join_with_commas))
        .wide("PATHS", |token| token.path_globs.as_deref().map_or_else(all, join_with_commas))
        .wide("ORGANIZATION", |token| &token.organization_id)
        .wide("CREATED", |token| times.format_time(token.created_at))
        .wide("CREATED BY", |token| &token.created_by)
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

/// Finds a token by its id, by the name of the only active token with it, or by a unique beginning or
/// end of its id.
fn find_token<'t>(text: &str, tokens: &'t [TokenView]) -> Result<&'t TokenView> {
    let is_id = |token: &&TokenView| token.id.to_string() == text;
    if let Some(token) = tokens.iter().find(is_id) {
        return Ok(token);
    }
    let has_name = |token: &&TokenView| token.name == *text && token.revoked_at.is_none();
    let is_part = |token: &&TokenView| {
        let id = token.id.to_string();
        !text.is_empty() && (id.starts_with(text) || id.ends_with(text))
    };
    let mut matches: Vec<&TokenView> = tokens.iter().filter(has_name).collect();
    if matches.is_empty() {
        matches = tokens.iter().filter(is_part).collect();
    }
    match matches.as_slice() {
        [token] => Ok(token),
        [] => Err(Error::not_found(format!("there is no token '{}'", escape_control(text)))
            .with_help("list tokens with: noetl token list")),
        candidates => {
            let listed =
                candidates.iter().take(MAX_LISTED_MATCHES).map(|token| token.id.to_string());
            let listed: Vec<String> = listed.collect();
            let (text, listed) = (escape_control(text), listed.join(", "));
            Err(Error::usage(format!("'{text}' matches several tokens: {listed}"))
                .with_help("use the id"))
        }
    }
}

fn revoke_token(args: &TokenRevokeArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::to_server(&args.target.given, io)?;
    let tokens = fetch_all_tokens(&server)?;
    let token = find_token(&args.id, &tokens)?;
    let (id, name) = (token.id, escape_control(&token.name));
    let question = format!("Revoke token {id} ({name}) at {}?", server.display_name());
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    let revoked = server.send(async |client| client.revoke_token(id).await)?;
    writeln!(io.out, "{id} revoked")?;
    let name = escape_control(&revoked.name);
    io.print_note(format_args!("token {name} no longer grants access"))?;
    Ok(CommandExit::Ok)
}
