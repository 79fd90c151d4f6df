use noetl_playbook::Code;
use proptest::prelude::*;

use super::*;

fn sample_diagnostic(text: &str, span: Span) -> Diagnostic {
    let source = DocumentText::new(text);
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

fn render_sample(text: &str, span: Span) -> String {
    let mut sink = Vec::new();
    render_diagnostic(
        "f.yaml",
        text,
        &sample_diagnostic(text, span),
        &OutputStream::plain(&mut sink),
    )
}

#[test]
fn empty_line_is_shown_below_last_text() {
    let text = "a: [1,\n\n\n\n\n\n\n";
    insta::assert_snapshot!(render_sample(text, Span::new(text.len(), text.len())), @r"
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
fn multiline_span_is_underlined_in_first_line() {
    insta::assert_snapshot!(render_sample("a: |\n  one\n  two\nb: 1\n", Span::new(3, 17)), @r"
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
fn long_line_keeps_its_columns() {
    let text = format!("a: é{}[nxt]{}\r\nb: 1\n", "-".repeat(30_000), "-".repeat(30_000));
    let at = text.find("nxt").unwrap();
    insta::assert_snapshot!(render_sample(&text, Span::new(at, at + 3)), @r"
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
    fn header_shows_span_position(
        text in "(\\PC|[ \n\t\r:日é]){0,40}",
        start in 0usize..80,
        length in 0usize..20,
    ) {
        let start = text.floor_char_boundary(start.min(text.len()));
        let span = Span::new(start, start + length);
        let position = DocumentText::new(&text).position(span.start);
        let rendered = render_sample(&text, span);
        prop_assert!(rendered.contains(&format!("--> f.yaml:{position}\n")), "{rendered}\nnot {position}");
    }
}
