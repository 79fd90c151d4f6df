//! Checks the blocks and brackets of Python code, enough to find mistakes that prevent it from
//! running.
//!
//! The interpreter on the worker is authoritative, so findings are warnings, and only code that no
//! Python version accepts is reported: unclosed strings and brackets, missing blocks, and
//! inconsistent indentation.

use std::ops::Range;

/// A syntax error in Python code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PythonSyntaxError {
    pub(super) reason: String,
    pub(super) range: Range<usize>,
}

/// Keywords that start a block. Their header ends with a colon.
const BLOCK_KEYWORDS: [&str; 12] = [
    "def", "class", "if", "elif", "else", "for", "while", "try", "except", "finally", "with",
    "async",
];

/// Returns the first syntax error of the code, if any.
pub(super) fn find_syntax_error(code: &str) -> Option<PythonSyntaxError> {
    let mut blocks = BlockStack { indents: vec![0], expected: None };
    let mut lines = LogicalLines { code, pos: 0 };
    loop {
        match lines.next_line() {
            Ok(Some(line)) => {
                if let Err(error) = blocks.add_line(&line) {
                    return Some(error);
                }
            }
            Ok(None) => return blocks.check_end(code.len()),
            Err(error) => return Some(error),
        }
    }
}

/// A statement with all its continuation lines.
struct LogicalLine<'c> {
    indent: usize,
    start: usize,
    end: usize,
    first_word: &'c str,
    /// True if the statement ends with a colon.
    opens_block: bool,
    /// True if there is a colon outside brackets.
    has_colon: bool,
}

struct LogicalLines<'c> {
    code: &'c str,
    pos: usize,
}

impl<'c> LogicalLines<'c> {
    fn next_line(&mut self) -> Result<Option<LogicalLine<'c>>, PythonSyntaxError> {
        let bytes = self.code.as_bytes();
        loop {
            let line_start = self.pos;
            while matches!(bytes.get(self.pos), Some(b' ' | b'\t')) {
                self.pos += 1;
            }
            match bytes.get(self.pos) {
                None => return Ok(None),
                Some(b'\n' | b'\r') => self.pos += 1,
                Some(b'#') => self.skip_comment(),
                Some(_) => return self.read_statement(self.pos - line_start).map(Some),
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.code[self.pos..];
        self.pos += rest.find('\n').unwrap_or(rest.len());
    }

    fn read_statement(&mut self, indent: usize) -> Result<LogicalLine<'c>, PythonSyntaxError> {
        let bytes = self.code.as_bytes();
        let start = self.pos;
        let mut open: Vec<(u8, usize)> = Vec::new();
        let (mut last, mut has_colon) = (0, false);
        while let Some(&byte) = bytes.get(self.pos) {
            match byte {
                b'\n' if open.is_empty() => break,
                b'#' => {
                    self.skip_comment();
                    continue;
                }
                b'\\' if matches!(bytes.get(self.pos + 1), Some(b'\n' | b'\r')) => {
                    self.pos += 2;
                    continue;
                }
                b'"' | b'\'' => {
                    self.skip_string(byte)?;
                    last = byte;
                    continue;
                }
                b'(' | b'[' | b'{' => open.push((byte, self.pos)),
                b')' | b']' | b'}' => close_bracket(&mut open, byte, self.pos)?,
                b':' if open.is_empty() => has_colon = true,
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                last = byte;
            }
            self.pos += 1;
        }
        if let Some((bracket, pos)) = open.first() {
            return Err(PythonSyntaxError {
                reason: format!("'{}' was never closed", char::from(*bracket)),
                range: *pos..*pos + 1,
            });
        }
        let text = &self.code[start..self.pos];
        let word_end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        Ok(LogicalLine {
            indent,
            start,
            end: start + text.trim_end().len(),
            first_word: &text[..word_end],
            opens_block: last == b':',
            has_colon,
        })
    }

    /// Skips a string literal. `quote` is the byte at the current position.
    fn skip_string(&mut self, quote: u8) -> Result<(), PythonSyntaxError> {
        let bytes = self.code.as_bytes();
        let start = self.pos;
        let triple = bytes[start..].starts_with(&[quote; 3]);
        self.pos += if triple { 3 } else { 1 };
        while let Some(&byte) = bytes.get(self.pos) {
            match byte {
                b'\\' => self.pos += 2,
                b'\n' if !triple => break,
                _ if triple && bytes[self.pos..].starts_with(&[quote; 3]) => {
                    self.pos += 3;
                    return Ok(());
                }
                _ if !triple && byte == quote => {
                    self.pos += 1;
                    return Ok(());
                }
                _ => self.pos += 1,
            }
        }
        self.pos = self.pos.min(bytes.len());
        Err(PythonSyntaxError { reason: "unterminated string".to_owned(), range: start..start + 1 })
    }
}

fn close_bracket(
    open: &mut Vec<(u8, usize)>,
    byte: u8,
    pos: usize,
) -> Result<(), PythonSyntaxError> {
    let expected = match byte {
        b')' => b'(',
        b']' => b'[',
        _ => b'{',
    };
    let reason = match open.pop() {
        Some((found, _)) if found == expected => return Ok(()),
        Some((found, _)) => {
            format!("'{}' does not match '{}'", char::from(byte), char::from(found))
        }
        None => format!("'{}' has no opening bracket", char::from(byte)),
    };
    Err(PythonSyntaxError { reason, range: pos..pos + 1 })
}

/// Open blocks, by indentation.
struct BlockStack {
    indents: Vec<usize>,
    /// Position of a header whose block must follow.
    expected: Option<Range<usize>>,
}

impl BlockStack {
    fn add_line(&mut self, line: &LogicalLine<'_>) -> Result<(), PythonSyntaxError> {
        let range = line.start..line.end;
        let current = self.indents.last().copied().unwrap_or_default();
        if let Some(header) = self.expected.take() {
            if line.indent <= current {
                return Err(PythonSyntaxError {
                    reason: "expected an indented block".to_owned(),
                    range: header,
                });
            }
            self.indents.push(line.indent);
        } else if line.indent > current {
            return Err(PythonSyntaxError { reason: "unexpected indentation".to_owned(), range });
        } else {
            while self.indents.last().is_some_and(|indent| *indent > line.indent) {
                self.indents.pop();
            }
            if self.indents.last() != Some(&line.indent) {
                return Err(PythonSyntaxError {
                    reason: "indentation does not match any open block".to_owned(),
                    range,
                });
            }
        }
        if BLOCK_KEYWORDS.contains(&line.first_word) && !line.has_colon {
            return Err(PythonSyntaxError {
                reason: format!("'{}' is missing its ':'", line.first_word),
                range,
            });
        }
        if line.opens_block {
            self.expected = Some(range);
        }
        Ok(())
    }

    fn check_end(self, end: usize) -> Option<PythonSyntaxError> {
        let header = self.expected?;
        Some(PythonSyntaxError {
            reason: "expected an indented block".to_owned(),
            range: header.start..header.end.min(end),
        })
    }
}

#[cfg(test)]
mod tests;
