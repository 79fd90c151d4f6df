//! Renders documentation pages on a terminal.
//!
//! Supports a small part of Markdown: headings, paragraphs, lists, fenced code, `code` and
//! **bold**. Other markup is printed unchanged.

use anstyle::Style;

use crate::io::ColorPaint;
use crate::render::{palette, text_layout};

/// Indentation of code.
const CODE_INDENT: &str = "    ";

/// Marks the line of an example that a diagnostic is reported for.
const LINE_POINTER: &str = "  > ";

/// Renders a page for a terminal.
pub(crate) fn render_markdown(page: &str, paint: ColorPaint) -> String {
    let mut text = String::new();
    let mut code: Option<CodeBlock> = None;
    for line in page.lines() {
        let line = text_layout::escape_control(line);
        match (&mut code, line.strip_prefix("```")) {
            (Some(_), Some(_)) => {
                code = None;
                continue;
            }
            (None, Some(info)) => {
                code = Some(CodeBlock::new(info));
                continue;
            }
            (Some(code), None) => text += &code.render_line(&line, paint),
            (None, None) => text += &render_prose(&line, paint),
        }
        text.push('\n');
    }
    text
}

/// Fenced code being rendered.
struct CodeBlock {
    /// Number of the line to mark, from 1.
    marked_line: Option<usize>,
    number: usize,
}

impl CodeBlock {
    /// Code block with the info string of its fence. `at=9:17` marks a position.
    fn new(info: &str) -> Self {
        let position = info.split_whitespace().find_map(|word| word.strip_prefix("at="));
        let line = position.and_then(|position| position.split(':').next());
        Self { marked_line: line.and_then(|line| line.parse().ok()), number: 0 }
    }

    fn render_line(&mut self, line: &str, paint: ColorPaint) -> String {
        self.number += 1;
        if self.marked_line == Some(self.number) {
            let pointer = paint.text(palette::FAILURE, LINE_POINTER);
            format!("{pointer}{}", paint.text(palette::CODE.bold(), line))
        } else {
            format!("{CODE_INDENT}{}", paint.text(palette::CODE, line))
        }
    }
}

fn render_prose(line: &str, paint: ColorPaint) -> String {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        let style = if line.starts_with("##") { palette::NAME } else { palette::NAME.underline() };
        return paint.text(style, heading.trim()).to_string();
    }
    if !paint.is_on() {
        // Without colors, the marks distinguish names from words.
        return line.to_owned();
    }
    render_inline(line, "`", palette::CODE, |rest| {
        render_inline(rest, "**", palette::NAME, str::to_owned)
    })
}

/// Renders text between two marks in a style, and the rest with `other`.
fn render_inline(line: &str, mark: &str, style: Style, other: impl Fn(&str) -> String) -> String {
    let mut rendered = String::new();
    let mut rest = line;
    while let Some((before, marked, after)) = split_marked(rest, mark) {
        rendered.push_str(&other(before));
        rendered.push_str(&format!("{style}{marked}{style:#}"));
        rest = after;
    }
    rendered.push_str(&other(rest));
    rendered
}

fn split_marked<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let (before, rest) = text.split_once(mark)?;
    let (marked, after) = rest.split_once(mark)?;
    Some((before, marked, after))
}

#[cfg(test)]
mod tests;
