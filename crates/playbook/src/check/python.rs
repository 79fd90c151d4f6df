//! Python code, read as far as its blocks and brackets: enough to find the slips that keep it from
//! running at all.
//!
//! The interpreter on the worker has the last word, so what is reported here is a warning, and only
//! what no Python would accept: texts and brackets that do not close, blocks that do not open, and
//! indentation that fits nothing.

use std::ops::Range;

/// What keeps code from being read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PythonFault {
    pub(super) reason: String,
    pub(super) range: Range<usize>,
}

/// Words that begin a block, whose header ends with a colon.
const BLOCK_WORDS: [&str; 12] = [
    "def", "class", "if", "elif", "else", "for", "while", "try", "except", "finally", "with",
    "async",
];

/// The first fault of the code, if there is one.
pub(super) fn fault(code: &str) -> Option<PythonFault> {
    let mut blocks = Blocks {
        indents: vec![0],
        expected: None,
    };
    let mut lines = LogicalLines { code, at: 0 };
    loop {
        match lines.next() {
            Ok(Some(line)) => {
                if let Err(fault) = blocks.take(&line) {
                    return Some(fault);
                }
            }
            Ok(None) => return blocks.finish(code.len()),
            Err(fault) => return Some(fault),
        }
    }
}

/// A statement over as many lines as its brackets and continuations span.
struct LogicalLine<'c> {
    indent: usize,
    start: usize,
    end: usize,
    /// The first word.
    word: &'c str,
    /// Whether it ends with a colon.
    opens: bool,
    /// Whether a colon stands outside of brackets anywhere.
    has_colon: bool,
}

struct LogicalLines<'c> {
    code: &'c str,
    at: usize,
}

