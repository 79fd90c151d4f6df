//! How values become text.
//!
//! Sizes are known before anything is written, and texts are written into room of exactly that
//! size: a value that holds the same part many times over is small in memory and large on paper.

use std::fmt::{self, Write};

use noetl_types::Json;
use noetl_types::json::to_canonical;

/// No number is longer than this.
const LONGEST_NUMBER: usize = 25;
/// Values up to this size are written in one go.
const SMALL: usize = 1 << 16;

/// The length of the canonical text of a value, rounded up a little, if it is at most `most`.
pub(super) fn canonical_len(value: &Json, most: usize) -> Option<usize> {
    let mut left = most;
    spend(value, &mut left)?;
    Some(most - left)
}

fn spend(value: &Json, left: &mut usize) -> Option<()> {
    let own = match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => LONGEST_NUMBER,
        Json::Str(text) => quoted_len(text),
        Json::List(items) => items.len() + 2,
        Json::Map(map) => 2 * map.len() + 2,
    };
    *left = left.checked_sub(own)?;
    match value {
        Json::List(items) => items.iter().try_for_each(|item| spend(item, left)),
        Json::Map(map) => map.iter().try_for_each(|(key, value)| {
            *left = left.checked_sub(quoted_len(key))?;
            spend(value, left)
        }),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => Some(()),
    }
}

fn quoted_len(text: &str) -> usize {
    let escaped = text
        .bytes()
        .filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
        .count();
    text.len() + 2 + 5 * escaped
}

/// The length of a value printed inside of a text, rounded up a little, if it is at most `most`.
pub(super) fn printed_len(value: &Json, most: usize) -> Option<usize> {
    let len = match value {
        Json::Null => 0,
        Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => LONGEST_NUMBER,
        Json::Str(text) => text.len(),
        Json::List(_) | Json::Map(_) => return canonical_len(value, most),
    };
    (len <= most).then_some(len)
}

/// Writes a value as it is printed inside of a text; `room` is its printed length.
pub(super) fn push_printed(value: &Json, room: usize, out: &mut String) {
    match value {
        Json::Null => {}
        Json::Bool(true) => out.push_str("True"),
        Json::Bool(false) => out.push_str("False"),
        Json::Str(text) => out.push_str(text),
        Json::Int(number) => {
            // Writing into a text cannot fail.
            let _ = write!(out, "{number}");
        }
        Json::UInt(_) | Json::Float(_) => out.push_str(&value.to_string()),
        Json::List(_) | Json::Map(_) => push_canonical(value, room, out),
    }
}

/// Writes the canonical text of a value; `room` is its length.
pub(super) fn push_canonical(value: &Json, room: usize, out: &mut String) {
    if room <= SMALL {
        out.push_str(&String::from_utf8_lossy(&to_canonical(value)));
    } else {
        // Writing into a text cannot fail.
        let _ = Layout { indent: None }.write(value, 0, out);
    }
}

/// The text of a value with one entry a line, before it is written.
pub(super) struct Indented<'v> {
    value: &'v Json,
    layout: Layout,
    len: usize,
}

impl<'v> Indented<'v> {
    /// Measures the text, if it has at most `most` bytes.
    pub(super) fn new(value: &'v Json, indent: usize, most: usize) -> Option<Self> {
        let layout = Layout {
            indent: Some(indent),
        };
        let mut counter = Counter { left: most };
        layout.write(value, 0, &mut counter).ok()?;
        let len = most - counter.left;
        Some(Self { value, layout, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn write(&self) -> String {
        let mut text = String::with_capacity(self.len);
        // Writing into a text cannot fail.
        let _ = self.layout.write(self.value, 0, &mut text);
        text
    }
}

/// Counts what would be written.
struct Counter {
    left: usize,
}

impl Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// Writes piece by piece, so that no second copy of a large text ever exists.
struct Layout {
    indent: Option<usize>,
}

impl Layout {
    fn write(&self, value: &Json, level: usize, out: &mut impl Write) -> fmt::Result {
        match value {
            Json::List(items) if items.is_empty() => out.write_str("[]"),
            Json::Map(map) if map.is_empty() => out.write_str("{}"),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.write_str(if index == 0 { "[" } else { "," })?;
                    self.line(level + 1, out)?;
                    self.write(item, level + 1, out)?;
                }
                self.line(level, out)?;
                out.write_str("]")
            }
            Json::Map(map) => {
                for (index, (key, item)) in map.iter().enumerate() {
                    out.write_str(if index == 0 { "{" } else { "," })?;
                    self.line(level + 1, out)?;
                    quote(key, out)?;
                    out.write_str(if self.indent.is_some() { ": " } else { ":" })?;
                    self.write(item, level + 1, out)?;
                }
                self.line(level, out)?;
                out.write_str("}")
            }
            Json::Str(text) => quote(text, out),
            Json::Int(number) => write!(out, "{number}"),
            Json::Null | Json::Bool(_) | Json::UInt(_) | Json::Float(_) => {
                write!(out, "{value}")
            }
        }
    }

    fn line(&self, level: usize, out: &mut impl Write) -> fmt::Result {
        match self.indent {
            Some(indent) => write!(out, "\n{:1$}", "", indent * level),
            None => Ok(()),
        }
    }
}

fn quote(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(SMALL));
        let quoted = to_canonical(piece);
        let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        out.write_str(&String::from_utf8_lossy(inner))?;
        rest = after;
    }
    out.write_char('"')
}
