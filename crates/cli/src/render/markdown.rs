//! Pages of documentation on a terminal.
//!
//! The pages are written in a small part of Markdown: headings, paragraphs, lists, fenced code,
//! `code` and **bold** inside lines. What is not known here is shown as it stands.

use anstyle::Style;

use crate::io::Paint;
use crate::render::{palette, words};

/// Code is moved this far to the right.
const INDENT: &str = "    ";

/// Marks the line of an example that a diagnostic is reported for.
const POINTER: &str = "  > ";

/// A page for a terminal.
pub(crate) fn render(page: &str, paint: Paint) -> String {
    let mut text = String::new();
    let mut code: Option<Code> = None;
    for line in page.lines() {
        let line = words::visible(line);
        match (&mut code, line.strip_prefix("```")) {
            (Some(_), Some(_)) => {
                code = None;
                continue;
            }
            (None, Some(info)) => {
                code = Some(Code::new(info));
                continue;
            }
            (Some(code), None) => text += &code.line(&line, paint),
            (None, None) => text += &prose(&line, paint),
        }
        text.push('\n');
    }
    text
}

/// Fenced code that is being written.
struct Code {
    /// The line to point at, from 1.
    points_at: Option<usize>,
    number: usize,
}

impl Code {
    /// Code whose fence says, like `yaml at=9:17`, where in it something is reported.
    fn new(info: &str) -> Self {
        let place = info
            .split_whitespace()
            .find_map(|word| word.strip_prefix("at="));
        let line = place.and_then(|place| place.split(':').next());
        Self {
            points_at: line.and_then(|line| line.parse().ok()),
            number: 0,
        }
    }

    fn line(&mut self, line: &str, paint: Paint) -> String {
        self.number += 1;
        if self.points_at == Some(self.number) {
            let pointer = paint.text(palette::BAD, POINTER);
            format!("{pointer}{}", paint.text(palette::CODE.bold(), line))
        } else {
            format!("{INDENT}{}", paint.text(palette::CODE, line))
        }
    }
}

fn prose(line: &str, paint: Paint) -> String {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        let style = if line.starts_with("##") {
            palette::NAME
        } else {
            palette::NAME.underline()
        };
        return paint.text(style, heading.trim()).to_string();
    }
    if !paint.is_on() {
        // Without colours, the marks are all that tells a name from a word.
        return line.to_owned();
    }
    inline(line, "`", palette::CODE, |rest| {
        inline(rest, "**", palette::NAME, str::to_owned)
    })
}

/// A line with what stands between two marks shown in a style, and the rest shown by `other`.
fn inline(line: &str, mark: &str, style: Style, other: impl Fn(&str) -> String) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some((before, marked, after)) = marked(rest, mark) {
        shown.push_str(&other(before));
        shown.push_str(&format!("{style}{marked}{style:#}"));
        rest = after;
    }
    shown.push_str(&other(rest));
    shown
}

fn marked<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let (before, rest) = text.split_once(mark)?;
    let (marked, after) = rest.split_once(mark)?;
    Some((before, marked, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# NP999: title\n\nText with `code`, **bold** and a lone `.\n\n\
        ## Reported for\n\n```yaml at=2:1\na: 1\nb: 2\n```\n";

    #[test]
    fn a_page_is_lightly_set() {
        insta::assert_snapshot!(render(PAGE, Paint::PLAIN), @r"
        NP999: title

        Text with `code`, **bold** and a lone `.

        Reported for

            a: 1
          > b: 2
        ");
    }
}
