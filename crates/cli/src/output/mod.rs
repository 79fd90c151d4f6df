//! How lists and things are shown: tables for people, JSON and YAML for programs.
//!
//! Owns the flags of the form, and the way from rows to columns. Must not: know what a row means.

mod table;
mod time;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Json, Timestamp};
use serde::Serialize;

use crate::error::Error;
use crate::io::Io;
use crate::render::result::{self, Form as Rendered};

pub(crate) use table::{Cell, Column, Table};
pub(crate) use time::{TimeStyle, ago, read_when};

/// How something is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// The form of the output
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORM", default_value_t = Form::Table)]
    pub(crate) form: Form,
    /// Leave out the names of the columns
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// How times are told; by default relative on a terminal, else iso
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) time: Option<TimeStyle>,
}

/// The form of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Table,
    /// The same with more columns.
    Wide,
    /// One JSON document.
    Json,
    /// A line of JSON for each thing.
    Jsonl,
    /// One YAML document.
    Yaml,
}

impl Output {
    /// Whether it is for people.
    pub(crate) fn is_table(self) -> bool {
        matches!(self.form, Form::Table | Form::Wide)
    }

    /// Whether there are more columns.
    pub(crate) fn is_wide(self) -> bool {
        self.form == Form::Wide
    }

    /// Whether each thing of a list is a line of its own.
    pub(crate) fn is_lines(self) -> bool {
        self.form == Form::Jsonl
    }

    /// How times are told on a stream.
    pub(crate) fn times(self, io: &Io<'_>) -> Times {
        let style = self.time.unwrap_or(if io.out.is_terminal() {
            TimeStyle::Relative
        } else {
            TimeStyle::Iso
        });
        Times {
            style,
            now: SystemClock.now(),
        }
    }

    /// Shows a list: as a table, or each thing as it is.
    pub(crate) fn list<T: Serialize>(
        self,
        things: &[T],
        table: impl FnOnce(&Times) -> Table,
        io: &mut Io<'_>,
    ) -> Result<(), Error> {
        if self.is_table() {
            let times = self.times(io);
            return self.table(&table(&times), io);
        }
        if self.form == Form::Jsonl {
            for thing in things {
                writeln!(io.out, "{}", json_of(thing)?)?;
            }
            return Ok(());
        }
        self.document(&json_of(&things)?, io)
    }

    /// Shows one thing as it is; for those forms that are not for people.
    pub(crate) fn thing<T: Serialize>(self, thing: &T, io: &mut Io<'_>) -> Result<(), Error> {
        let json = json_of(thing)?;
        if self.form == Form::Jsonl {
            writeln!(io.out, "{json}")?;
            return Ok(());
        }
        self.document(&json, io)
    }

    /// Shows one of many things that come one after the other; for those forms that are not for people.
    pub(crate) fn one_of_many<T: Serialize>(self, thing: &T, io: &mut Io<'_>) -> Result<(), Error> {
        if self.form == Form::Yaml {
            writeln!(io.out, "---")?;
            return self.thing(thing, io);
        }
        // A document over many lines could not be told from the next.
        writeln!(io.out, "{}", json_of(thing)?)?;
        Ok(())
    }

    /// Shows a table.
    pub(crate) fn table(self, table: &Table, io: &mut Io<'_>) -> Result<(), Error> {
        let text = table.render(self.is_wide(), !self.no_headers, &io.out);
        write!(io.out, "{text}")?;
        Ok(())
    }

    fn document(self, json: &Json, io: &mut Io<'_>) -> Result<(), Error> {
        let form = if self.form == Form::Yaml {
            Rendered::Yaml
        } else {
            Rendered::Json
        };
        if let Some(text) = result::render(json, Some(form)) {
            write!(io.out, "{text}")?;
        }
        Ok(())
    }
}

/// How times are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    style: TimeStyle,
    pub(crate) now: Timestamp,
}

impl Times {
    /// A time.
    pub(crate) fn tell(&self, time: Timestamp) -> String {
        match self.style {
            TimeStyle::Relative => ago(time, self.now),
            TimeStyle::Iso => time.to_string(),
        }
    }

    /// A time, or a dash.
    pub(crate) fn tell_or_dash(&self, time: Option<Timestamp>) -> String {
        time.map_or_else(|| "-".to_owned(), |time| self.tell(time))
    }
}

/// Anything as JSON.
pub(crate) fn json_of<T: Serialize>(thing: &T) -> Result<Json, Error> {
    let refused = |error: serde_json::Error| Error::Unwritable(error.to_string());
    let text = serde_json::to_vec(thing).map_err(refused)?;
    serde_json::from_slice(&text).map_err(refused)
}
