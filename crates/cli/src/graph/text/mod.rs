//! A playbook drawn with letters: the tree on the left, tools and conditions in columns beside it.

mod glyphs;
mod rows;

use anstyle::Style;

use self::glyphs::{ASCII, Glyphs, UNICODE};
use self::rows::{Row, rows};
use super::flow::Flow;
use super::plan::Plan;
use crate::io::Paint;
use crate::render::{palette, words};

/// How the drawing is to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Whether colours are shown.
    pub(crate) paint: Paint,
    /// How many columns there are.
    pub(crate) width: usize,
    /// Whether to keep to ASCII.
    pub(crate) ascii: bool,
}

/// The columns of names and tools grow no wider than this.
const MAX_NAME: usize = 44;
const MAX_TOOL: usize = 30;

/// Notes stand in a column of their own where it has at least this width, else below their step.
const MIN_NOTE: usize = 30;

/// A note takes no more lines than this.
const NOTE_LINES: usize = 3;

/// Draws a playbook.
pub(crate) fn text(flow: &Flow, look: Look) -> String {
    let glyphs = if look.ascii { &ASCII } else { &UNICODE };
    let plan = Plan::new(flow);
    let rows = rows(flow, &plan, glyphs);
    let page = Page::new(&rows, look, glyphs);
    let mut text = heading(flow, &plan, look.paint, glyphs);
    for row in &rows {
        page.write(&mut text, row);
    }
    text
}

fn heading(flow: &Flow, plan: &Plan, paint: Paint, glyphs: &Glyphs) -> String {
    let mut facts = vec![words::counted(flow.steps.len(), "step")];
    for (count, noun) in [(plan.join_count(), "join"), (flow.cycles, "cycle")] {
        if count > 0 {
            facts.push(words::counted(count, noun));
        }
    }
    let name = paint
        .text(palette::NAME, words::visible(&flow.name))
        .to_string();
    let facts = paint
        .text(palette::QUIET, facts.join(glyphs.and))
        .to_string();
    format!("{name}{}{facts}\n\n", glyphs.and)
}

/// The widths of the columns.
struct Page<'g> {
    look: Look,
    glyphs: &'g Glyphs,
    name: usize,
    tool: usize,
}

impl<'g> Page<'g> {
    fn new(rows: &[Row], look: Look, glyphs: &'g Glyphs) -> Self {
        let leads = rows.iter().map(Row::lead_width);
        // A name that is far too long is left to stick out, lest it push all others apart.
        let name = leads.filter(|width| *width <= MAX_NAME).max().unwrap_or(0);
        let tools = rows.iter().map(|row| words::columns(&row.tool));
        let tool = tools.max().unwrap_or(0).min(MAX_TOOL);
        Self {
            look,
            glyphs,
            name,
            tool,
        }
    }

    /// How many columns are left for notes; `None` where too few are.
    fn note_column(&self) -> Option<usize> {
        let left = self
            .look
            .width
            .checked_sub(self.name + self.tool + 2 * GAP.len())?;
        (left >= MIN_NOTE).then_some(left)
    }

    fn write(&self, text: &mut String, row: &Row) {
        let mut line = Line::new(self.look.paint);
        for piece in &row.lead {
            line.push(piece.style, &piece.text);
        }
        if !row.tool.is_empty() {
            line.pad(self.name);
            line.push(
                palette::QUIET,
                &words::shorten(&row.tool, self.tool, self.glyphs.ellipsis),
            );
        }
        match self.note_column() {
            Some(width) => self.notes_beside(text, row, line, width),
            None => self.notes_below(text, row, line),
        }
    }

    /// Writes notes into their column, beginning on the line of their step.
    fn notes_beside(&self, text: &mut String, row: &Row, mut line: Line, width: usize) {
        let column = self.name + GAP.len() + self.tool;
        if line.width > column && !row.notes.is_empty() {
            // A name that sticks out of its column would push its notes off the page.
            line.end(text);
            line = self.tail(row);
        }
        for note in &row.notes {
            for part in words::wrap(&note.text, width, NOTE_LINES, self.glyphs.ellipsis) {
                line.pad(column);
                line.push(note.style, &part);
                line.end(text);
                line = self.tail(row);
            }
        }
        if row.notes.is_empty() {
            line.end(text);
        }
    }

    /// Writes notes on lines of their own.
    fn notes_below(&self, text: &mut String, row: &Row, line: Line) {
        if !row.is_line() || row.notes.is_empty() {
            line.end(text);
        }
        let indent = words::columns(&row.tail) + GAP.len();
        let room = self
            .look
            .width
            .saturating_sub(indent + GAP.len())
            .max(MIN_NOTE / 2);
        for note in &row.notes {
            for part in words::wrap(&note.text, room, NOTE_LINES, self.glyphs.ellipsis) {
                let mut line = self.tail(row);
                line.pad(indent);
                line.push(note.style, &part);
                line.end(text);
            }
        }
    }

    /// The beginning of a line that continues a row.
    fn tail(&self, row: &Row) -> Line {
        let mut line = Line::new(self.look.paint);
        line.push(palette::QUIET, &row.tail);
        line
    }
}

/// What stands between two columns.
const GAP: &str = "  ";

/// A line that is being written.
struct Line {
    paint: Paint,
    text: String,
    /// How many columns it takes, colours not counted.
    width: usize,
}

impl Line {
    fn new(paint: Paint) -> Self {
        Self {
            paint,
            text: String::new(),
            width: 0,
        }
    }

    fn push(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            self.text += &self.paint.text(style, text).to_string();
            self.width += words::columns(text);
        }
    }

    /// Fills up to a column and the gap behind it.
    fn pad(&mut self, column: usize) {
        let blanks = column.saturating_sub(self.width) + GAP.len();
        self.text.extend(std::iter::repeat_n(' ', blanks));
        self.width += blanks;
    }

    fn end(self, text: &mut String) {
        *text += self.text.trim_end();
        text.push('\n');
    }
}
