//! Positions in a document: byte spans, lines and columns, and the mapping from an offset in a
//! decoded scalar to the position in the file where it was written.

use std::fmt;

/// A half-open byte range in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Creates a span from byte offsets. Documents are always far smaller than 4 GiB.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end.max(start)) }
    }

    /// True if `offset` is inside the span or at its end.
    pub fn touches_offset(self, offset: u32) -> bool {
        self.start <= offset && offset <= self.end
    }

    fn as_range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A line and a column, both starting at 1. Columns count characters.
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

/// A value and its position in the document.
///
/// Equality compares only the values: a playbook that was merely re-indented is equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Position of the value.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Creates a value with a position.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// Converts the value and keeps the position.
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
pub struct DocumentText<'t> {
    text: &'t str,
    line_starts: Vec<u32>,
}

impl<'t> DocumentText<'t> {
    /// Creates the line index of a text.
    pub fn new(text: &'t str) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(index, _)| Span::new(index + 1, index + 1).start),
        );
        Self { text, line_starts }
    }

    /// Returns the whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the line and column of a byte offset. An offset past the end maps to the end.
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

    /// Returns the position in the document of a byte range inside the decoded text of the scalar
    /// at `scalar`.
    pub fn span_in_scalar(
        &self,
        scalar: Span,
        decoded: &str,
        range: std::ops::Range<usize>,
    ) -> Span {
        let raw = self.text.get(scalar.as_range()).unwrap_or_default();
        let offsets = align_offsets(raw, decoded);
        let document_offset = |index: usize| {
            let index = index.min(decoded.len());
            scalar.start as usize + offsets.get(index).copied().unwrap_or(raw.len())
        };
        let end = if range.end > range.start {
            // The byte after the last one of the range, not the start of the next decoded byte: a
            // quote or indentation may be in between.
            document_offset(range.end - 1) + 1
        } else {
            document_offset(range.start)
        };
        Span::new(document_offset(range.start), end)
    }
}

/// Returns, for every byte of the decoded text, its offset in the raw scalar.
///
/// Quotes, escapes, indentation and folded line ends make the two differ. The algorithm matches
/// equal bytes and skips raw bytes that have no counterpart, so it resynchronizes after each
/// difference.
fn align_offsets(raw: &str, decoded: &str) -> Vec<usize> {
    let raw = raw.as_bytes();
    let double_quoted = raw.first() == Some(&b'"');
    let mut pos = usize::from(matches!(raw.first(), Some(b'"' | b'\'')));
    if matches!(raw.first(), Some(b'|' | b'>')) {
        pos = raw.iter().position(|b| *b == b'\n').map_or(raw.len(), |n| n + 1);
    }
    let mut offsets = Vec::with_capacity(decoded.len());
    let mut bytes = decoded.bytes().peekable();
    while let Some(byte) = bytes.peek().copied() {
        match raw.get(pos) {
            None => {
                offsets.push(raw.len());
                bytes.next();
            }
            Some(b'\\') if double_quoted => {
                let length = escape_length(raw.get(pos + 1).copied());
                if raw.get(pos + 1) != Some(&b'\n') {
                    offsets.push(pos);
                    bytes.next();
                    // One escape may represent several UTF-8 bytes.
                    while bytes.peek().is_some_and(|b| *b & 0xC0 == 0x80) {
                        offsets.push(pos);
                        bytes.next();
                    }
                }
                pos += length;
            }
            Some(found) if *found == byte => {
                offsets.push(pos);
                bytes.next();
                pos += 1;
            }
            Some(b'\n') if byte == b' ' => {
                // A folded line end.
                offsets.push(pos);
                bytes.next();
                pos += 1;
            }
            Some(_) => pos += 1,
        }
    }
    offsets.push(pos.min(raw.len()));
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
mod tests;
