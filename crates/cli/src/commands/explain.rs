//! `noetl explain`: what a code means.

use std::io::Write as _;

use clap::Args;
use noetl_playbook::{Code, Severity};
use noetl_types::ErrorCode;

use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::render::words::visible;
use crate::render::{markdown, palette};

/// An unknown code gets no more suggestions than this.
const MAX_NEAR: usize = 3;

/// Explain a code that a message carries
///
/// Every diagnostic of `noetl check` and every error of the API has a page that says what is wrong,
/// shows an example, and shows what to write instead. Without a code, all codes are listed.
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
    /// The code, in any case
    #[arg(value_name = "CODE")]
    code: Option<String>,
    /// Print the page as it is written, in Markdown; so it is wherever no terminal reads it
    #[arg(long)]
    raw: bool,
}

/// Prints the page of a code, or the list of all codes.
///
/// A page is set for a terminal when one reads it, or when colours are asked for: whoever asks for
/// them pipes the page into a pager.
pub(crate) fn run(
    args: &ExplainArgs,
    colors_asked_for: bool,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let Some(code) = &args.code else {
        return list(io);
    };
    let page = page(code)?;
    let raw = args.raw || !(io.out.is_terminal() || colors_asked_for);
    if raw {
        io.out.write_all(page.as_bytes())?;
    } else {
        let page = markdown::render(page, io.out.paint());
        io.out.write_all(page.as_bytes())?;
    }
    Ok(Exit::Ok)
}

fn page(code: &str) -> Result<&'static str, Error> {
    let diagnostic = Code::parse(code).map(Code::page);
    let of_api = || {
        ErrorCode::parse(&code.to_ascii_lowercase())
            .ok()
            .map(ErrorCode::page)
    };
    diagnostic
        .or_else(of_api)
        .ok_or_else(|| Error::UnknownCode {
            code: visible(code),
            near: near(code),
        })
}

/// A code in the list.
struct Entry {
    code: &'static str,
    title: &'static str,
    weight: Weight,
}

/// What stands between a code and its title.
enum Weight {
    Severity(Severity),
    Status(u16),
}

fn diagnostics() -> impl Iterator<Item = Entry> {
    Code::ALL.iter().map(|code| Entry {
        code: code.as_str(),
        title: code.title(),
        weight: Weight::Severity(code.severity()),
    })
}

fn api_errors() -> impl Iterator<Item = Entry> {
    ErrorCode::ALL.iter().map(|code| Entry {
        code: code.as_str(),
        title: code.title(),
        weight: Weight::Status(code.status()),
    })
}

/// The codes that look most like this one; where none does, codes whose titles mention it.
fn near(code: &str) -> Vec<&'static str> {
    let code = code.to_ascii_lowercase();
    let entries = || diagnostics().chain(api_errors());
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &code);
    let nearest = entries()
        .map(|entry| distance(entry.code))
        .min()
        .unwrap_or(usize::MAX);
    let looks_alike = |entry: &Entry| nearest <= 2 && distance(entry.code) == nearest;
    let is_titled = |entry: &Entry| {
        nearest > 2 && code.len() > 2 && entry.title.to_ascii_lowercase().contains(&code)
    };
    entries()
        .filter(|entry| looks_alike(entry) || is_titled(entry))
        .map(|entry| entry.code)
        .take(MAX_NEAR)
        .collect()
}

fn list(io: &mut Io<'_>) -> Result<Exit, Error> {
    let paint = io.out.paint();
    let heading = |text| paint.text(palette::NAME.underline(), text).to_string();
    writeln!(io.out, "{}", heading("Diagnostics of noetl check"))?;
    for entry in diagnostics() {
        entry.write(io)?;
    }
    writeln!(io.out, "\n{}", heading("Errors of the API"))?;
    for entry in api_errors() {
        entry.write(io)?;
    }
    Ok(Exit::Ok)
}

impl Entry {
    fn write(&self, io: &mut Io<'_>) -> Result<(), Error> {
        let paint = io.out.paint();
        let (style, weight) = match self.weight {
            Weight::Severity(Severity::Error) => (palette::BAD, "error".to_owned()),
            Weight::Severity(Severity::Warning) => (palette::DOUBT, "warning".to_owned()),
            Weight::Severity(Severity::Note) => (palette::GOOD, "note".to_owned()),
            Weight::Status(status) => (palette::BAD, status.to_string()),
        };
        let code = paint
            .text(palette::NAME, format_args!("{:<20}", self.code))
            .to_string();
        let weight = paint.text(style, format_args!("{weight:<7}")).to_string();
        writeln!(io.out, "{code}  {weight}  {}", self.title)?;
        Ok(())
    }
}
