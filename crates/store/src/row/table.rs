//! Tables, and reading their rows.

use std::ops::Range;

use noetl_types::Text;

use super::cell::{CellProblem, CellRef, FromCell};
use crate::error::StoreError;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Text,
    Json,
    Bytes,
    Time,
}

/// A table, or some columns of one.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Kind)],
}

impl Table {
    /// The columns as a statement names them.
    pub(crate) fn list(&self) -> String {
        self.list_of("")
    }

    /// The columns with a prefix, such as `c.`.
    pub(crate) fn list_of(&self, prefix: &str) -> String {
        self.list_where(prefix, |_| true)
    }

    /// Some of the columns with a prefix.
    pub(crate) fn list_where(&self, prefix: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let names: Vec<_> = self
            .columns
            .iter()
            .filter(|(name, _)| is_wanted(name))
            .map(|(name, _)| format!("{prefix}{name}"))
            .collect();
        names.join(", ")
    }
}

/// A row that this version cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("column {column} of table {table} is damaged")]
pub(crate) struct Corrupt {
    table: &'static str,
    column: &'static str,
    #[source]
    problem: CellProblem,
}

impl Corrupt {
    /// What is wrong, and why, in one line.
    pub(crate) fn with_cause(&self) -> Text {
        Text::from(format!("{self}: {}", self.problem))
    }
}

impl From<Corrupt> for StoreError {
    fn from(corrupt: Corrupt) -> Self {
        Self::fatal(corrupt)
    }
}

/// A row as its database holds it.
pub(crate) trait Row {
    /// The cell at a place. One that cannot be read is empty, which whoever needs it refuses.
    fn cell(&self, place: usize) -> CellRef<'_>;
}

/// Cells from here and there that stand for a row.
impl Row for Vec<CellRef<'_>> {
    fn cell(&self, place: usize) -> CellRef<'_> {
        self.get(place).copied().unwrap_or(CellRef::Null)
    }
}

/// Some cells of a row, in the order of its columns.
#[derive(Clone)]
pub(crate) struct Cells<'r> {
    row: &'r dyn Row,
    places: Range<usize>,
}

impl<'r> Cells<'r> {
    pub(crate) fn new(row: &'r dyn Row, places: Range<usize>) -> Self {
        Self { row, places }
    }

    /// One of them, counted from where they begin.
    pub(crate) fn at(&self, index: usize) -> CellRef<'r> {
        let place = self.places.start.saturating_add(index);
        if place < self.places.end {
            self.row.cell(place)
        } else {
            CellRef::Null
        }
    }

    /// The first so many of them, which the rest goes on behind.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let at = self.places.end.min(self.places.start + count);
        let first = Self::new(self.row, self.places.start..at);
        self.places.start = at;
        first
    }
}

impl<'r> Iterator for Cells<'r> {
    type Item = CellRef<'r>;

    fn next(&mut self) -> Option<CellRef<'r>> {
        let row = self.row;
        self.places.next().map(|place| row.cell(place))
    }
}

/// Takes the cells of a row in the order of its table's columns.
pub(crate) struct Reader<'r> {
    table: &'static Table,
    place: usize,
    cells: Cells<'r>,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(table: &'static Table, cells: Cells<'r>) -> Self {
        Self {
            table,
            place: 0,
            cells,
        }
    }

    pub(crate) fn take<T: FromCell>(&mut self) -> Result<T, Corrupt> {
        self.read(T::from_cell)
    }

    /// Takes a text where it lies, if there is one.
    pub(crate) fn text(&mut self) -> Result<Option<&'r str>, Corrupt> {
        self.read(|cell| match cell {
            CellRef::Null => Ok(None),
            cell => cell.text().map(Some),
        })
    }

    /// Takes a cell by reading it.
    pub(crate) fn read<T>(
        &mut self,
        read: impl FnOnce(CellRef<'r>) -> Result<T, CellProblem>,
    ) -> Result<T, Corrupt> {
        let place = self.place;
        self.place += 1;
        let cell = self.cells.next().unwrap_or(CellRef::Null);
        read(cell).map_err(|problem| self.corrupt(place, problem))
    }

    /// The cell at a place of those that are left.
    pub(crate) fn at<T: FromCell>(&self, place: usize) -> Result<T, Corrupt> {
        T::from_cell(self.cells.at(place)).map_err(|problem| self.corrupt(place, problem))
    }

    /// What is wrong with the cell at a place.
    pub(crate) fn corrupt(&self, place: usize, problem: CellProblem) -> Corrupt {
        let column = self.table.columns.get(place);
        Corrupt {
            table: self.table.name,
            column: column.map_or("unknown", |(name, _)| name),
            problem,
        }
    }
}
