//! Tables of text.

use anstyle::Style;

use crate::io::{ColorPaint, OutputStream};
use crate::render::palette;
use crate::render::text_layout::{display_width, escape_control, truncate_to_width};

/// Column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableColumn {
    name: &'static str,
    is_wide_only: bool,
    is_right_aligned: bool,
    is_shrinkable: bool,
}

impl TableColumn {
    /// Column that is always shown.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, is_wide_only: false, is_right_aligned: false, is_shrinkable: false }
    }

    fn header(self) -> TableCell {
        TableCell { text: self.name.to_owned(), style: palette::MUTED }
    }

    /// Shows the column only in the wide format.
    pub(crate) const fn wide_only(mut self) -> Self {
        self.is_wide_only = true;
        self
    }

    /// Aligns the cells to the right.
    pub(crate) const fn align_right(mut self) -> Self {
        self.is_right_aligned = true;
        self
    }

    /// Allows shortening the column on a narrow terminal.
    pub(crate) const fn shrinkable(mut self) -> Self {
        self.is_shrinkable = true;
        self
    }
}

/// Cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    /// Cell with styled text.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: escape_control(text.as_ref()), style }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TextTable {
    columns: Vec<TableColumn>,
    rows: Vec<Vec<TableCell>>,
}

/// Minimum width of a shortened cell, and the gap between columns.
const MIN_CELL_WIDTH: usize = 8;
const COLUMN_GAP: &str = "  ";

impl TextTable {
    /// Table without rows.
    pub(crate) fn new(columns: impl IntoIterator<Item = TableColumn>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column, including wide ones.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the table. On a terminal that is too narrow, shrinkable columns are shortened. Files
    /// and pipes receive the full text.
    pub(crate) fn render_table(
        &self,
        is_wide: bool,
        has_headers: bool,
        stream: &OutputStream<'_>,
    ) -> String {
        let visible_columns: Vec<usize> = (0..self.columns.len())
            .filter(|column| is_wide || !self.columns[*column].is_wide_only)
            .collect();
        let widths = self.column_widths(&visible_columns, has_headers, stream);
        let mut text = String::new();
        let headers: Vec<TableCell> =
            visible_columns.iter().map(|column| self.columns[*column].header()).collect();
        let headers: Vec<&TableCell> = headers.iter().collect();
        let rows = self.rows.iter().map(|row| {
            let cells = visible_columns.iter().filter_map(|column| row.get(*column));
            cells.collect::<Vec<&TableCell>>()
        });
        for cells in has_headers.then_some(headers).into_iter().chain(rows) {
            let placed = visible_columns.iter().zip(&widths).zip(cells);
            let placed =
                placed.map(|((column, width), cell)| (self.columns[*column], *width, cell));
            write_line(&mut text, &placed.collect::<Vec<_>>(), stream.paint());
        }
        text
    }

    fn column_widths(
        &self,
        visible_columns: &[usize],
        has_headers: bool,
        stream: &OutputStream<'_>,
    ) -> Vec<usize> {
        let widest = |at: &usize| {
            let header = if has_headers { display_width(self.columns[*at].name) } else { 0 };
            let cells = self.rows.iter().filter_map(|row| row.get(*at));
            cells.map(|cell| display_width(&cell.text)).fold(header, usize::max)
        };
        let mut widths: Vec<usize> = visible_columns.iter().map(widest).collect();
        if !stream.is_terminal() {
            return widths;
        }
        loop {
            let gaps = COLUMN_GAP.len() * visible_columns.len().saturating_sub(1);
            let total = widths.iter().sum::<usize>() + gaps;
            let Some(excess) = total.checked_sub(stream.width()).filter(|excess| *excess > 0)
            else {
                return widths;
            };
            let shrinkable = (0..visible_columns.len()).filter(|at| {
                self.columns[visible_columns[*at]].is_shrinkable && widths[*at] > MIN_CELL_WIDTH
            });
            let Some(widest) = shrinkable.max_by_key(|at| widths[*at]) else {
                return widths;
            };
            // Shortens the widest column first, and no more than needed.
            widths[widest] = widths[widest].saturating_sub(excess.min(4)).max(MIN_CELL_WIDTH);
        }
    }
}

/// Writes one line of cells with their columns and widths.
fn write_line(text: &mut String, cells: &[(TableColumn, usize, &TableCell)], paint: ColorPaint) {
    let last = cells.len().saturating_sub(1);
    for (index, (column, width, cell)) in cells.iter().enumerate() {
        let shortened = truncate_to_width(&cell.text, *width, "…");
        let blanks = " ".repeat(width.saturating_sub(display_width(&shortened)));
        let painted = paint.text(cell.style, &shortened).to_string();
        let (before, after) =
            if column.is_right_aligned { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
        text.push_str(before);
        text.push_str(&painted);
        if index != last {
            text.push_str(after);
            text.push_str(COLUMN_GAP);
        }
    }
    let end = text.trim_end_matches(' ').len();
    text.truncate(end);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_table() -> TextTable {
        let mut table = TextTable::new([
            TableColumn::new("NAME").shrinkable(),
            TableColumn::new("N").align_right(),
            TableColumn::new("MORE").wide_only(),
        ]);
        table.add_row(["a".into(), "1".into(), "x".into()]);
        table.add_row(["a name that is rather long, for a name".into(), "12".into(), "y".into()]);
        table
    }

    #[test]
    fn columns_align_and_shrink_on_terminal() {
        let mut out = Vec::new();
        let piped = OutputStream::plain(&mut out);
        insta::assert_snapshot!(sample_table().render_table(true, true, &piped), @r"
        NAME                                     N  MORE
        a                                        1  x
        a name that is rather long, for a name  12  y
        ");
        insta::assert_snapshot!(sample_table().render_table(false, false, &piped), @r"
        a                                        1
        a name that is rather long, for a name  12
        ");
        let mut out = Vec::new();
        let narrow = OutputStream::terminal(&mut out, 40);
        let text = anstream::adapter::strip_str(&sample_table().render_table(true, true, &narrow))
            .to_string();
        assert!(text.lines().all(|line| display_width(line) <= 40), "{text}");
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn cell_control_characters_are_escaped() {
        let mut table = TextTable::new([TableColumn::new("A")]);
        table.add_row([TableCell::from("x\u{1b}[2J")]);
        let mut out = Vec::new();
        let text = table.render_table(false, false, &OutputStream::plain(&mut out));
        assert_eq!(text, "x\\u{1b}[2J\n");
    }
}
