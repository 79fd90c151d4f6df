//! Rows in columns.

use anstyle::Style;

use crate::io::{Paint, Stream};
use crate::render::palette;
use crate::render::words::{columns, shorten, visible};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    is_wide: bool,
    is_right: bool,
    gives_way: bool,
}

impl Column {
    /// A column that is always shown.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            is_wide: false,
            is_right: false,
            gives_way: false,
        }
    }

    fn header(self) -> Cell {
        Cell {
            text: self.name.to_owned(),
            style: palette::QUIET,
        }
    }

    /// The same, only where there are more columns.
    pub(crate) const fn wide(mut self) -> Self {
        self.is_wide = true;
        self
    }

    /// The same with its cells on the right.
    pub(crate) const fn right(mut self) -> Self {
        self.is_right = true;
        self
    }

    /// The same, shortened where a terminal has no room for it.
    pub(crate) const fn gives_way(mut self) -> Self {
        self.gives_way = true;
        self
    }
}

/// What stands in a row and a column.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self {
            text: visible(text.as_ref()),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows in columns.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Columns that a cell keeps, however narrow the terminal is.
const MIN_CELL: usize = 8;
const GAP: &str = "  ";

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each column, also for those that may not be shown.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes it out. Where it is wider than a terminal, the columns that give way are shortened;
    /// in a file or a pipe nothing is.
    pub(crate) fn render(&self, is_wide: bool, has_headers: bool, stream: &Stream<'_>) -> String {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|at| is_wide || !self.columns[*at].is_wide)
            .collect();
        let widths = self.widths(&shown, has_headers, stream);
        let mut text = String::new();
        let headers: Vec<Cell> = shown.iter().map(|at| self.columns[*at].header()).collect();
        let headers: Vec<&Cell> = headers.iter().collect();
        let rows = self.rows.iter().map(|row| {
            let cells = shown.iter().filter_map(|at| row.get(*at));
            cells.collect::<Vec<&Cell>>()
        });
        for cells in has_headers.then_some(headers).into_iter().chain(rows) {
            let placed = shown.iter().zip(&widths).zip(cells);
            let placed = placed.map(|((at, width), cell)| (self.columns[*at], *width, cell));
            line(&mut text, &placed.collect::<Vec<_>>(), stream.paint());
        }
        text
    }

    fn widths(&self, shown: &[usize], has_headers: bool, stream: &Stream<'_>) -> Vec<usize> {
        let widest = |at: &usize| {
            let header = if has_headers {
                columns(self.columns[*at].name)
            } else {
                0
            };
            let cells = self.rows.iter().filter_map(|row| row.get(*at));
            cells
                .map(|cell| columns(&cell.text))
                .fold(header, usize::max)
        };
        let mut widths: Vec<usize> = shown.iter().map(widest).collect();
        if !stream.is_terminal() {
            return widths;
        }
        loop {
            let gaps = GAP.len() * shown.len().saturating_sub(1);
            let total = widths.iter().sum::<usize>() + gaps;
            let Some(over) = total.checked_sub(stream.width()).filter(|over| *over > 0) else {
                return widths;
            };
            let giving = (0..shown.len())
                .filter(|at| self.columns[shown[*at]].gives_way && widths[*at] > MIN_CELL);
            let Some(widest) = giving.max_by_key(|at| widths[*at]) else {
                return widths;
            };
            // The widest gives way first, and no further than it must.
            widths[widest] = widths[widest].saturating_sub(over.min(4)).max(MIN_CELL);
        }
    }
}

/// Writes one line: each cell with its column and the width of that.
fn line(text: &mut String, cells: &[(Column, usize, &Cell)], paint: Paint) {
    let last = cells.len().saturating_sub(1);
    for (place, (column, width, cell)) in cells.iter().enumerate() {
        let shortened = shorten(&cell.text, *width, "…");
        let blanks = " ".repeat(width.saturating_sub(columns(&shortened)));
        let painted = paint.text(cell.style, &shortened).to_string();
        let (before, after) = if column.is_right {
            (blanks.as_str(), "")
        } else {
            ("", blanks.as_str())
        };
        text.push_str(before);
        text.push_str(&painted);
        if place != last {
            text.push_str(after);
            text.push_str(GAP);
        }
    }
    let end = text.trim_end_matches(' ').len();
    text.truncate(end);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::new("NAME").gives_way(),
            Column::new("N").right(),
            Column::new("MORE").wide(),
        ]);
        table.row(["a".into(), "1".into(), "x".into()]);
        table.row([
            "a name that is rather long, for a name".into(),
            "12".into(),
            "y".into(),
        ]);
        table
    }

    #[test]
    fn columns_are_lined_up_and_give_way_on_a_terminal() {
        let mut out = Vec::new();
        let piped = Stream::plain(&mut out);
        insta::assert_snapshot!(table().render(true, true, &piped), @r"
        NAME                                     N  MORE
        a                                        1  x
        a name that is rather long, for a name  12  y
        ");
        insta::assert_snapshot!(table().render(false, false, &piped), @r"
        a                                        1
        a name that is rather long, for a name  12
        ");
        let mut out = Vec::new();
        let narrow = Stream::terminal(&mut out, 40);
        let text = anstream::adapter::strip_str(&table().render(true, true, &narrow)).to_string();
        assert!(text.lines().all(|line| columns(line) <= 40), "{text}");
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let mut table = Table::new([Column::new("A")]);
        table.row([Cell::from("x\u{1b}[2J")]);
        let mut out = Vec::new();
        let text = table.render(false, false, &Stream::plain(&mut out));
        assert_eq!(text, "x\\u{1b}[2J\n");
    }
}
