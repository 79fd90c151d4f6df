//! `noetl catalog`: definitions registered on a server.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anstyle::Style;
use clap::{Args, Subcommand, ValueHint};
use noetl_api::catalog::{
    CatalogListEntry, CatalogListRequest, CatalogResource, CatalogResourceRequest, RegisterRequest,
    RegisterResponse,
};
use noetl_api::execute::VersionSelector;
use noetl_playbook::Code;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Json, PlaybookPath};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::commands::check::{document_path, print_diagnostics};
use crate::commands::next_page_limit;
use crate::config::nearest_name;
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::{escape_control, escape_control_lines, pluralize};
use crate::roles::Target;
use crate::source::{self, DocumentOrigin, FoundDocuments};

/// Register playbooks and inspect registered definitions
///
/// Every change of a playbook is a new version. A run keeps the version it started with. If no
/// server is running, the commands use the local database.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    Register(RegisterArgs),
    List(CatalogListArgs),
    Get(CatalogGetArgs),
    History(CatalogHistoryArgs),
    Diff(CatalogDiffArgs),
}

/// Register playbooks and other documents
///
/// Documents are checked first, as with 'noetl check'. If one has errors, nothing is registered.
/// Registering unchanged content does not create a new version.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog register flow.yaml
  noetl catalog register playbooks/ --dry-run     show what would be registered")]
