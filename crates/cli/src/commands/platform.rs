//! What the commands of an operator share: the way to the internal API of a server, tables, questions.

use std::io::Write as _;

use clap::ValueEnum;
use noetl_api::Client;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, SERVER_URL, TOKEN};
use crate::config::{Config, Given};
use crate::error::Error;
use crate::io::Io;
use crate::reach;
use crate::render::palette;
use crate::render::words::visible;
use crate::roles;

/// Threads of a command that asks a server.
const THREADS: usize = 2;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Asks a server as an operator does.
pub(crate) fn ask<T>(
    given: &Given,
    io: &mut Io<'_>,
    question: impl AsyncFnOnce(&Client) -> Result<T, noetl_api::ApiError>,
) -> Result<T, Error> {
    let config = Config::load(given, &io.env)?;
    io.warn(&config.warnings)?;
    let token = match config.get(&INTERNAL_TOKEN)? {
        Some(token) => Some(token),
        None => config.get(&TOKEN)?,
    };
    let url = match config.get(&INTERNAL_URL)? {
        Some(url) => url,
        None => config.value(&SERVER_URL)?,
    };
    let client = reach::client_of(&url, token, &config)?;
    let threads = roles::threads(&config, THREADS)?;
    threads
        .block_on(question(&client))
        .map_err(|source| Error::Platform { url, source })
}

/// Writes a value for programs.
pub(crate) fn write_json(value: &impl Serialize, io: &mut Io<'_>) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    writeln!(io.out, "{text}")?;
    Ok(())
}

/// Writes rows under their headings, as wide as they are; the last column is cut where the line ends.
pub(crate) fn write_table(
    headings: &[&str],
    rows: &[Vec<String>],
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| visible(cell)).collect())
        .collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
            widest.max(headings.get(column).map_or(0, |heading| heading.width()))
        })
        .collect();
    let (paint, most) = (io.out.paint(), io.out.width());
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let line = fitted(&headings, &widths, most);
    writeln!(io.out, "{}", paint.text(palette::QUIET, line))?;
    for row in &rows {
        writeln!(io.out, "{}", fitted(row, &widths, most))?;
    }
    Ok(())
}

fn fitted(row: &[String], widths: &[usize], most: usize) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
        if place > 0 {
            line.push_str("  ");
        }
        line.push_str(cell);
        let is_last = place + 1 == widths.len();
        if !is_last {
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
        }
    }
    let mut cut = String::new();
    for letter in line.trim_end().chars() {
        if cut.width() + 1 >= most && line.trim_end().width() > most {
            cut.push('…');
            break;
        }
        cut.push(letter);
    }
    cut
}

/// Whether to go on with something that cannot be taken back.
pub(crate) fn agrees(question: &str, yes: bool, io: &mut Io<'_>) -> Result<bool, Error> {
    if yes {
        return Ok(true);
    }
    if !io.err.is_terminal() {
        return Err(Error::NotAgreed);
    }
    write!(io.err, "{question} [y/N] ")?;
    io.err.flush()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while io.input.read(&mut byte)? == 1 && byte != *b"\n" && answer.len() < 16 {
        answer.push(byte[0].to_ascii_lowercase());
    }
    Ok(matches!(answer.trim_ascii(), b"y" | b"yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_it_ends() {
        let row = ["a", "bcd"].map(str::to_owned);
        assert_eq!(fitted(&row, &[3, 3], 40), "a    bcd");
        let row = ["a", "bcdefgh"].map(str::to_owned);
        assert_eq!(fitted(&row, &[1, 7], 6), "a  bc…");
    }
}
