//! Encodings of a secret inside a text: plain, JSON-escaped, percent-encoded, or with line breaks.
//!
//! Encoders differ in which characters they escape, and may escape text that is already escaped.
//! Therefore nothing is encoded here. The text is decoded instead, and every possible
//! interpretation of a character is followed.
//!
//! The work is proportional to the length of the text, independent of the patterns. All patterns
//! are matched at once, since those with a common prefix are adjacent. From each position only a
//! fixed number of characters is decoded freely and in one way. The total beyond that is limited to
//! a small multiple of the text length.

use std::sync::Arc;

use super::MIN_SECRET_CHARS;

/// Maximum backslashes before one character. Each encoder doubles them.
const MAX_BACKSLASHES: usize = 8;
/// A text without a truncation mark counts as truncated only if it is at least this long.
const MIN_TRUNCATED_BYTES: usize = 1024;
/// Maximum bytes of the encoding of one character.
const MAX_ESCAPE_BYTES: usize = 2 * (MAX_BACKSLASHES + 5);
/// Marks that truncation appends, or leaves of the last character.
const TRUNCATION_MARKS: [&str; 2] = ["…", "\u{FFFD}"];
/// Characters decoded freely from every position where a pattern may begin.
const FREE_CHARS_PER_START: usize = 64;
/// Further characters, or alternative interpretations, per byte of the text, and the minimum for
/// any text.
const EXTRA_CHARS_PER_BYTE: usize = 2;
const MIN_EXTRA_CHARS: usize = 4096;
/// Maximum interpretations of the same characters that are followed: those that end first and those
/// that end last. Only long runs of backslashes have more, and there these lead to all that follow.
const MAX_PARTIAL_MATCHES: usize = 128;

/// Matcher of patterns against one text.
pub(super) struct PatternMatcher<'t> {
    text: &'t str,
    patterns: &'t [Arc<str>],
    may_be_truncated: bool,
    /// True if text after the end could continue the last match attempt.
    may_continue: bool,
    /// Remaining characters beyond the free ones.
    budget: usize,
    /// Interpretations so far, and those with one more character.
    partial: Vec<PartialMatch>,
    next_partial: Vec<PartialMatch>,
}

/// Some characters of a text in one possible interpretation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PartialMatch {
    /// End position in the text.
    at: usize,
    /// Number of bytes of a pattern that match.
    depth: usize,
    /// Range of the patterns that begin with these characters.
    first: usize,
    end: usize,
}

impl<'t> PatternMatcher<'t> {
    /// Creates a matcher. The patterns must be sorted by bytes.
    pub(super) fn new(text: &'t str, patterns: &'t [Arc<str>], may_be_truncated: bool) -> Self {
        Self {
            text,
            patterns,
            may_be_truncated,
            may_continue: false,
            budget: text.len().saturating_mul(EXTRA_CHARS_PER_BYTE) + MIN_EXTRA_CHARS,
            partial: Vec::new(),
            next_partial: Vec::new(),
        }
    }

    /// Returns true if text after the end could lead to another result of the last
    /// [`Self::match_end`].
    pub(super) fn may_continue(&self) -> bool {
        self.may_continue
    }

    /// Returns the end of the longest match that starts at a position. A match that the text
    /// truncates ends at the truncation. When the budget is exhausted, the rest of the text counts
    /// as a match. That happens only if patterns and text are highly repetitive.
    pub(super) fn match_end(&mut self, start: usize) -> Option<usize> {
        let mut found = None;
        self.may_continue = continues_after_end(self.text, start);
        self.partial.clear();
        self.partial.push(PartialMatch { at: start, depth: 0, first: 0, end: self.patterns.len() });
        for count in 1_usize.. {
            self.advance(count);
            if self.partial.is_empty() {
                break;
            }
            for partial in &self.partial {
                let is_whole = self.patterns[partial.first].len() == partial.depth;
                let longest = &self.patterns[partial.end - 1];
                self.may_continue |=
                    longest.len() > partial.depth && continues_after_end(self.text, partial.at);
                let may_be_truncated = self.may_be_truncated && count >= MIN_SECRET_CHARS;
                let whole = is_whole.then_some(partial.at);
                let truncated = may_be_truncated.then(|| truncation_end(self.text, partial.at));
                found = found.max(whole).max(truncated.flatten());
            }
            let free = usize::from(count <= FREE_CHARS_PER_START);
            self.budget = self.budget.saturating_sub(self.partial.len() - free);
            if self.budget == 0 {
                self.may_continue = true;
                return Some(self.text.len());
            }
        }
        found
    }

