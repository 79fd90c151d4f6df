//! A few narrow rows as parameters: one array for each column.

use tokio_postgres::types::ToSql;

use crate::row::{Cell, Kind};

/// The columns of a block of rows.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    name: &'static str,
    kind: Kind,
}

impl Shape {
    pub(super) fn new(groups: &[&[(&'static str, Kind)]]) -> Self {
        let columns = groups.iter().copied().flatten();
        Self {
            columns: columns
                .map(|(name, kind)| Column { name, kind: *kind })
                .collect(),
        }
    }

    /// The block as a subquery whose parameters begin behind `used`, which it moves on.
    pub(super) fn unnest(&self, used: &mut usize) -> String {
        let mut outputs = Vec::new();
        let mut names = Vec::new();
        let mut arrays = Vec::new();
        for Column { name, kind } in &self.columns {
            *used += 1;
            arrays.push(format!("${used}::{}[]", type_of(*kind)));
            names.push(*name);
            outputs.push(match kind {
                Kind::Json => format!("{name}::json AS {name}"),
                Kind::Bool | Kind::Int | Kind::Float | Kind::Text | Kind::Bytes | Kind::Time => {
                    (*name).to_owned()
                }
            });
        }
        format!(
            "SELECT {} FROM unnest({}) AS block({})",
            outputs.join(", "),
            arrays.join(", "),
            names.join(", ")
        )
    }

    /// An empty block.
    pub(super) fn block(&self) -> Block {
        Block {
            columns: self.columns.iter().map(|_| Vec::new()).collect(),
        }
    }
}

/// JSON is sent as text, since a cast checks it as well and an array of text is simple.
pub(super) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "boolean",
        Kind::Int => "bigint",
        Kind::Float => "double precision",
        Kind::Text | Kind::Json => "text",
        Kind::Bytes => "bytea",
        Kind::Time => "timestamptz",
    }
}

/// Rows, column by column.
#[derive(Debug)]
pub(super) struct Block {
    columns: Vec<Vec<Cell>>,
}

impl Block {
    /// Adds a row. A clone of a cell is a number or a reference count.
    pub(super) fn push<'c>(&mut self, cells: impl IntoIterator<Item = &'c Cell>) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell.clone());
        }
    }

    pub(super) fn params(&self) -> impl Iterator<Item = &(dyn ToSql + Sync)> {
        let columns = self.columns.iter();
        columns.map(|column| column as &(dyn ToSql + Sync))
    }
}
