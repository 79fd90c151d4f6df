//! `noetl catalog diff`

use std::io::Write as _;
use std::path::Path;

use anstyle::Style;
use clap::Args;
use noetl_api::catalog::CatalogItem;
use noetl_types::PlaybookPath;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::get::item;
use crate::commands::exec::path_and_version;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::Host;
use crate::source::Origin;

/// Show how two versions of a definition differ
///
/// Without a second one, the newest version is compared with the one before it; a file can be
/// compared with what is registered. The exit code is 0 where nothing differs, else 1.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog diff etl/daily              the newest against the one before
  noetl catalog diff etl/daily@1 etl/daily@4
  noetl catalog diff etl/daily daily.yaml   what registering it would change
  noetl catalog diff etl/daily -o json | jq .differs")]
pub(crate) struct DiffArgs {
    /// The path, perhaps with a version: PATH@3
    left: String,
    /// Another one, or a file, or - for standard input
    right: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

struct Side {
    name: String,
    text: String,
}

pub(super) fn run(args: &DiffArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    let host = &reached.host;
    let (left, right) = match &args.right {
        None => reached.ask(newest_two(&args.left, host))?,
        Some(right) => {
            let left = reached.ask(item(&args.left, host))?.into();
            let is_file = right == "-" || Path::new(right).is_file();
            let right = if is_file {
                let origin = Origin::new(Path::new(right));
                Side {
                    name: origin.name(),
                    text: origin.read(io)?,
                }
            } else {
                reached.ask(item(right, host))?.into()
            };
            (left, right)
        }
    };
    let lines = lines(&left, &right);
    let exit = if lines.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    };
    if !args.output.is_table() {
        let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        let difference = Difference {
            left: &left.name,
            right: &right.name,
            differs: !lines.is_empty(),
            diff: texts.join("\n"),
        };
        args.output.thing(&difference, io)?;
        return Ok(exit);
    }
    let paint = io.out.paint();
    for (style, text) in lines {
        writeln!(io.out, "{}", paint.text(style, visible(&text)))?;
    }
    Ok(exit)
}

/// How two definitions differ, for programs.
#[derive(Debug, Serialize)]
struct Difference<'s> {
    left: &'s str,
    right: &'s str,
    differs: bool,
    /// As `diff -u` tells it.
    diff: String,
}

/// A version of a definition and the one before it.
async fn newest_two(path: &str, host: &Host) -> Result<(Side, Side), Error> {
    let newest = item(path, host).await?;
    let (path, _): (PlaybookPath, _) = path_and_version(path)?;
    let before = newest.version.saturating_sub(1);
    if before == 0 {
        return Err(Error::OneVersion {
            path: path.to_string(),
        });
    }
    let before = item(&format!("{path}@{before}"), host).await?;
    Ok((before.into(), newest.into()))
}

impl From<CatalogItem> for Side {
    fn from(item: CatalogItem) -> Self {
        Self {
            name: format!("{}@{}", item.path, item.version),
            text: item.content.to_string(),
        }
    }
}

/// The lines of a difference, each in its style; none where nothing differs.
fn lines(left: &Side, right: &Side) -> Vec<(Style, String)> {
    let diff = TextDiff::from_lines(&left.text, &right.text);
    let groups = diff.grouped_ops(CONTEXT);
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
                ChangeTag::Delete => ('-', palette::BAD),
                ChangeTag::Insert => ('+', palette::GOOD),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let text = change.value().trim_end_matches(['\r', '\n']);
            lines.push((style, format!("{sign}{text}")));
        }
    }
    lines
}
