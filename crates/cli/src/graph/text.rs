//! Draws a playbook as text: a tree on the left, with tools and conditions in columns.

use anstyle::Style;

use super::flow::FlowGraph;
use super::plan::DrawingPlan;
use super::rows::{DrawingRow, build_rows};
use crate::io::ColorPaint;
use crate::render::{palette, text_layout};

/// Options of the drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawOptions {
    /// Color support.
    pub(crate) paint: ColorPaint,
    /// Width in columns.
    pub(crate) width: usize,
    /// Uses only ASCII characters.
    pub(crate) ascii: bool,
}

/// Maximum widths of the name and tool columns.
const MAX_NAME_WIDTH: usize = 44;
const MAX_TOOL_WIDTH: usize = 30;

/// Minimum width of the note column. If it would be narrower, notes are written below their step.
const MIN_NOTE_WIDTH: usize = 30;

/// Maximum lines of a note.
const MAX_NOTE_LINES: usize = 3;

/// Characters of a text drawing.
#[derive(Debug)]
pub(super) struct Glyphs {
    pub(super) step: &'static str,
    /// A step with a loop.
    pub(super) looping: &'static str,
    /// The final step.
    pub(super) final_step: &'static str,
    /// An unreachable step.
    pub(super) unreachable: &'static str,
    /// Vertical line.
    pub(super) down: &'static str,
    /// Branch with more below it.
    pub(super) tee: &'static str,
    /// Last branch.
    pub(super) corner: &'static str,
    /// Arc to a step drawn elsewhere.
    pub(super) to: &'static str,
    /// Arc back to a step above.
    pub(super) back: &'static str,
    /// Arc to failure.
    pub(super) fail: &'static str,
    /// Between the tasks of a pipeline.
    pub(super) then: &'static str,
    /// Before the number of equal tasks.
    pub(super) times: &'static str,
    /// Between facts.
    pub(super) separator: &'static str,
    /// End of shortened text.
    pub(super) ellipsis: &'static str,
}

const UNICODE_GLYPHS: Glyphs = Glyphs {
    step: "●",
    looping: "⟳",
    final_step: "■",
    unreachable: "○",
    down: "│",
    tee: "├─",
    corner: "╰─",
    to: "→ ",
    back: "↩ ",
    fail: "✗ ",
    then: " → ",
    times: " ×",
    separator: " · ",
    ellipsis: "…",
};

const ASCII_GLYPHS: Glyphs = Glyphs {
    step: "*",
    looping: "@",
    final_step: "#",
    unreachable: "o",
    down: "|",
    tee: "|-",
    corner: "`-",
    to: "> ",
    back: "^ ",
    fail: "! ",
    then: " > ",
    times: " x",
    separator: " - ",
    ellipsis: "...",
};

/// Draws a playbook as text.
pub(crate) fn draw_text(flow: &FlowGraph, options: DrawOptions) -> String {
    let glyphs = if options.ascii { &ASCII_GLYPHS } else { &UNICODE_GLYPHS };
    let plan = DrawingPlan::new(flow);
    let rows = build_rows(flow, &plan, glyphs);
    let page = DrawingPage::new(&rows, options, glyphs);
    let mut text = drawing_heading(flow, &plan, options.paint, glyphs);
    for row in &rows {
        page.write_row(&mut text, row);
    }
    text
}

fn drawing_heading(
    flow: &FlowGraph,
    plan: &DrawingPlan,
    paint: ColorPaint,
    glyphs: &Glyphs,
) -> String {
    let mut counts = vec![text_layout::pluralize(flow.steps.len(), "step")];
    for (count, noun) in [(plan.join_count(), "join"), (flow.cycles, "cycle")] {
        if count > 0 {
            counts.push(text_layout::pluralize(count, noun));
        }
    }
    let name = paint.text(palette::NAME, text_layout::escape_control(&flow.name)).to_string();
    let counts = paint.text(palette::MUTED, counts.join(glyphs.separator)).to_string();
    format!("{name}{}{counts}\n\n", glyphs.separator)
}

/// Layout of the columns.
struct DrawingPage<'g> {
    options: DrawOptions,
    glyphs: &'g Glyphs,
    name_width: usize,
    tool_width: usize,
}

