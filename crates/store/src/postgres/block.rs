//! Many rows as parameters: one array for each column.

use tokio_postgres::types::ToSql;

use crate::row::{Cell, Kind};

/// The columns of a block of rows.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    columns: Vec<(&'static str, Kind)>,
}

impl Shape {
    pub(super) fn new(groups: &[&[(&'static str, Kind)]]) -> Self {
        Self {
            columns: groups.concat(),
        }
    }

    /// The block as a subquery whose parameters begin behind `used`, which it moves on.
    pub(super) fn unnest(&self, used: &mut usize) -> String {
        let mut outputs = Vec::new();
        let mut names = Vec::new();
        let mut arrays = Vec::new();
        for (name, kind) in &self.columns {
            *used += 1;
            arrays.push(format!("${used}::{}[]", array_of(*kind)));
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
            columns: vec![Vec::new(); self.columns.len()],
        }
    }
}

/// JSON is sent as text, since a cast checks it as well and an array of text is simple.
fn array_of(kind: Kind) -> &'static str {
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
    pub(super) fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell);
        }
    }

    pub(super) fn params(&self) -> impl Iterator<Item = &(dyn ToSql + Sync)> {
        self.columns
            .iter()
            .map(|column| column as &(dyn ToSql + Sync))
    }
}
