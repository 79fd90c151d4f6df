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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escape_text(text: &str) -> String {
        let mut escaper = TerminalEscaper::default();
        let escaped = [escaper.escape(text.as_bytes()), escaper.escape_rest()].concat();
        String::from_utf8(escaped).unwrap()
    }

    #[test]
    fn control_characters_are_escaped() {
        for (text, escaped) in [
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{1b}[2J\u{1b}[8mhidden", "\\u001b[2J\\u001b[8mhidden"),
            ("\u{1b}[30m\u{1b}[38;5;0m", "\\u001b[30m\\u001b[38;5;0m"),
            ("\u{9b}2J\u{9d}", "\\u009b2J\\u009d"),
            ("a\rb\u{8}\u{7f}", "a\\u000db\\u0008\\u007f"),
            ("x\u{202e}gpj\u{2066}\u{61c}", "x\\u202egpj\\u2066\\u061c"),
            ("\u{1b}[", "\\u001b["),
        ] {
            assert_eq!(escape_text(text), escaped);
        }
    }

    #[test]
    fn text_and_own_styles_pass() {
        use crate::render::palette;
        for style in [palette::NAME, palette::MUTED, palette::FAILURE, palette::JOIN] {
            let text = format!("{style}é 日本\t{style:#}\r\n");
            assert_eq!(escape_text(&text), text);
        }
    }

    /// Escaped JSON is valid and has the same value.
    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a\u{9b}": "\u{1b}[2J\u{202e}\u{7f}é" });
        let escaped = escape_text(&value.to_string());
        assert!(escaped.chars().all(|c| !c.is_control() && !is_direction_mark(c)), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    proptest! {
        #[test]
        fn splitting_changes_nothing(text in "(\\x1b|\\[|[0-9;m]|\r|\n|é|日){0,30}", at in 0usize..90) {
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            let mut escaper = TerminalEscaper::default();
            let mut split = escaper.escape(first);
            split.extend(escaper.escape(second));
            split.extend(escaper.escape_rest());
            prop_assert_eq!(String::from_utf8(split).unwrap(), escape_text(&text));
        }
    }
}