pub(crate) struct RegisterArgs {
    /// Files and directories, or - for standard input
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Check without registering
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// List registered definitions by path
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog list
  noetl catalog list etl/ --kind playbook -o json")]
pub(crate) struct CatalogListArgs {
    /// Filter by text in the path
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Filter by kind, such as playbook or model
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Maximum number of definitions
    #[arg(short = 'n', long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    client: ClientArgs,
}

/// Print the source of a definition
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog get etl/daily > daily.yaml   the newest version
  noetl catalog get etl/daily@3 -o json      version 3, with its metadata")]
pub(crate) struct CatalogGetArgs {
    /// Path of the definition, optionally with a version: PATH@3
    path: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// List the versions of a definition, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog history etl/daily
  noetl catalog history etl/daily -o jsonl | jq .version")]
pub(crate) struct CatalogHistoryArgs {
    /// Path of the definition
    path: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Show the differences between two versions of a definition
///
/// Without a second argument, compares the newest version with the previous one. A file can be
/// compared with a registered version. The exit code is 0 if there are no differences, otherwise 1.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog diff etl/daily              the newest against the previous
  noetl catalog diff etl/daily@1 etl/daily@4
  noetl catalog diff etl/daily daily.yaml   what registering it would change
  noetl catalog diff etl/daily -o json | jq .differs")]
pub(crate) struct CatalogDiffArgs {
    /// Path of the definition, optionally with a version: PATH@3
    left: String,
    /// Second definition, file, or - for standard input
    right: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Maximum versions listed.
const MAX_LISTED_VERSIONS: usize = 10_000;
/// Unchanged lines shown around each change.
const CONTEXT_LINES: usize = 3;

/// Runs the `noetl catalog` subcommands.
pub(crate) fn run(command: &CatalogCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        CatalogCommand::Register(args) => register_documents(args, io),
        CatalogCommand::List(args) => list_definitions(args, io),
        CatalogCommand::Get(args) => print_definition(args, io),
        CatalogCommand::History(args) => list_versions(args, io),
        CatalogCommand::Diff(args) => print_diff(args, io),
    }
}

fn register_documents(args: &RegisterArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let FoundDocuments { origins, problems } = source::find_documents(&args.paths);
    if let Some((_, problem)) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut documents = Vec::new();
    let mut failed = 0;
    for origin in &origins {
        let text = origin.read_text(io)?;
        let checked = print_diagnostics(&origin.display_name(), &text, !io.quiet, io)?;
        failed += usize::from(checked.error_count > 0);
        documents.push(text);
    }
    if failed > 0 {
        let files = pluralize(failed, "file");
        io.print_message(format_args!("{files} with errors; nothing was registered"))?;
        return Ok(CommandExit::Failed);
    }
    let server = args.client.connect_to_server(io)?;
    let own_paths: Vec<String> = documents.iter().filter_map(|text| document_path(text)).collect();
    let mut responses = Vec::new();
    for content in documents {
        let request = RegisterRequest { content, resource_type: None, dry_run: args.dry_run };
        responses.push(server.send(async |client| client.catalog_register(&request).await)?);
    }
    print_reference_warnings(&responses, &own_paths, io)?;
    args.client.output.print_list(
        &responses,
        |responses, _| registration_table(responses, args.dry_run),
        io,
    )
}

/// Prints which entries of the catalog are missing. Documents may refer to others of the command.
fn print_reference_warnings(
    responses: &[RegisterResponse],
    own_paths: &[String],
    io: &mut Io<'_>,
) -> Result<()> {
    for response in responses {
        for warning in &response.warnings {
            let text = |key: &str| warning.get(key).and_then(Json::as_str).unwrap_or_default();
            let code = text("code");
            let is_own =
                own_paths.iter().any(|path| text("message").contains(&format!("'{path}'")));
            let is_missing =
                code == Code::NP605.as_str() || (code == Code::NP706.as_str() && !is_own);
            if is_missing && !io.quiet {
                let line = warning.get("line").and_then(Json::as_u64).unwrap_or(0);
                let message = text("message");
                io.print_warning(format!("{}, line {line}: {message} ({code})", response.path))?;
            }
        }
    }
    Ok(())
}

fn registration_table(
    responses: &[RegisterResponse],
    is_dry_run: bool,
) -> TextTable<'_, RegisterResponse> {
    let result = |response: &RegisterResponse| match (response.unchanged, is_dry_run) {
        (true, _) => TableCell::styled("unchanged", palette::MUTED),
        (false, true) => TableCell::styled("would be registered", palette::CODE),
        (false, false) => TableCell::styled("registered", palette::SUCCESS),
    };
    TextTable::new(responses)
        .shrinkable("PATH", |response| TableCell::styled(&response.path, palette::NAME))
        .right("VERSION", |response| TableCell::or_dash(response.version))
        .column("KIND", |response| &response.kind)
        .column("RESULT", result)
        .wide("ID", |response| TableCell::or_dash(response.catalog_id))
}

fn list_definitions(args: &CatalogListArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    let request = CatalogListRequest {
        resource_type: args.kind.as_deref().map(Into::into),
        include_content: Some(false),
        q: args.text.as_deref().map(Into::into),
        ..CatalogListRequest::default()
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let entries = connection.block_on(fetch_entries(request, limit, &connection.target))?;
    let note = if args.text.is_none() && args.kind.is_none() {
        "no definitions are registered; register one with: noetl catalog register FILE"
    } else {
        "no matching definitions are registered"
    };
    args.client.output.print_list_or_note(&entries, note, definition_table, io)
}

/// Fetches the paths of all registered playbooks.
pub(crate) async fn fetch_playbook_paths(target: &Target) -> Result<BTreeSet<String>> {
    let request = CatalogListRequest {
        resource_type: Some("playbook".into()),
        include_content: Some(false),
        ..CatalogListRequest::default()
    };
    let entries = fetch_entries(request, usize::MAX, target).await?;
    Ok(entries.into_iter().map(|entry| entry.path.to_string()).collect())
}

async fn fetch_entries(
    mut request: CatalogListRequest,
    limit: usize,
    target: &Target,
) -> Result<Vec<CatalogListEntry>> {
    let mut entries = Vec::new();
    loop {
        request.limit = Some(next_page_limit(limit, entries.len()));
        let page = target.list_definitions(request.clone()).await?;
        entries.extend(page.entries);
        request.cursor = page.next_cursor;
        if request.cursor.is_none() || entries.len() >= limit {
            entries.truncate(limit);
            return Ok(entries);
        }
    }
}

fn definition_table<'t>(
    entries: &'t [CatalogListEntry],
    times: &TimeFormatter,
) -> TextTable<'t, CatalogListEntry> {
    TextTable::new(entries)
        .shrinkable("PATH", |entry| TableCell::styled(&entry.path, palette::NAME))
        .right("VERSION", |entry| entry.version)
        .column("KIND", |entry| &entry.kind)
        .column("REGISTERED", |entry| times.format_time(entry.created_at))
        .column("STATUS", |entry| &entry.status)
        .wide("ID", |entry| entry.catalog_id)
}

fn print_definition(args: &CatalogGetArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    let definition = connection.block_on(fetch_definition(&args.path, &connection.target))?;
    if !args.client.output.is_table() {
        return args.client.output.print_item(&definition, io);
    }
    let ending = if definition.content.ends_with('\n') { "" } else { "\n" };
    // A file receives the exact registered text. On a terminal, control characters are escaped, since
    // the text may come from other users.
    if io.out.is_terminal() {
        write!(io.out, "{}{ending}", escape_control_lines(&definition.content))?;
    } else {
        write!(io.out, "{}{ending}", definition.content)?;
    }
    Ok(CommandExit::Ok)
}

/// Splits a path from the version after its @.
pub(crate) fn parse_path_and_version(
    text: &str,
) -> Result<(PlaybookPath, Option<VersionSelector>)> {
    let (path, version) = match text.rsplit_once('@') {
        None => (text, None),
        Some((path, "latest")) => (path, None),
        Some((path, number)) => {
            let version = number.parse().map_err(|_| {
                let number = escape_control(number);
                let reason = format!("the text after @ must be a version number, not '{number}'");
                Error::invalid_argument("PATH", reason)
            })?;
            (path, Some(VersionSelector::Number(version)))
        }
    };
    Ok((parse_path(path)?, version))
}

fn parse_path(text: &str) -> Result<PlaybookPath> {
    PlaybookPath::new(text).map_err(|error| Error::invalid_argument("PATH", error))
}

/// Fetches a definition by path and optional version.
async fn fetch_definition(path: &str, target: &Target) -> Result<CatalogResource> {
    let (playbook_path, version) = parse_path_and_version(path)?;
    let request = CatalogResourceRequest {
        path: Some(playbook_path),
        version,
        ..CatalogResourceRequest::default()
    };
    match target.find_definition(request).await {
        Ok(definition) => Ok(definition),
        Err(error) => Err(definition_not_found(path, error, target).await),
    }
}

/// Converts a "not found" error into one that suggests the definition with the nearest name.
pub(crate) async fn definition_not_found(name: &str, error: Error, target: &Target) -> Error {
    if error.error_code() != Some(ErrorCode::NotFound) {
        return error;
    }
    let request = CatalogListRequest {
        include_content: Some(false),
        limit: Some(PageLimit::MAX),
        ..CatalogListRequest::default()
    };
    // The suggestion is optional: if the list cannot be fetched, no suggestion is made.
    let definitions = target.list_definitions(request).await.unwrap_or_default().entries;
    let path = name.rsplit_once('@').map_or(name, |(path, _)| path);
    let near = nearest_name(path, definitions.iter().map(|entry| entry.path.as_str()));
    Error::not_found(format!("there is no definition '{}'", escape_control(name)))
        .with_suggestion(near, "list definitions with: noetl catalog list")
}

fn list_versions(args: &CatalogHistoryArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let path = parse_path(&args.path)?;
    let connection = args.client.connect_for_reading(io)?;
    let (mut versions, mut cursor) = (Vec::new(), None);
    loop {
        let page = connection.target.list_versions(path.clone(), cursor);
        let page = connection.block_on(page)?;
        versions.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() || versions.len() >= MAX_LISTED_VERSIONS {
            return args.client.output.print_list(&versions, definition_table, io);
        }
    }
}

/// Definition or file to compare.
struct DiffSide {
    name: String,
    text: String,
}

impl From<CatalogResource> for DiffSide {
    fn from(definition: CatalogResource) -> Self {
        Self {
            name: format!("{}@{}", definition.path, definition.version),
            text: definition.content.to_string(),
        }
    }
}

/// Differences between two definitions, for JSON output.
#[derive(Debug, Serialize)]
struct DiffOutput<'s> {
    left: &'s str,
    right: &'s str,
    differs: bool,
    /// Unified diff in the format of `diff -u`.
    diff: String,
}