    /// Advances by one character.
    fn advance(&mut self, count: usize) {
        self.next_partial.clear();
        for partial in &self.partial {
            let next = (count > 1).then(|| skip_line_break(self.text.as_bytes(), partial.at));
            for at in std::iter::once(partial.at).chain(next.flatten()) {
                decode_chars(self.text, at, |character, at| {
                    self.next_partial.extend(extend_match(self.patterns, partial, character, at));
                });
            }
        }
        std::mem::swap(&mut self.partial, &mut self.next_partial);
        if self.partial.len() > 1 {
            self.partial.sort_unstable();
            self.partial.dedup();
        }
        if self.partial.len() > MAX_PARTIAL_MATCHES {
            let middle = MAX_PARTIAL_MATCHES / 2..self.partial.len() - MAX_PARTIAL_MATCHES / 2;
            self.partial.drain(middle);
        }
    }
}

/// Extends an interpretation by one character, if a pattern continues with it.
fn extend_match(
    patterns: &[Arc<str>],
    partial: &PartialMatch,
    character: char,
    at: usize,
) -> Option<PartialMatch> {
    let mut buffer = [0; 4];
    let encoded = character.encode_utf8(&mut buffer).as_bytes();
    let compare_next = |pattern: &Arc<str>| {
        let rest = &pattern.as_bytes()[partial.depth..];
        rest[..rest.len().min(encoded.len())].cmp(encoded)
    };
    let patterns = &patterns[partial.first..partial.end];
    let (first, end) = if let [only] = patterns {
        (0, usize::from(compare_next(only).is_eq()))
    } else {
        let first = patterns.partition_point(|pattern| compare_next(pattern).is_lt());
        let candidates = &patterns[first..];
        let count = candidates.partition_point(|pattern| compare_next(pattern).is_eq());
        (first, first + count)
    };
    (first < end).then(|| PartialMatch {
        at,
        depth: partial.depth + encoded.len(),
        first: partial.first + first,
        end: partial.first + end,
    })
}

/// Returns true if the next character of a match at a position is not complete before the end of the
/// text.
fn continues_after_end(text: &str, at: usize) -> bool {
    let rest = &text.as_bytes()[at..];
    rest.len() <= MAX_ESCAPE_BYTES
        && (half_escape_bytes(rest) == rest.len()
            || rest == b"\r"
            || skip_line_break(text.as_bytes(), at) == Some(text.len()))
}

/// Returns the number of bytes that may be the beginning of an escape.
fn half_escape_bytes(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'%' | b'\\') => {
            let is_escape_byte =
                |byte: &&u8| matches!(byte, b'%' | b'\\' | b'u') || byte.is_ascii_hexdigit();
            let escape = rest.iter().take(MAX_ESCAPE_BYTES);
            escape.take_while(is_escape_byte).count()
        }
        Some(_) | None => 0,
    }
}

/// Returns the position where the text is truncated, if only half of an escape lies between `at`
/// and it.
fn truncation_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    let half_escape = half_escape_bytes(rest);
    let end = at + half_escape;
    let mut marks = TRUNCATION_MARKS.iter();
    let is_truncated = if end == text.len() {
        end >= MIN_TRUNCATED_BYTES
    } else {
        marks.any(|mark| rest[half_escape..].starts_with(mark.as_bytes()))
    };
    is_truncated.then_some(end)
}

