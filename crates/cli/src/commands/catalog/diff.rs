//! `noetl catalog diff`

use std::io::Write as _;
use std::path::Path;

use anstyle::Style;
use clap::Args;
use noetl_api::catalog::CatalogResource;
use noetl_types::PlaybookPath;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::get::fetch_definition;
use crate::commands::exec::parse_path_and_version;
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::roles::Target;
use crate::source::DocumentOrigin;
use crate::target::{Access, TargetConnection};

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
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Unchanged lines shown around each change.
const CONTEXT_LINES: usize = 3;

struct DiffSide {
    name: String,
    text: String,
}

pub(super) fn run(
    args: &CatalogDiffArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
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
    let exit = if lines.is_empty() { CommandExit::Ok } else { CommandExit::Failed };
    if !args.output.is_table() {
        let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        let output = DiffOutput {
            left: &left.name,
            right: &right.name,
            differs: !lines.is_empty(),
            diff: texts.join("\n"),
        };
        args.output.print_item(&output, io)?;
        return Ok(exit);
    }
    let paint = io.out.paint();
    for (style, text) in lines {
        writeln!(io.out, "{}", paint.text(style, escape_control(&text)))?;
    }
    Ok(exit)
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

/// Fetches a version of a definition and the version before it.
async fn fetch_newest_two(path: &str, target: &Target) -> Result<(DiffSide, DiffSide), Error> {
    let newest = fetch_definition(path, target).await?;
    let (path, _): (PlaybookPath, _) = parse_path_and_version(path)?;
    let previous = newest.version.saturating_sub(1);
    if previous == 0 {
        return Err(Error::SingleVersion { path: path.to_string() });
    }
    let previous = fetch_definition(&format!("{path}@{previous}"), target).await?;
    Ok((previous.into(), newest.into()))
}

impl From<CatalogResource> for DiffSide {
    fn from(definition: CatalogResource) -> Self {
        Self {
            name: format!("{}@{}", definition.path, definition.version),
            text: definition.content.to_string(),
        }
    }
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
