//! Passes a few narrow rows as parameters: one array per column.

use tokio_postgres::types::ToSql;

use crate::row::{Cell, ColumnKind};

/// Columns of a block of rows.
#[derive(Debug, Clone)]
pub(crate) struct BlockShape {
    columns: Vec<(&'static str, ColumnKind)>,
}

impl BlockShape {
    pub(crate) fn new(groups: &[&[(&'static str, ColumnKind)]]) -> Self {
        Self { columns: groups.concat() }
    }

    /// Returns the block as a subquery. Its parameters start after number `used`, which is
    /// advanced.
    pub(crate) fn unnest_sql(&self, used: &mut usize) -> String {
        let mut outputs = Vec::new();
        let mut names = Vec::new();
        let mut arrays = Vec::new();
        for (name, kind) in &self.columns {
            *used += 1;
            arrays.push(format!("${used}::{}[]", sql_type(*kind)));
            names.push(*name);
            let is_json = *kind == ColumnKind::Json;
            outputs.push(if is_json {
                format!("{name}::json AS {name}")
            } else {
                (*name).to_owned()
            });
        }
        format!(
            "SELECT {} FROM unnest({}) AS block({})",
            outputs.join(", "),
            arrays.join(", "),
            names.join(", ")
        )
    }

    /// Returns an empty block with these columns.
    pub(super) fn empty_block(&self) -> ColumnBlock {
        ColumnBlock { columns: self.columns.iter().map(|_| Vec::new()).collect() }
    }
}

/// Returns the SQL type of a parameter. JSON is sent as text, since the cast validates it and
/// arrays of text are simple.
pub(super) fn sql_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Bool => "boolean",
        ColumnKind::Int => "bigint",
        ColumnKind::Float => "double precision",
        ColumnKind::Text | ColumnKind::Json => "text",
        ColumnKind::Bytes => "bytea",
        ColumnKind::Time => "timestamptz",
    }
}

/// Rows, stored column by column.
#[derive(Debug)]
pub(super) struct ColumnBlock {
    columns: Vec<Vec<Cell>>,
}

impl ColumnBlock {
    /// Adds a row. Cloning a cell is cheap: it copies a number or increments a reference count.
    pub(super) fn push<'c>(&mut self, cells: impl IntoIterator<Item = &'c Cell>) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell.clone());
        }
    }

    pub(super) fn as_params(&self) -> impl Iterator<Item = &(dyn ToSql + Sync)> {
        let columns = self.columns.iter();
        columns.map(|column| column as &(dyn ToSql + Sync))
    }
}
