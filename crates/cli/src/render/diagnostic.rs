//! Renders diagnostics and failures with the source line.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use noetl_playbook::source::{DocumentText, Span};
use noetl_playbook::{Diagnostic, Severity};

use crate::io::OutputStream;
use crate::render::text_layout;

/// Renders a diagnostic about a file for an output stream.
pub(crate) fn render_diagnostic(
    file: &str,
    text: &str,
    diagnostic: &Diagnostic,
    stream: &OutputStream<'_>,
) -> String {
    let renderer = if stream.paint().is_on() { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(stream.width());
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let path = text_layout::escape_control(file);
    let excerpt = SourceExcerpt::new(text, diagnostic);
    let snippet = Snippet::source(&*excerpt.text)
        .path(&path)
        .line_start(excerpt.number)
        .annotation(AnnotationKind::Visible.span(0..0))
        .annotation(AnnotationKind::Primary.span(excerpt.marked.clone()));
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code.as_str());
    let mut report = vec![title.element(snippet)];
    if let Some(hint) = &diagnostic.hint {
        report.push(Group::with_title(Level::HELP.secondary_title(hint)));
    }
    let rendered = renderer.render(&report);
    match excerpt.column {
        None => rendered,
        // The renderer counts columns from the start of the excerpt.
        Some(column) => rendered.replacen(
            &format!("{path}:{}:{column}\n", diagnostic.line),
            &format!("{path}:{}:{}\n", diagnostic.line, diagnostic.column),
            1,
        ),
    }
}

/// Failure of a run.
#[derive(Debug)]
pub(crate) struct RunFailure<'f> {
    pub(crate) kind: &'f str,
    /// Message, possibly with several lines.
    pub(crate) message: &'f str,
    /// Position in the playbook, if known.
    pub(crate) span: Option<Span>,
    /// Additional notes.
    pub(crate) notes: &'f [String],
}

/// Maximum lines of a message. The last lines of a traceback are the relevant ones.
const MAX_MESSAGE_LINES: usize = 20;

/// Renders a failure with the playbook line that caused it.
pub(crate) fn render_failure(
    file: &str,
    text: &str,
    failure: &RunFailure<'_>,
    stream: &OutputStream<'_>,
) -> String {
    let renderer = if stream.paint().is_on() { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(stream.width());
    let (title, other_lines) = split_message(failure.message);
    let path = text_layout::escape_control(file);
    let excerpt = failure.span.map(|span| {
        let line = DocumentText::new(text).position(span.start).line;
        SourceExcerpt::at_span(text, span, line as usize)
    });
    let snippet = excerpt.as_ref().map(|excerpt| {
        Snippet::source(&*excerpt.text)
            .path(&path)
            .line_start(excerpt.number)
            .annotation(AnnotationKind::Primary.span(excerpt.marked.clone()))
    });
    let title = Level::ERROR.primary_title(title).id(failure.kind);
    let mut group = match snippet {
        Some(snippet) => title.element(snippet),
        None => Group::with_title(title),
    };
    for note in other_lines.iter().chain(failure.notes) {
        group = group.element(Level::NOTE.no_name().message(note));
    }
    renderer.render(&[group])
}

/// Splits a message into its first line and the last of the other lines.
fn split_message(message: &str) -> (String, Vec<String>) {
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let Some((title, rest)) = lines.split_first() else {
        return ("no reason given".to_owned(), Vec::new());
    };
    let from = rest.len().saturating_sub(MAX_MESSAGE_LINES);
    let rest = rest[from..].iter().map(|line| text_layout::escape_control(line));
    (text_layout::escape_control(title), rest.collect())
}

/// Maximum bytes of an excerpt on each side of the marked position.
const MAX_EXCERPT_BYTES: usize = 2_000;

/// Source line of a diagnostic, with the part to underline.
///
/// The renderer gets only this excerpt. It measures all text it is given, again for each
/// diagnostic, which takes minutes for a document of one megabyte on a single line. If a span
/// covers several lines, only the first is shown.
struct SourceExcerpt<'t> {
    text: Cow<'t, str>,
    /// Number of the first line.
    number: usize,
    /// Byte range to underline.
    marked: Range<usize>,
    /// Column of the range in the excerpt, if it differs from the column in the line.
    column: Option<usize>,
}

impl<'t> SourceExcerpt<'t> {
    fn new(text: &'t str, diagnostic: &Diagnostic) -> Self {
        Self::at_span(text, diagnostic.span, diagnostic.line as usize)
    }

    /// Excerpt of the line with this number.
    fn at_span(text: &'t str, span: Span, number: usize) -> Self {
        let start = text.floor_char_boundary(span.start as usize);
        let end = text.floor_char_boundary(span.end as usize).max(start);
        let first = line_start_offset(text, start);
        let last = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let last = start + text[start..last].trim_end_matches('\r').len();
        if text[first..last].trim().is_empty() {
            return Self::below_last_text(text, start, number);
        }
        let from = text.ceil_char_boundary(start.saturating_sub(MAX_EXCERPT_BYTES)).max(first);
        let to = text.floor_char_boundary(start + MAX_EXCERPT_BYTES).min(last);
        Self {
            text: Cow::from(&text[from..to]),
            number,
            marked: start - from..end.min(to) - from,
            column: (from > first).then(|| text[from..start].chars().count() + 1),
        }
    }

    /// Excerpt of an empty line, as at the end of a truncated file, with the last non-empty line
    /// above it.
    fn below_last_text(text: &'t str, start: usize, number: usize) -> Self {
        let above = text[..start].trim_end().len();
        let first = line_start_offset(text, above)
            .max(text.ceil_char_boundary(start.saturating_sub(MAX_EXCERPT_BYTES)));
        let lines = text[first..start].matches('\n').count();
        // The renderer recognizes the last line only if it ends with a line break.
        let text = Cow::from(format!("{}\n", &text[first..start]));
        let marked = start - first..start - first;
        Self { text, number: number - lines, marked, column: None }
    }
}

fn line_start_offset(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests;
