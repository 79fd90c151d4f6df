//! Conversion of values to text.
//!
//! Sizes are computed before anything is written, and texts are written into buffers of exactly
//! that size: a value that contains the same part many times over is small in memory and large as
//! text.

use std::fmt::{self, Write};

use noetl_types::Json;
use noetl_types::json::push_canonical;

/// Maximum length of a number.
const MAX_NUMBER_BYTES: usize = 25;
/// Maximum part of a text that is quoted in a temporary buffer.
const QUOTED_PIECE_BYTES: usize = 1 << 16;

/// Length of the canonical text of a value, slightly overestimated. `None` if it exceeds `limit`.
pub(super) fn canonical_len(value: &Json, limit: usize) -> Option<usize> {
    let mut remaining = limit;
    subtract_len(value, &mut remaining)?;
    Some(limit - remaining)
}

fn subtract_len(value: &Json, remaining: &mut usize) -> Option<()> {
    let own_len = match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => MAX_NUMBER_BYTES,
        Json::Str(text) => quoted_len(text),
        Json::List(items) => items.len() + 2,
        Json::Map(map) => 2 * map.len() + 2,
    };
    *remaining = remaining.checked_sub(own_len)?;
    match value {
        Json::List(items) => items.iter().try_for_each(|item| subtract_len(item, remaining)),
        Json::Map(map) => map.iter().try_for_each(|(key, value)| {
            *remaining = remaining.checked_sub(quoted_len(key))?;
            subtract_len(value, remaining)
        }),
        _ => Some(()),
    }
}

fn quoted_len(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')).count();
    text.len() + 2 + 5 * escaped
}

/// Length of a value printed inside a text, slightly overestimated. `None` if it exceeds `limit`.
pub(super) fn printed_len(value: &Json, limit: usize) -> Option<usize> {
    let len = match value {
        Json::Null => 0,
        Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => MAX_NUMBER_BYTES,
        Json::Str(text) => text.len(),
        Json::List(_) | Json::Map(_) => return canonical_len(value, limit),
    };
    (len <= limit).then_some(len)
}

/// Writes a value as it is printed inside a text.
pub(super) fn push_printed(value: &Json, out: &mut String) {
    match value {
        Json::Null => {}
        Json::Bool(true) => out.push_str("True"),
        Json::Bool(false) => out.push_str("False"),
        Json::Str(text) => out.push_str(text),
        _ => push_canonical(value, out),
    }
}

/// The indented text of a value, measured but not yet written.
pub(super) struct IndentedText<'v> {
    value: &'v Json,
    indent: usize,
    len: usize,
}

impl<'v> IndentedText<'v> {
    /// Measures the text. Returns `None` if it has more than `limit` bytes.
    pub(super) fn new(value: &'v Json, indent: usize, limit: usize) -> Option<Self> {
        let mut counter = LengthCounter { remaining: limit };
        write_indented(value, indent, 0, &mut counter).ok()?;
        Some(Self { value, indent, len: limit - counter.remaining })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.len);
        // Writing into a text cannot fail.
        let _ = write_indented(self.value, self.indent, 0, &mut text);
        text
    }
}

/// Counts the bytes that would be written.
struct LengthCounter {
    remaining: usize,
}

impl Write for LengthCounter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.remaining = self.remaining.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// Writes piece by piece, so that a second copy of a large text never exists.
fn write_indented(value: &Json, indent: usize, level: usize, out: &mut impl Write) -> fmt::Result {
    let break_line = |level: usize, out: &mut dyn Write| write!(out, "\n{:1$}", "", indent * level);
    match value {
        Json::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                out.write_str(if index == 0 { "[" } else { "," })?;
                break_line(level + 1, out)?;
                write_indented(item, indent, level + 1, out)?;
            }
            break_line(level, out)?;
            out.write_str("]")
        }
        Json::Map(map) if !map.is_empty() => {
            for (index, (key, item)) in map.iter().enumerate() {
                out.write_str(if index == 0 { "{" } else { "," })?;
                break_line(level + 1, out)?;
                write_quoted(key, out)?;
                out.write_str(": ")?;
                write_indented(item, indent, level + 1, out)?;
            }
            break_line(level, out)?;
            out.write_str("}")
        }
        Json::Str(text) => write_quoted(text, out),
        _ => write!(out, "{value}"),
    }
}

fn write_quoted(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(QUOTED_PIECE_BYTES));
        let mut quoted = String::new();
        push_canonical(piece, &mut quoted);
        out.write_str(quoted.get(1..quoted.len() - 1).unwrap_or_default())?;
        rest = after;
    }
    out.write_char('"')
}
