//! A diagnostic with the line that it is about.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use noetl_playbook::source::{Source, Span};
use noetl_playbook::{Diagnostic, Severity};

use crate::io::Stream;
use crate::render::words;

/// Writes out a diagnostic about the text of a file, for the stream that it will be shown on.
pub(crate) fn render(file: &str, text: &str, found: &Diagnostic, stream: &Stream<'_>) -> String {
    let renderer = if stream.paint().is_on() {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let renderer = renderer.term_width(stream.width());
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let path = words::visible(file);
    let excerpt = Excerpt::new(text, found);
    let snippet = Snippet::source(&*excerpt.text)
        .path(&path)
        .line_start(excerpt.number)
        .annotation(AnnotationKind::Visible.span(0..0))
        .annotation(AnnotationKind::Primary.span(excerpt.marked.clone()));
    let title = level.primary_title(&found.message).id(found.code.as_str());
    let mut report = vec![title.element(snippet)];
    if let Some(hint) = &found.hint {
        report.push(Group::with_title(Level::HELP.secondary_title(hint)));
    }
    let rendered = renderer.render(&report);
    match excerpt.column {
        None => rendered,
        // The renderer counts columns from where the excerpt begins.
        Some(column) => rendered.replacen(
            &format!("{path}:{}:{column}\n", found.line),
            &format!("{path}:{}:{}\n", found.line, found.column),
            1,
        ),
    }
}

/// Something that went wrong in a run.
#[derive(Debug)]
pub(crate) struct Failure<'f> {
    /// What kind of failure it is.
    pub(crate) kind: &'f str,
    /// What happened; it may have lines.
    pub(crate) message: &'f str,
    /// Where in the playbook, if that is known.
    pub(crate) span: Option<Span>,
    /// What else is to be said.
    pub(crate) notes: &'f [String],
}

/// Lines of a message that are shown; a traceback says what matters in its last ones.
const MAX_MESSAGE: usize = 20;

