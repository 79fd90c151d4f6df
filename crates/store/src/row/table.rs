//! Tables, and readers of their rows.

use std::ops::Range;

use noetl_types::Text;

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use crate::error::StoreError;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Bool,
    Int,
    Float,
    Text,
    Json,
    Bytes,
    Time,
}

/// A table, or a subset of its columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, ColumnKind)],
}

impl Table {
    /// Returns the column names, separated by commas.
    pub(crate) fn column_list(&self) -> String {
        self.prefixed_column_list("")
    }

    /// Returns the column names with a prefix such as `c.`.
    pub(crate) fn prefixed_column_list(&self, prefix: &str) -> String {
        self.filtered_column_list(prefix, |_| true)
    }

    /// Returns the selected column names with a prefix.
    pub(crate) fn filtered_column_list(
        &self,
        prefix: &str,
        is_selected: impl Fn(&str) -> bool,
    ) -> String {
        let names: Vec<_> = self
            .columns
            .iter()
            .filter(|(name, _)| is_selected(name))
            .map(|(name, _)| format!("{prefix}{name}"))
            .collect();
        names.join(", ")
    }
}

/// A row that this version cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("column {column} of table {table} is damaged")]
pub(crate) struct CorruptRow {
    table: &'static str,
    column: &'static str,
    #[source]
    problem: CellProblem,
}

impl CorruptRow {
    /// Returns the error and its cause in one line.
    pub(crate) fn message_with_cause(&self) -> Text {
        Text::from(format!("{self}: {}", self.problem))
    }
}

impl From<CorruptRow> for StoreError {
    fn from(corrupt: CorruptRow) -> Self {
        Self::fatal(corrupt)
    }
}

/// A row of a query result.
pub(crate) trait Row {
    /// Returns the cell at an index. A cell that cannot be read is null, which readers of required
    /// columns reject.
    fn cell(&self, index: usize) -> CellRef<'_>;
}

/// A row composed of cells from several sources.
impl Row for Vec<CellRef<'_>> {
    fn cell(&self, index: usize) -> CellRef<'_> {
        self.get(index).copied().unwrap_or(CellRef::Null)
    }
}

/// A range of cells of a row, in column order.
#[derive(Clone)]
pub(crate) struct RowCells<'r> {
    row: &'r dyn Row,
    range: Range<usize>,
}

impl<'r> RowCells<'r> {
    pub(crate) fn new(row: &'r dyn Row, range: Range<usize>) -> Self {
        Self { row, range }
    }

    /// Returns the cell at an index within the range.
    pub(crate) fn cell_at(&self, index: usize) -> CellRef<'r> {
        let cell_index = self.range.start.saturating_add(index);
        if cell_index < self.range.end { self.row.cell(cell_index) } else { CellRef::Null }
    }

    /// Splits off the first `count` cells. This range continues after them.
    pub(crate) fn split_front(&mut self, count: usize) -> Self {
        let at = self.range.end.min(self.range.start + count);
        let first = Self::new(self.row, self.range.start..at);
        self.range.start = at;
        first
    }
}

impl<'r> Iterator for RowCells<'r> {
    type Item = CellRef<'r>;

    fn next(&mut self) -> Option<CellRef<'r>> {
        let row = self.row;
        self.range.next().map(|index| row.cell(index))
    }
}

/// Reads the cells of a row in the order of its table's columns.
pub(crate) struct RowReader<'r> {
    table: &'static Table,
    next_index: usize,
    cells: RowCells<'r>,
}

impl<'r> RowReader<'r> {
    pub(crate) fn new(table: &'static Table, cells: RowCells<'r>) -> Self {
        Self { table, next_index: 0, cells }
    }

    pub(crate) fn read_next<T: FromCell>(&mut self) -> Result<T, CorruptRow> {
        self.read_with(T::from_cell)
    }

    /// Reads the next cell as borrowed text, if it is not null.
    pub(crate) fn read_text(&mut self) -> Result<Option<&'r str>, CorruptRow> {
        self.read_with(|cell| match cell {
            CellRef::Null => Ok(None),
            cell => cell.text().map(Some),
        })
    }

    /// Reads the next cell with a function.
    pub(crate) fn read_with<T>(
        &mut self,
        read: impl FnOnce(CellRef<'r>) -> Result<T, CellProblem>,
    ) -> Result<T, CorruptRow> {
        let index = self.next_index;
        self.next_index += 1;
        let cell = self.cells.next().unwrap_or(CellRef::Null);
        read(cell).map_err(|problem| self.corrupt_column(index, problem))
    }

    /// Reads the cell at an index of the remaining cells.
    pub(crate) fn value_at<T: FromCell>(&self, index: usize) -> Result<T, CorruptRow> {
        T::from_cell(self.cells.cell_at(index))
            .map_err(|problem| self.corrupt_column(index, problem))
    }

    /// Creates the error for the cell at an index.
    pub(crate) fn corrupt_column(&self, index: usize, problem: CellProblem) -> CorruptRow {
        let column = self.table.columns.get(index);
        CorruptRow {
            table: self.table.name,
            column: column.map_or("unknown", |(name, _)| name),
            problem,
        }
    }
}

