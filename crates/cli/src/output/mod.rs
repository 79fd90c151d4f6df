//! Output of lists and items: tables for people, JSON and YAML for programs.
//!
//! Owns the output flags and the layout of tables. Must not depend on the meaning of rows.

mod table;
mod time;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Json, Timestamp};
use serde::Serialize;

use crate::error::Error;
use crate::io::Io;
use crate::render::result::{self, ResultFormat};

pub(crate) use table::{TableCell, TableColumn, TextTable};
pub(crate) use time::{TimeStyle, parse_when, relative_time};

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

    /// True for the format with more columns.
    pub(crate) fn is_wide(self) -> bool {
        self.format == OutputFormat::Wide
    }

    /// True if each item of a list is printed on one line.
    pub(crate) fn is_json_lines(self) -> bool {
        self.format == OutputFormat::Jsonl
    }

    /// Time formatter for the output stream.
    pub(crate) fn time_formatter(self, io: &Io<'_>) -> TimeFormatter {
        let style = self.time.unwrap_or(if io.out.is_terminal() {
            TimeStyle::Relative
        } else {
            TimeStyle::Iso
        });
        TimeFormatter { style, now: SystemClock.now() }
    }

    /// Prints a list as a table or as data.
    pub(crate) fn print_list<T: Serialize>(
        self,
        items: &[T],
        table: impl FnOnce(&TimeFormatter) -> TextTable,
        io: &mut Io<'_>,
    ) -> Result<(), Error> {
        if self.is_table() {
            let times = self.time_formatter(io);
            return self.print_table(&table(&times), io);
        }
        if self.format == OutputFormat::Jsonl {
            for item in items {
                writeln!(io.out, "{}", to_json_value(item)?)?;
            }
            return Ok(());
        }
        self.print_document(&to_json_value(&items)?, io)
    }

    /// Prints one item as data. Not for table formats.
    pub(crate) fn print_item<T: Serialize>(self, item: &T, io: &mut Io<'_>) -> Result<(), Error> {
        let json = to_json_value(item)?;
        if self.format == OutputFormat::Jsonl {
            writeln!(io.out, "{json}")?;
            return Ok(());
        }
        self.print_document(&json, io)
    }

    /// Prints an item of a stream as data. Not for table formats.
    pub(crate) fn print_stream_item<T: Serialize>(
        self,
        item: &T,
        io: &mut Io<'_>,
    ) -> Result<(), Error> {
        if self.format == OutputFormat::Yaml {
            writeln!(io.out, "---")?;
            return self.print_item(item, io);
        }
        // Always on one line, so that items can be separated.
        writeln!(io.out, "{}", to_json_value(item)?)?;
        Ok(())
    }

    pub(crate) fn print_table(self, table: &TextTable, io: &mut Io<'_>) -> Result<(), Error> {
        let text = table.render_table(self.is_wide(), !self.no_headers, &io.out);
        write!(io.out, "{text}")?;
        Ok(())
    }

    fn print_document(self, json: &Json, io: &mut Io<'_>) -> Result<(), Error> {
        let format =
            if self.format == OutputFormat::Yaml { ResultFormat::Yaml } else { ResultFormat::Json };
        if let Some(text) = result::render_result(json, Some(format)) {
            write!(io.out, "{text}")?;
        }
        Ok(())
    }
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
pub(crate) fn to_json_value<T: Serialize>(value: &T) -> Result<Json, Error> {
    let failed = |error: serde_json::Error| Error::NotSerializable(error.to_string());
    let text = serde_json::to_vec(value).map_err(failed)?;
    serde_json::from_slice(&text).map_err(failed)
}