/// Writes out a failure with the line of the playbook that it comes from.
pub(crate) fn render_failure(
    file: &str,
    text: &str,
    failure: &Failure<'_>,
    stream: &Stream<'_>,
) -> String {
    let renderer = if stream.paint().is_on() {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let renderer = renderer.term_width(stream.width());
    let (title, more) = lines_of(failure.message);
    let path = words::visible(file);
    let excerpt = failure.span.map(|span| {
        let line = Source::new(text).position(span.start).line;
        Excerpt::at(text, span, line as usize)
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
    for note in more.iter().chain(failure.notes) {
        group = group.element(Level::NOTE.no_name().message(note));
    }
    renderer.render(&[group])
}

/// The line of a message that says the most, and the others: code that fails ends in what failed.
fn lines_of(message: &str) -> (String, Vec<String>) {
    let lines: Vec<&str> = message
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let Some((title, rest)) = lines.split_first() else {
        return ("it gave no reason".to_owned(), Vec::new());
    };
    let from = rest.len().saturating_sub(MAX_MESSAGE);
    let rest = rest[from..].iter().map(|line| words::visible(line));
    (words::visible(title), rest.collect())
}

/// An excerpt reaches no further than this many bytes to either side of what it is about.
const REACH: usize = 2_000;

/// The line that a diagnostic is about, and the part of it to underline.
///
/// The renderer gets no more than that: it measures all it is given, and would do so again for each
/// of many diagnostics, which takes minutes where a document of a megabyte is written on one line.
/// Where a place spans lines, its first line tells the reader enough.
struct Excerpt<'t> {
    text: Cow<'t, str>,
    /// The number of its first line.
    number: usize,
    /// The part to underline.
    marked: Range<usize>,
    /// The column of that part in the excerpt, where it is another than in the line.
    column: Option<usize>,
}

impl<'t> Excerpt<'t> {
    fn new(text: &'t str, found: &Diagnostic) -> Self {
        Self::at(text, found.span, found.line as usize)
    }

    /// The line of a place, which is the line of this number.
    fn at(text: &'t str, span: Span, number: usize) -> Self {
        let start = text.floor_char_boundary(span.start as usize);
        let end = text.floor_char_boundary(span.end as usize).max(start);
        let first = line_start(text, start);
        let last = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let last = start + text[start..last].trim_end_matches('\r').len();
        if text[first..last].trim().is_empty() {
            return Self::below_others(text, start, number);
        }
        let from = text
            .ceil_char_boundary(start.saturating_sub(REACH))
            .max(first);
        let to = text.floor_char_boundary(start + REACH).min(last);
        Self {
            text: Cow::from(&text[from..to]),
            number,
            marked: start - from..end.min(to) - from,
            column: (from > first).then(|| text[from..start].chars().count() + 1),
        }
    }

    /// An empty line, as at the end of a file that breaks off, says nothing without what is above it.
    fn below_others(text: &'t str, start: usize, number: usize) -> Self {
        let above = text[..start].trim_end().len();
        let first =
            line_start(text, above).max(text.ceil_char_boundary(start.saturating_sub(REACH)));
        let lines = text[first..start].matches('\n').count();
        // To the renderer, the last line is a line only if another one follows.
        let text = Cow::from(format!("{}\n", &text[first..start]));
        let marked = start - first..start - first;
        Self {
            text,
            number: number - lines,
            marked,
            column: None,
        }
    }
}

fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use noetl_playbook::Code;
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, span: Span) -> Diagnostic {
        let source = Source::new(text);
        let (start, end) = (source.position(span.start), source.position(span.end));
        Diagnostic {
            code: Code::NP010,
            severity: Severity::Warning,
            message: "something".to_owned(),
            hint: Some("something else".to_owned()),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            path: String::new(),
            span,
        }
    }

    fn shown(text: &str, span: Span) -> String {
        let mut sink = Vec::new();
        render(
            "f.yaml",
            text,
            &found(text, span),
            &Stream::plain(&mut sink),
        )
    }

    #[test]
    fn an_empty_line_is_shown_below_the_last_that_is_not() {
        let text = "a: [1,\n\n\n\n\n\n\n";
        insta::assert_snapshot!(shown(text, Span::new(text.len(), text.len())), @r"
        warning[NP010]: something
         --> f.yaml:8:1
          |
        1 | a: [1,
        ...
        8 |
          | ^
          |
        help: something else
        ");
    }

    #[test]
    fn a_place_of_many_lines_is_underlined_in_the_first() {
        insta::assert_snapshot!(shown("a: |\n  one\n  two\nb: 1\n", Span::new(3, 17)), @r"
        warning[NP010]: something
         --> f.yaml:1:4
          |
        1 | a: |
          |    ^
          |
        help: something else
        ");
    }

    #[test]
    fn a_very_long_line_keeps_its_columns() {
        let text = format!(
            "a: é{}[nxt]{}\r\nb: 1\n",
            "-".repeat(30_000),
            "-".repeat(30_000)
        );
        let at = text.find("nxt").unwrap();
        insta::assert_snapshot!(shown(&text, Span::new(at, at + 3)), @r"
        warning[NP010]: something
         --> f.yaml:1:30006
          |
        1 | ...------------------------------------------[nxt]-------------------------------------------...
          |                                               ^^^
          |
        help: something else
        ");
    }

    proptest! {
        #[test]
        fn the_place_is_the_one_that_was_found(
            text in "(\\PC|[ \n\t\r:日é]){0,40}",
            start in 0usize..80,
            length in 0usize..20,
        ) {
            let start = text.floor_char_boundary(start.min(text.len()));
            let span = Span::new(start, start + length);
            let place = Source::new(&text).position(span.start);
            let shown = shown(&text, span);
            prop_assert!(shown.contains(&format!("--> f.yaml:{place}\n")), "{shown}\nnot {place}");
        }
    }
}