impl<'c> LogicalLines<'c> {
    fn next(&mut self) -> Result<Option<LogicalLine<'c>>, PythonFault> {
        let bytes = self.code.as_bytes();
        loop {
            let line_start = self.at;
            while matches!(bytes.get(self.at), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            match bytes.get(self.at) {
                None => return Ok(None),
                Some(b'\n' | b'\r') => self.at += 1,
                Some(b'#') => self.skip_comment(),
                Some(_) => return self.statement(self.at - line_start).map(Some),
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.code[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn statement(&mut self, indent: usize) -> Result<LogicalLine<'c>, PythonFault> {
        let bytes = self.code.as_bytes();
        let start = self.at;
        let mut open: Vec<(u8, usize)> = Vec::new();
        let (mut last, mut has_colon) = (0, false);
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\n' if open.is_empty() => break,
                b'#' => {
                    self.skip_comment();
                    continue;
                }
                b'\\' if matches!(bytes.get(self.at + 1), Some(b'\n' | b'\r')) => {
                    self.at += 2;
                    continue;
                }
                b'"' | b'\'' => {
                    self.text(byte)?;
                    last = byte;
                    continue;
                }
                b'(' | b'[' | b'{' => open.push((byte, self.at)),
                b')' | b']' | b'}' => close(&mut open, byte, self.at)?,
                b':' if open.is_empty() => has_colon = true,
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                last = byte;
            }
            self.at += 1;
        }
        if let Some((bracket, at)) = open.first() {
            return Err(PythonFault {
                reason: format!("'{}' was never closed", char::from(*bracket)),
                range: *at..*at + 1,
            });
        }
        let text = &self.code[start..self.at];
        let word_end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        Ok(LogicalLine {
            indent,
            start,
            end: start + text.trim_end().len(),
            word: &text[..word_end],
            opens: last == b':',
            has_colon,
        })
    }

    /// Steps over a text; `quote` stands at the current place.
    fn text(&mut self, quote: u8) -> Result<(), PythonFault> {
        let bytes = self.code.as_bytes();
        let start = self.at;
        let triple = bytes[start..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                b'\n' if !triple => break,
                _ if triple && bytes[self.at..].starts_with(&[quote; 3]) => {
                    self.at += 3;
                    return Ok(());
                }
                _ if !triple && byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(bytes.len());
        Err(PythonFault {
            reason: "unterminated text".to_owned(),
            range: start..start + 1,
        })
    }
}

fn close(open: &mut Vec<(u8, usize)>, byte: u8, at: usize) -> Result<(), PythonFault> {
    let wanted = match byte {
        b')' => b'(',
        b']' => b'[',
        _ => b'{',
    };
    let reason = match open.pop() {
        Some((found, _)) if found == wanted => return Ok(()),
        Some((found, _)) => format!(
            "'{}' does not close '{}'",
            char::from(byte),
            char::from(found)
        ),
        None => format!("'{}' closes nothing", char::from(byte)),
    };
    Err(PythonFault {
        reason,
        range: at..at + 1,
    })
}

/// The blocks that are open, by their indentation.
struct Blocks {
    indents: Vec<usize>,
    /// Where a header stands whose block must follow.
    expected: Option<Range<usize>>,
}

impl Blocks {
    fn take(&mut self, line: &LogicalLine<'_>) -> Result<(), PythonFault> {
        let range = line.start..line.end;
        let current = self.indents.last().copied().unwrap_or_default();
        if let Some(header) = self.expected.take() {
            if line.indent <= current {
                return Err(PythonFault {
                    reason: "an indented block must follow".to_owned(),
                    range: header,
                });
            }
            self.indents.push(line.indent);
        } else if line.indent > current {
            return Err(PythonFault {
                reason: "unexpected indentation".to_owned(),
                range,
            });
        } else {
            while self
                .indents
                .last()
                .is_some_and(|indent| *indent > line.indent)
            {
                self.indents.pop();
            }
            if self.indents.last() != Some(&line.indent) {
                return Err(PythonFault {
                    reason: "indentation fits no open block".to_owned(),
                    range,
                });
            }
        }
        if BLOCK_WORDS.contains(&line.word) && !line.has_colon {
            return Err(PythonFault {
                reason: format!("'{}' lacks its ':'", line.word),
                range,
            });
        }
        if line.opens {
            self.expected = Some(range);
        }
        Ok(())
    }

    fn finish(self, end: usize) -> Option<PythonFault> {
        let header = self.expected?;
        Some(PythonFault {
            reason: "an indented block must follow".to_owned(),
            range: header.start..header.end.min(end),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn code_that_runs_is_left_alone() {
        for code in [
            "",
            "result = 1",
            "def main(a, b=2):\n    return {'a': a}\n",
            "x = [\n  1,\n 2,\n]\nif x: y = 1\nelse:\n  y = 2\n",
            "s = '''a\n  b: (\n'''\nprint(s) # it's a comment (\n",
            "a = 1 + \\\n    2\nf = lambda x: x\nd = {\n  'k': [1,\n 2]}\n",
            "async def main():\n    async with x as y:\n        await y\n",
            "match x:\n    case 1:\n        pass\n",
            "x = f\"{a['b']}\"\nreturn x\n",
            "class A:\n    \"\"\"doc\"\"\"\n\n    def f(self): return 1\n",
            "if_ = 3\nelse_ = 4\nformat = 1\n",
        ] {
            assert_eq!(fault(code), None, "{code}");
        }
    }

    #[test]
    fn code_that_cannot_run_is_told_why() {
        for (code, reason) in [
            ("def f(:\n  pass", "'(' was never closed"),
            ("x = [1, 2)", "')' does not close '['"),
            ("x = 1)", "')' closes nothing"),
            ("s = 'abc", "unterminated text"),
            ("s = \"\"\"abc", "unterminated text"),
            ("def f()\n  return 1", "'def' lacks its ':'"),
            ("if x:\ny = 1", "an indented block must follow"),
            ("x = 1\n  y = 2", "unexpected indentation"),
            (
                "if x:\n    y = 1\n  z = 2",
                "indentation fits no open block",
            ),
            ("for i in x:", "an indented block must follow"),
            ("s = 'a\\", "unterminated text"),
        ] {
            assert_eq!(
                fault(code).map(|fault| fault.reason).as_deref(),
                Some(reason),
                "{code}"
            );
        }
    }
}