impl<'g> DrawingPage<'g> {
    fn new(rows: &[DrawingRow], options: DrawOptions, glyphs: &'g Glyphs) -> Self {
        let leads = rows.iter().map(DrawingRow::lead_width);
        // A name that is too long sticks out instead of widening the column for all.
        let name_width = leads.filter(|width| *width <= MAX_NAME_WIDTH).max().unwrap_or(0);
        let tools = rows.iter().map(|row| text_layout::display_width(&row.tool));
        let tool_width = tools.max().unwrap_or(0).min(MAX_TOOL_WIDTH);
        Self { options, glyphs, name_width, tool_width }
    }

    /// Width available for notes. `None` if there is too little.
    fn note_column(&self) -> Option<usize> {
        let available = self
            .options
            .width
            .checked_sub(self.name_width + self.tool_width + 2 * COLUMN_GAP.len())?;
        (available >= MIN_NOTE_WIDTH).then_some(available)
    }

    fn write_row(&self, text: &mut String, row: &DrawingRow) {
        let mut line = StyledLine::new(self.options.paint);
        for piece in &row.lead {
            line.push_styled(piece.style, &piece.text);
        }
        if !row.tool.is_empty() {
            line.pad_to_column(self.name_width);
            line.push_styled(
                palette::MUTED,
                &text_layout::truncate_to_width(&row.tool, self.tool_width, self.glyphs.ellipsis),
            );
        }
        match self.note_column() {
            Some(width) => self.notes_beside(text, row, line, width),
            None => self.notes_below(text, row, line),
        }
    }

    /// Writes notes in their column, starting on the line of their step.
    fn notes_beside(
        &self,
        text: &mut String,
        row: &DrawingRow,
        mut line: StyledLine,
        width: usize,
    ) {
        let column = self.name_width + COLUMN_GAP.len() + self.tool_width;
        if line.width > column && !row.notes.is_empty() {
            // A name that sticks out of its column would push its notes off the page.
            line.write_to(text);
            line = self.continuation_line(row);
        }
        for note in &row.notes {
            for part in
                text_layout::wrap_text(&note.text, width, MAX_NOTE_LINES, self.glyphs.ellipsis)
            {
                line.pad_to_column(column);
                line.push_styled(note.style, &part);
                line.write_to(text);
                line = self.continuation_line(row);
            }
        }
        if row.notes.is_empty() {
            line.write_to(text);
        }
    }

    /// Writes notes on separate lines.
    fn notes_below(&self, text: &mut String, row: &DrawingRow, line: StyledLine) {
        if !row.is_tree_line() || row.notes.is_empty() {
            line.write_to(text);
        }
        let indent = text_layout::display_width(&row.tail) + COLUMN_GAP.len();
        let available =
            self.options.width.saturating_sub(indent + COLUMN_GAP.len()).max(MIN_NOTE_WIDTH / 2);
        for note in &row.notes {
            for part in
                text_layout::wrap_text(&note.text, available, MAX_NOTE_LINES, self.glyphs.ellipsis)
            {
                let mut line = self.continuation_line(row);
                line.pad_to_column(indent);
                line.push_styled(note.style, &part);
                line.write_to(text);
            }
        }
    }

    /// Start of a continuation line of a row.
    fn continuation_line(&self, row: &DrawingRow) -> StyledLine {
        let mut line = StyledLine::new(self.options.paint);
        line.push_styled(palette::MUTED, &row.tail);
        line
    }
}

/// Gap between columns.
const COLUMN_GAP: &str = "  ";

/// Line being written.
struct StyledLine {
    paint: ColorPaint,
    text: String,
    /// Width in columns, without escape codes.
    width: usize,
}

impl StyledLine {
    fn new(paint: ColorPaint) -> Self {
        Self { paint, text: String::new(), width: 0 }
    }

    fn push_styled(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            self.text += &self.paint.text(style, text).to_string();
            self.width += text_layout::display_width(text);
        }
    }

    /// Pads to a column and the gap after it.
    fn pad_to_column(&mut self, column: usize) {
        let blanks = column.saturating_sub(self.width) + COLUMN_GAP.len();
        self.text.extend(std::iter::repeat_n(' ', blanks));
        self.width += blanks;
    }

    fn write_to(self, text: &mut String) {
        *text += self.text.trim_end();
        text.push('\n');
    }
}
