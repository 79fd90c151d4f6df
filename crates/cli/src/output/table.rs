//! Tables of text.

use std::fmt::Display;

use anstyle::Style;

use crate::io::{ColorPaint, OutputStream};
use crate::render::palette;
use crate::render::text_layout::{display_width, escape_control, truncate_to_width};

/// Cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    /// Cell with styled text.
    pub(crate) fn styled(text: impl Display, style: Style) -> Self {
        Self { text: escape_control(&text.to_string()), style }
    }

    /// Cell with a text, or a dash.
    pub(crate) fn or_dash(text: Option<impl Display>) -> Self {
        text.map_or_else(|| Self::from("-"), Self::from)
    }
}

impl<T: Display> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Column of a table, with a cell for each row.
#[derive(Debug)]
struct TableColumn {
    name: &'static str,
    layout: ColumnLayout,
    cells: Vec<TableCell>,
}

/// Properties of a column.
#[derive(Debug, Clone, Copy, Default)]
struct ColumnLayout {
    /// Shown only in the wide format.
    is_wide_only: bool,
    is_right_aligned: bool,
    /// Can be shortened on a narrow terminal.
    is_shrinkable: bool,
}

/// Table with a row for each item. Columns are added one by one, with the cell of an item.
#[derive(Debug)]
pub(crate) struct TextTable<'t, T> {
    items: &'t [T],
    columns: Vec<TableColumn>,
}

/// Declares the methods that add a column, and the properties of the column.
macro_rules! column_kinds {
    ($($(#[$doc:meta])* $name:ident { $($property:ident)* })+) => {
        impl<'t, T> TextTable<'t, T> {$(
            $(#[$doc])*
            pub(crate) fn $name<C: Into<TableCell>>(
                self,
                name: &'static str,
                cell: impl Fn(&'t T) -> C,
            ) -> Self {
                let layout = ColumnLayout { $($property: true,)* ..ColumnLayout::default() };
                self.add(name, layout, cell)
            }
        )+}
    };
}

column_kinds! {
    /// Adds a column.
    column {}
    /// Adds a column that can be shortened on a narrow terminal.
    shrinkable { is_shrinkable }
    /// Adds a column with cells aligned to the right.
    right { is_right_aligned }
    /// Adds a column that only the wide format shows.
    wide { is_wide_only }
    /// Adds a column with cells aligned to the right that only the wide format shows.
    wide_right { is_wide_only is_right_aligned }
}

/// Minimum width of a shortened cell, and the gap between columns.
const MIN_CELL_WIDTH: usize = 8;
const COLUMN_GAP: &str = "  ";

impl<'t, T> TextTable<'t, T> {
    /// Table without columns.
    pub(crate) fn new(items: &'t [T]) -> Self {
        Self { items, columns: Vec::new() }
    }

    fn add<C: Into<TableCell>>(
        mut self,
        name: &'static str,
        layout: ColumnLayout,
        cell: impl Fn(&'t T) -> C,
    ) -> Self {
        let cells = self.items.iter().map(|item| cell(item).into()).collect();
        self.columns.push(TableColumn { name, layout, cells });
        self
    }

    /// Renders the table. On a terminal that is too narrow, shrinkable columns are shortened. Files
    /// and pipes receive the full text.
    pub(crate) fn render_table(
        &self,
        is_wide: bool,
        has_headers: bool,
        stream: &OutputStream<'_>,
    ) -> String {
        let visible = self.columns.iter().filter(|column| is_wide || !column.layout.is_wide_only);
        let columns: Vec<&TableColumn> = visible.collect();
        let widths = column_widths(&columns, has_headers, stream);
        let mut text = String::new();
        if has_headers {
            let header = |column: &&TableColumn| TableCell::styled(column.name, palette::MUTED);
            let headers: Vec<TableCell> = columns.iter().map(header).collect();
            write_line(&mut text, &columns, &widths, headers.iter(), stream.paint());
        }
        for row in 0..self.items.len() {
            let cells = columns.iter().map(|column| &column.cells[row]);
            write_line(&mut text, &columns, &widths, cells, stream.paint());
        }
        text
    }
}

fn column_widths(
    columns: &[&TableColumn],
    has_headers: bool,
    stream: &OutputStream<'_>,
) -> Vec<usize> {
    let widest = |column: &&TableColumn| {
        let header = if has_headers { display_width(column.name) } else { 0 };
        column.cells.iter().map(|cell| display_width(&cell.text)).fold(header, usize::max)
    };
    let mut widths: Vec<usize> = columns.iter().map(widest).collect();
    if !stream.is_terminal() {
        return widths;
    }
    loop {
        let gaps = COLUMN_GAP.len() * columns.len().saturating_sub(1);
        let total = widths.iter().sum::<usize>() + gaps;
        let Some(excess) = total.checked_sub(stream.width()).filter(|excess| *excess > 0) else {
            return widths;
        };
        let shrinkable = (0..columns.len())
            .filter(|at| columns[*at].layout.is_shrinkable && widths[*at] > MIN_CELL_WIDTH);
        let Some(widest) = shrinkable.max_by_key(|at| widths[*at]) else {
            return widths;
        };
        // Shortens the widest column first, and no more than needed.
        widths[widest] = widths[widest].saturating_sub(excess.min(4)).max(MIN_CELL_WIDTH);
    }
}

/// Writes one line of cells.
fn write_line<'c>(
    text: &mut String,
    columns: &[&TableColumn],
    widths: &[usize],
    cells: impl Iterator<Item = &'c TableCell>,
    paint: ColorPaint,
) {
    let last = columns.len().saturating_sub(1);
    for (index, cell) in cells.enumerate() {
        let shortened = truncate_to_width(&cell.text, widths[index], "…");
        let blanks = " ".repeat(widths[index].saturating_sub(display_width(&shortened)));
        let painted = paint.text(cell.style, &shortened).to_string();
        if columns[index].layout.is_right_aligned {
            text.push_str(&blanks);
            text.push_str(&painted);
        } else {
            text.push_str(&painted);
            text.push_str(if index == last { "" } else { &blanks });
        }
        if index != last {
            text.push_str(COLUMN_GAP);
        }
    }
    let end = text.trim_end_matches(' ').len();
    text.truncate(end);
    text.push('\n');
}

#[cfg(test)]
mod tests;