/// Reports the characters that may be encoded at a position, and where each ends.
fn decode_chars(text: &str, at: usize, mut emit: impl FnMut(char, usize)) {
    let Some(plain) = text.get(at..).and_then(|rest| rest.chars().next()) else {
        return;
    };
    emit(plain, at + plain.len_utf8());
    let rest = &text.as_bytes()[at..];
    match plain {
        '\\' => decode_backslash_escape(rest, |character, length| emit(character, at + length)),
        '%' => {
            if let Some((character, length)) = decode_percent(rest) {
                emit(character, at + length);
            }
        }
        '+' => emit(' ', at + 1),
        _ => {}
    }
}

/// Reports the characters that may be encoded by backslashes, and the length of each encoding.
fn decode_backslash_escape(rest: &[u8], mut emit: impl FnMut(char, usize)) {
    let backslashes = count_backslashes(rest);
    (2..=backslashes).for_each(|length| emit('\\', length));
    let character = match rest.get(backslashes) {
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(mark @ (b'"' | b'\'' | b'/')) => char::from(*mark),
        Some(b'u') => {
            if let Some((character, length)) = decode_unicode_escape(rest) {
                emit(character, length);
            }
            return;
        }
        Some(_) | None => return,
    };
    emit(character, backslashes + 1);
}

/// Decodes a character written as one or two UTF-16 units.
fn decode_unicode_escape(rest: &[u8]) -> Option<(char, usize)> {
    let (first, length) = decode_utf16_unit(rest)?;
    let alone = char::decode_utf16([first]).next()?;
    if let Ok(character) = alone {
        return Some((character, length));
    }
    let (second, more) = decode_utf16_unit(rest.get(length..)?)?;
    let pair = char::decode_utf16([first, second]).next()?;
    Some((pair.ok()?, length + more))
}

fn decode_utf16_unit(rest: &[u8]) -> Option<(u16, usize)> {
    let backslashes = count_backslashes(rest);
    let is_unit = backslashes > 0 && rest.get(backslashes) == Some(&b'u');
    let digits = rest.get(backslashes + 1..backslashes + 5).filter(|_| is_unit)?;
    Some((parse_hex_u16(digits)?, backslashes + 5))
}

fn count_backslashes(rest: &[u8]) -> usize {
    let backslashes = rest.iter().take(MAX_BACKSLASHES);
    backslashes.take_while(|byte| **byte == b'\\').count()
}

fn parse_hex_u16(digits: &[u8]) -> Option<u16> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let number = digits.iter().try_fold(0, |sum, byte| Some(sum * 16 + digit(byte)?))?;
    u16::try_from(number).ok()
}

/// Decodes a percent-encoded character.
fn decode_percent(rest: &[u8]) -> Option<(char, usize)> {
    let byte = |index: usize| {
        let code = rest.get(index * 3..index * 3 + 3)?;
        let number = parse_hex_u16(&code[1..]).filter(|_| code[0] == b'%')?;
        u8::try_from(number).ok()
    };
    let count = match byte(0)? {
        0x00..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    };
    let mut bytes = [0; 4];
    for (index, byte_slot) in bytes.iter_mut().take(count).enumerate() {
        *byte_slot = byte(index)?;
    }
    let character = std::str::from_utf8(&bytes[..count]).ok()?.chars().next()?;
    Some((character, count * 3))
}

/// Returns the position after a line break at `at`, plain or escaped.
fn skip_line_break(text: &[u8], at: usize) -> Option<usize> {
    let after = |at: usize, plain: u8, escape: u8| {
        let rest = text.get(at..)?;
        let backslashes = count_backslashes(rest);
        match (backslashes, rest.get(backslashes)) {
            (0, Some(byte)) if *byte == plain => Some(at + 1),
            (1.., Some(byte)) if *byte == escape => Some(at + backslashes + 1),
            _ => None,
        }
    };
    let at = after(at, b'\r', b'r').unwrap_or(at);
    after(at, b'\n', b'n')
}

#[cfg(test)]
mod tests;