/// A type that can be read from a row.
pub(crate) trait FromRow: Sized + Send + 'static {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow>;
}

/// A type that can be written as a row.
pub(crate) trait ToRow {
    /// Encodes the value, in the order of the table's columns.
    fn to_row(&self) -> Vec<Cell>;
}

/// Columns of a query that is not a table.
static QUERY: Table = Table {
    name: "(query)",
    columns: &[
        ("1", ColumnKind::Text),
        ("2", ColumnKind::Text),
        ("3", ColumnKind::Text),
        ("4", ColumnKind::Text),
        ("5", ColumnKind::Text),
    ],
};

macro_rules! tuples {
    ($(($($part:ident),+)),+) => {
        $(
            impl<$($part: FromCell + Send + 'static),+> FromRow for ($($part,)+) {
                fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
                    let mut row = RowReader::new(&QUERY, cells);
                    Ok(($(row.read_next::<$part>()?,)+))
                }
            }
        )+
    };
}

tuples!((A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E));

/// A field of a row, which is stored in one or more consecutive columns.
pub(crate) trait Columns: Sized {
    fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow>;

    fn write_columns(&self, cells: &mut Vec<Cell>);
}

impl<T: FromCell + ToCell> Columns for T {
    fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
        row.read_next()
    }

    fn write_columns(&self, cells: &mut Vec<Cell>) {
        cells.push(self.to_cell());
    }
}

/// Implements [`Columns`] for structs, in the order of the fields listed here. An optional struct is
/// null in all of its columns if it is missing.
macro_rules! columns {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {
        $(
            impl $crate::row::table::Columns for $name {
                fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
                    Ok(Self { $($field: $crate::row::table::Columns::read_columns(row)?),+ })
                }

                fn write_columns(&self, cells: &mut Vec<Cell>) {
                    $($crate::row::table::Columns::write_columns(&self.$field, cells);)+
                }
            }
        )+
    };
    ($(Option<$name:ident> { $first:ident, $second:ident })+) => {
        $(
            impl $crate::row::table::Columns for Option<$name> {
                fn read_columns(row: &mut RowReader<'_>) -> Result<Self, CorruptRow> {
                    let first: Option<_> = row.read_next()?;
                    let second = row.read_next::<Option<_>>()?;
                    Ok(first.zip(second).map(|($first, $second)| $name { $first, $second }))
                }

                fn write_columns(&self, cells: &mut Vec<Cell>) {
                    let first = self.as_ref().map(|it| &it.$first);
                    let second = self.as_ref().map(|it| &it.$second);
                    cells.extend($crate::row::cells![first, second]);
                }
            }
        )+
    };
}

pub(super) use columns;

/// Declares a table whose columns are the fields of a struct, which can be read from and written as
/// its rows. A field with another column name, or with several columns, lists them in parentheses.
/// The `computed` columns are written from methods and not read.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $table:ident = $name:literal: $row:ident {
            $(
                $field:ident
                $(: $kind:ident)?
                $(($($column:ident: $column_kind:ident),+ $(,)?))?
            ),+ $(,)?
        }
        $(computed { $($computed:ident: $computed_kind:ident),+ $(,)? })?
    ) => {
        $(#[$doc])*
        pub(crate) static $table: Table = Table {
            name: $name,
            columns: &[
                $(
                    $((stringify!($field), ColumnKind::$kind),)?
                    $($((stringify!($column), ColumnKind::$column_kind),)+)?
                )+
                $($((stringify!($computed), ColumnKind::$computed_kind),)+)?
            ],
        };

        impl FromRow for $row {
            fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
                let mut row = RowReader::new(&$table, cells);
                Ok(Self { $($field: $crate::row::table::Columns::read_columns(&mut row)?),+ })
            }
        }

        impl ToRow for $row {
            fn to_row(&self) -> Vec<Cell> {
                let mut cells = Vec::with_capacity($table.columns.len());
                $($crate::row::table::Columns::write_columns(&self.$field, &mut cells);)+
                $(cells.extend($crate::row::cells![$(self.$computed()),+]);)?
                cells
            }
        }
    };
}

pub(super) use table;
