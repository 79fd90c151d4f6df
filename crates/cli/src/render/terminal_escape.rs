//! Escaping of all output to a terminal.
//!
//! Data of playbooks and tasks must not move the cursor, change the title or the clipboard of the
//! terminal, or hide and reorder text. Only line ends, tabs, and the styles of this program pass.
//! Escapes have the form `\\u001b`, so that JSON stays valid and keeps its value.

use super::text_layout::is_direction_mark;

/// Longest style sequence of this program.
const MAX_STYLE_BYTES: usize = 16;

/// Escapes a stream of text. A sequence or a character may be split between two calls.
#[derive(Debug, Default)]
pub(crate) struct TerminalEscaper {
    /// Beginning of a sequence or character whose rest has not been written yet.
    pending: Vec<u8>,
}

impl TerminalEscaper {
    /// Returns the escaped bytes, except for an incomplete end.
    pub(crate) fn escape(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.escape_chunk(bytes, false)
    }

    /// Returns the incomplete end of the text, escaped.
    pub(crate) fn escape_rest(&mut self) -> Vec<u8> {
        self.escape_chunk(b"", true)
    }

    fn escape_chunk(&mut self, bytes: &[u8], is_end: bool) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.pending);
        input.extend(bytes);
        let complete = if is_end { input.len() } else { complete_len(&input) };
        self.pending = input.split_off(complete);
        let text = String::from_utf8_lossy(&input);
        let mut escaped = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(c) = rest.chars().next() {
            let passed = match c {
                '\u{1b}' => style_len(rest).unwrap_or(0),
                '\r' if rest.starts_with("\r\n") => 2,
                '\n' | '\t' => 1,
                c if c.is_control() || is_direction_mark(c) => 0,
                c => c.len_utf8(),
            };
            if passed == 0 {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            escaped.push_str(&rest[..passed]);
            rest = &rest[passed.max(c.len_utf8())..];
        }
        escaped.into_bytes()
    }
}

/// Returns the length without an incomplete character, style or line end at the end.
fn complete_len(input: &[u8]) -> usize {
    let window = input.len().saturating_sub(MAX_STYLE_BYTES);
    let last_escape = input[window..].iter().rposition(|byte| *byte == 0x1b);
    if let Some(start) = last_escape.map(|start| window + start)
        && is_style_prefix(&input[start..])
    {
        return start;
    }
    if input.ends_with(b"\r") {
        return input.len() - 1;
    }
    // Bytes of an incomplete character at the end.
    let invalid = input.utf8_chunks().last().map_or(&b""[..], |chunk| chunk.invalid());
    match std::str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => input.len() - invalid.len(),
        _ => input.len(),
    }
}

/// True if further bytes can make this a style of this program.
fn is_style_prefix(bytes: &[u8]) -> bool {
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    bytes.len() < MAX_STYLE_BYTES
        && match bytes {
            [_] => true,
            [_, b'[', parameters @ ..] => parameters.iter().all(is_parameter),
            _ => false,
        }
}

/// Returns the length of the style that a text begins with. The styles of this program are bold,
/// dimmed, underlined and colored; others could hide text.
fn style_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    // Without this limit, the search of a text with many escapes would take quadratic time.
    let end = rest.bytes().take(MAX_STYLE_BYTES - 2).position(|byte| byte == b'm')?;
    let is_own = |code: &str| matches!(code, "0" | "1" | "2" | "4") || is_color(code.as_bytes());
    rest[..end].split(';').all(is_own).then_some(end + 3)
}

/// True for the bright and the normal foreground colors except for black and white, which can equal
/// the background.
fn is_color(code: &[u8]) -> bool {
    matches!(code, [b'3' | b'9', b'1'..=b'6'])
}

#[cfg(test)]
mod tests;
