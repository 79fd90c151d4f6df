//! Places in a document: byte spans, lines and columns, and the way from a place inside a decoded
//! text back to the place in the file where its author wrote it.

use std::fmt;

/// A half-open range of bytes in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span from byte offsets; documents are bounded far below 4 GiB.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: clamp(start),
            end: clamp(end.max(start)),
        }
    }

    /// Whether `offset` lies inside, the end included.
    pub fn touches(self, offset: u32) -> bool {
        self.start <= offset && offset <= self.end
    }

    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A line and a column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it stands in the document.
///
/// Two of them are equal when their values are: a playbook that was only re-indented is the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// The same place with a value made from the old one.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned::new(f(self.value), self.span)
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The text of a document with an index of its lines.
#[derive(Debug, Clone)]
pub struct Source<'t> {
    text: &'t str,
    line_starts: Vec<u32>,
}

impl<'t> Source<'t> {
    /// Indexes a text.
    pub fn new(text: &'t str) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| Span::new(at + 1, at + 1).start),
        );
        Self { text, line_starts }
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Line and column of a byte offset; an offset past the end is the end.
    pub fn position(&self, offset: u32) -> Position {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1] as usize;
        let mut end = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let column = self.text[start.min(end)..end].chars().count() + 1;
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// The place in the document of a byte range inside the decoded text of the scalar at `scalar`.
    pub fn inside(&self, scalar: Span, decoded: &str, range: std::ops::Range<usize>) -> Span {
        let raw = self.text.get(scalar.range()).unwrap_or_default();
        let offsets = align(raw, decoded);
        let at = |index: usize| {
            let index = index.min(decoded.len());
            scalar.start as usize + offsets.get(index).copied().unwrap_or(raw.len())
        };
        let end = if range.end > range.start {
            // The byte after the last one of the range, not the start of what follows it: a quote or
            // an indentation may stand in between.
            at(range.end - 1) + 1
        } else {
            at(range.start)
        };
        Span::new(at(range.start), end)
    }
}

/// For every byte of the decoded text its offset in the raw scalar.
///
/// Quotes, escapes, indentation and folded line ends make the two differ. The walk matches equal
/// bytes and skips raw ones that have no counterpart, which finds its way again after each of them.
fn align(raw: &str, decoded: &str) -> Vec<usize> {
    let raw = raw.as_bytes();
    let double_quoted = raw.first() == Some(&b'"');
    let mut at = usize::from(matches!(raw.first(), Some(b'"' | b'\'')));
    if matches!(raw.first(), Some(b'|' | b'>')) {
        at = raw
            .iter()
            .position(|b| *b == b'\n')
            .map_or(raw.len(), |n| n + 1);
    }
    let mut offsets = Vec::with_capacity(decoded.len());
    let mut bytes = decoded.bytes().peekable();
    while let Some(byte) = bytes.peek().copied() {
        match raw.get(at) {
            None => {
                offsets.push(raw.len());
                bytes.next();
            }
            Some(b'\\') if double_quoted => {
                let length = escape_length(raw.get(at + 1).copied());
                if raw.get(at + 1) != Some(&b'\n') {
                    offsets.push(at);
                    bytes.next();
                    // An escape may stand for several bytes of UTF-8.
                    while bytes.peek().is_some_and(|b| *b & 0xC0 == 0x80) {
                        offsets.push(at);
                        bytes.next();
                    }
                }
                at += length;
            }
            Some(found) if *found == byte => {
                offsets.push(at);
                bytes.next();
                at += 1;
            }
            Some(b'\n') if byte == b' ' => {
                // A folded line end.
                offsets.push(at);
                bytes.next();
                at += 1;
            }
            Some(_) => at += 1,
        }
    }
    offsets.push(at.min(raw.len()));
    offsets
}

fn escape_length(kind: Option<u8>) -> usize {
    match kind {
        Some(b'x') => 4,
        Some(b'u') => 6,
        Some(b'U') => 10,
        Some(_) | None => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(document: &str, decoded: &str, needle: &str) -> Position {
        let source = Source::new(document);
        let scalar = Span::new(0, document.len());
        let at = decoded.find(needle).unwrap();
        let span = source.inside(scalar, decoded, at..at + needle.len());
        source.position(span.start)
    }

    #[test]
    fn a_plain_text_stands_where_it_stands() {
        assert_eq!(place("abc def", "abc def", "def").to_string(), "1:5");
    }

    #[test]
    fn quotes_and_escapes_are_stepped_over() {
        assert_eq!(
            place(r#""a\n\u00e9 {{ x }}""#, "a\né {{ x }}", "x").to_string(),
            "1:15"
        );
        assert_eq!(
            place("'it''s {{ x }}'", "it's {{ x }}", "x").to_string(),
            "1:11"
        );
    }

    #[test]
    fn block_texts_keep_their_lines() {
        let document = "|\n    select 1\n      from {{ t }}\n";
        let decoded = "select 1\n  from {{ t }}\n";
        assert_eq!(place(document, decoded, "t }}").to_string(), "3:15");
        let folded = ">\n    one\n    {{ two }}\n";
        assert_eq!(place(folded, "one {{ two }}\n", "two").to_string(), "3:8");
    }

    #[test]
    fn columns_count_characters() {
        let source = Source::new("é: x\n");
        assert_eq!(source.position(4).to_string(), "1:4");
        assert_eq!(source.position(9_999).to_string(), "2:1");
    }
}
