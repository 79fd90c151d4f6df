//! Output of lists and items: tables for people, JSON and YAML for programs.
//!
//! Owns the output flags and the layout of tables. Must not depend on the meaning of rows.

mod table;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Json, Millis, Timestamp};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::result::{self, ResultFormat};

pub(crate) use table::{TableCell, TextTable};

/// Output options.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t = OutputFormat::Table)]
    pub(crate) format: OutputFormat,
    /// Omit the column headers
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Format of times (default: relative on a terminal, otherwise iso)
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) time: Option<TimeStyle>,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Table
    Table,
    /// Table with more columns
    Wide,
    /// One JSON document
    Json,
    /// One line of JSON per item
    Jsonl,
    /// One YAML document
    Yaml,
}

impl OutputArgs {
    /// True for table formats.
    pub(crate) fn is_table(self) -> bool {
        matches!(self.format, OutputFormat::Table | OutputFormat::Wide)
    }

    /// True if each item of a list is printed on one line.
    pub(crate) fn is_json_lines(self) -> bool {
        self.format == OutputFormat::Jsonl
    }

    /// Time formatter for the output stream.
    pub(crate) fn time_formatter(self, io: &Io<'_>) -> TimeFormatter {
        let default = if io.out.is_terminal() { TimeStyle::Relative } else { TimeStyle::Iso };
        TimeFormatter { style: self.time.unwrap_or(default), now: SystemClock.now() }
    }

    /// Prints a list as a table or as data.
    pub(crate) fn print_list<T: Serialize>(
        self,
        items: &[T],
        table: impl for<'t> FnOnce(&'t [T], &TimeFormatter) -> TextTable<'t, T>,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        if self.is_table() {
            let times = self.time_formatter(io);
            return self.print_table(&table(items, &times), io);
        }
        self.print_data_list(items, io)
    }

    /// Prints a list, or a note instead of an empty table.
    pub(crate) fn print_list_or_note<T: Serialize>(
        self,
        items: &[T],
        note: &str,
        table: impl for<'t> FnOnce(&'t [T], &TimeFormatter) -> TextTable<'t, T>,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        if items.is_empty() && self.is_table() {
            io.print_note(note)?;
            return Ok(CommandExit::Ok);
        }
        self.print_list(items, table, io)
    }

    /// Prints a list as data. Not for table formats.
    pub(crate) fn print_data_list<T: Serialize>(
        self,
        items: &[T],
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        if !self.is_json_lines() {
            return self.print_document(&to_json_value(&items)?, io);
        }
        for item in items {
            writeln!(io.out, "{}", to_json_value(item)?)?;
        }
        Ok(CommandExit::Ok)
    }

    /// Prints one item as data. Not for table formats.
    pub(crate) fn print_item<T: Serialize>(self, item: &T, io: &mut Io<'_>) -> Result<CommandExit> {
        let json = to_json_value(item)?;
        if !self.is_json_lines() {
            return self.print_document(&json, io);
        }
        writeln!(io.out, "{json}")?;
        Ok(CommandExit::Ok)
    }

    /// Prints an item of a stream as data. Not for table formats.
    pub(crate) fn print_stream_item<T: Serialize>(self, item: &T, io: &mut Io<'_>) -> Result<()> {
        if self.format == OutputFormat::Yaml {
            writeln!(io.out, "---")?;
            return self.print_item(item, io).map(drop);
        }
        // Always on one line, so that items can be separated.
        writeln!(io.out, "{}", to_json_value(item)?)?;
        Ok(())
    }

    pub(crate) fn print_table<T>(
        self,
        table: &TextTable<'_, T>,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        let is_wide = self.format == OutputFormat::Wide;
        write!(io.out, "{}", table.render_table(is_wide, !self.no_headers, &io.out))?;
        Ok(CommandExit::Ok)
    }

    fn print_document(self, json: &Json, io: &mut Io<'_>) -> Result<CommandExit> {
        let format =
            if self.format == OutputFormat::Yaml { ResultFormat::Yaml } else { ResultFormat::Json };
        result::print_result(json, Some(format), io)
    }
}

/// Format of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// Relative to now
    Relative,
    /// RFC 3339
    Iso,
}

/// Formats times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeFormatter {
    style: TimeStyle,
    pub(crate) now: Timestamp,
}

impl TimeFormatter {
    pub(crate) fn format_time(&self, time: Timestamp) -> String {
        match self.style {
            TimeStyle::Relative => relative_time(time, self.now),
            TimeStyle::Iso => time.to_string(),
        }
    }

    /// Formats a time, or returns a dash.
    pub(crate) fn format_time_or_dash(&self, time: Option<Timestamp>) -> String {
        time.map_or_else(|| "-".to_owned(), |time| self.format_time(time))
    }
}

/// Converts a value to JSON.
pub(crate) fn to_json_value<T: Serialize>(value: &T) -> Result<Json> {
    let failed =
        |error: serde_json::Error| Error::failed(format!("cannot serialize the output: {error}"));
    let text = serde_json::to_vec(value).map_err(failed)?;
    serde_json::from_slice(&text).map_err(failed)
}

/// Parses a time given as RFC 3339 or as a duration before now.
pub(crate) fn parse_when(text: &str) -> Result<Timestamp, String> {
    if let Ok(age) = Millis::parse(text) {
        return Ok(SystemClock.now().saturating_sub(age));
    }
    Timestamp::parse(text).map_err(|_| "not a duration such as 2h or an RFC 3339 time".to_owned())
}

/// Formats a time relative to now.
pub(crate) fn relative_time(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", round_duration(time.duration_since(now)))
    } else {
        format!("{} ago", round_duration(now.duration_since(time)))
    }
}

/// Formats a duration in one unit.
fn round_duration(duration: Millis) -> String {
    let secs = duration.as_ms() / 1_000;
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        172_800.. => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests;
