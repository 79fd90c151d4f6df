//! `noetl explain`: explains error and diagnostic codes.

use std::io::Write as _;

use anstyle::Style;
use clap::Args;
use noetl_playbook::{Code, Severity};
use noetl_types::ErrorCode;

use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::text_layout::escape_control;
use crate::render::{markdown, palette};

/// Maximum suggestions for an unknown code.
const MAX_SUGGESTIONS: usize = 3;

/// Explain an error or diagnostic code
///
/// Every diagnostic of `noetl check` and every API error has a page that describes the problem,
/// shows an example and shows the fix. Without a code, lists all codes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl explain NP201
  noetl explain np201 --raw > NP201.md
  noetl explain                          list every code

Exit codes:
    0  the page was printed
    3  there is no such code")]
pub(crate) struct ExplainArgs {
    /// Code to explain (case-insensitive)
    #[arg(value_name = "CODE")]
    code: Option<String>,
    /// Print the Markdown source (the default if the output is not a terminal)
    #[arg(long)]
    raw: bool,
}

/// Prints the page of a code, or the list of all codes.
///
/// The page is formatted if the output is a terminal or colors are requested, which supports
/// pagers.
pub(crate) fn run(
    args: &ExplainArgs,
    colors_requested: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let Some(code) = &args.code else {
        return list_codes(io);
    };
    let page = find_page(code)?;
    if args.raw || !(io.out.is_terminal() || colors_requested) {
        io.out.write_all(page.as_bytes())?;
    } else {
        let page = markdown::render_markdown(page, io.out.paint());
        io.out.write_all(page.as_bytes())?;
    }
    Ok(CommandExit::Ok)
}

fn find_page(code: &str) -> Result<&'static str> {
    let diagnostic = Code::parse(code).map(Code::page);
    let api_error = || ErrorCode::parse(&code.to_ascii_lowercase()).ok().map(ErrorCode::page);
    diagnostic.or_else(api_error).ok_or_else(|| {
        let near = similar_codes(code);
        let near = (!near.is_empty()).then(|| near.join(" or "));
        Error::not_found(format!("there is no code '{}'", escape_control(code)))
            .with_suggestion(near, "list every code with: noetl explain")
    })
}

/// A code in the list, with its severity or HTTP status.
struct CodeEntry {
    code: &'static str,
    title: &'static str,
    level: String,
    style: Style,
}

fn diagnostic_entries() -> impl Iterator<Item = CodeEntry> {
    Code::ALL.iter().map(|code| {
        let style = match code.severity() {
            Severity::Error => palette::FAILURE,
            Severity::Warning => palette::CAUTION,
            Severity::Note => palette::SUCCESS,
        };
        let level = code.severity().as_str().to_owned();
        CodeEntry { code: code.as_str(), title: code.title(), level, style }
    })
}

fn api_error_entries() -> impl Iterator<Item = CodeEntry> {
    ErrorCode::ALL.iter().map(|code| CodeEntry {
        code: code.as_str(),
        title: code.title(),
        level: code.http_status().to_string(),
        style: palette::FAILURE,
    })
}

/// Codes closest to the given one. If none is close, codes whose title contains it.
fn similar_codes(code: &str) -> Vec<&'static str> {
    let code = code.to_ascii_lowercase();
    let entries = || diagnostic_entries().chain(api_error_entries());
    let distance = |other: &str| strsim::damerau_levenshtein(&other.to_ascii_lowercase(), &code);
    let nearest = entries().map(|entry| distance(entry.code)).min().unwrap_or(usize::MAX);
    let is_similar = |entry: &CodeEntry| nearest <= 2 && distance(entry.code) == nearest;
    let has_matching_title = |entry: &CodeEntry| {
        nearest > 2 && code.len() > 2 && entry.title.to_ascii_lowercase().contains(&code)
    };
    entries()
        .filter(|entry| is_similar(entry) || has_matching_title(entry))
        .map(|entry| entry.code)
        .take(MAX_SUGGESTIONS)
        .collect()
}

fn list_codes(io: &mut Io<'_>) -> Result<CommandExit> {
    let paint = io.out.paint();
    let heading = |text| paint.text(palette::NAME.underline(), text).to_string();
    writeln!(io.out, "{}", heading("Diagnostics of noetl check"))?;
    for entry in diagnostic_entries() {
        entry.write(io)?;
    }
    writeln!(io.out, "\n{}", heading("Errors of the API"))?;
    for entry in api_error_entries() {
        entry.write(io)?;
    }
    Ok(CommandExit::Ok)
}

impl CodeEntry {
    fn write(&self, io: &mut Io<'_>) -> Result<()> {
        let paint = io.out.paint();
        let code = paint.text(palette::NAME, format_args!("{:<20}", self.code)).to_string();
        let level = paint.text(self.style, format_args!("{:<7}", self.level)).to_string();
        Ok(writeln!(io.out, "{code}  {level}  {}", self.title)?)
    }
}