fn print_diff(args: &CatalogDiffArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    let target = &connection.target;
    let (left, right) = match &args.right {
        None => connection.block_on(fetch_newest_two(&args.left, target))?,
        Some(right) => {
            let left = connection.block_on(fetch_definition(&args.left, target))?.into();
            let is_file = right == "-" || Path::new(right).is_file();
            let right = if is_file {
                let origin = DocumentOrigin::new(Path::new(right));
                DiffSide { name: origin.display_name(), text: origin.read_text(io)? }
            } else {
                connection.block_on(fetch_definition(right, target))?.into()
            };
            (left, right)
        }
    };
    let lines = unified_diff_lines(&left, &right);
    let differs = !lines.is_empty();
    if args.client.output.is_table() {
        let paint = io.out.paint();
        for (style, text) in lines {
            writeln!(io.out, "{}", paint.text(style, escape_control(&text)))?;
        }
    } else {
        let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        let diff = texts.join("\n");
        let output = DiffOutput { left: &left.name, right: &right.name, differs, diff };
        args.client.output.print_item(&output, io)?;
    }
    Ok(if differs { CommandExit::Failed } else { CommandExit::Ok })
}

/// Fetches a version of a definition and the version before it.
async fn fetch_newest_two(path: &str, target: &Target) -> Result<(DiffSide, DiffSide)> {
    let newest = fetch_definition(path, target).await?;
    let (path, _) = parse_path_and_version(path)?;
    let previous = newest.version.saturating_sub(1);
    if previous == 0 {
        return Err(Error::not_found(format!("'{path}' has only one version"))
            .with_help("compare it with a file: noetl catalog diff PATH FILE"));
    }
    let previous = fetch_definition(&format!("{path}@{previous}"), target).await?;
    Ok((previous.into(), newest.into()))
}

/// Lines of the unified diff, each with its style. Empty if the texts are equal.
fn unified_diff_lines(left: &DiffSide, right: &DiffSide) -> Vec<(Style, String)> {
    let diff = TextDiff::from_lines(&left.text, &right.text);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    let mut lines = Vec::new();
    if groups.is_empty() {
        return lines;
    }
    lines.push((palette::NAME, format!("--- {}", left.name)));
    lines.push((palette::NAME, format!("+++ {}", right.name)));
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let span = |from: usize, to: usize| format!("{},{}", from + 1, to - from);
        let old = span(first.old_range().start, last.old_range().end);
        let new = span(first.new_range().start, last.new_range().end);
        lines.push((palette::CODE, format!("@@ -{old} +{new} @@")));
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', palette::FAILURE),
                ChangeTag::Insert => ('+', palette::SUCCESS),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let text = change.value().trim_end_matches(['\r', '\n']);
            lines.push((style, format!("{sign}{text}")));
        }
    }
    lines
}
