//! How a text may be written: as it is, escaped as in JSON, percent-encoded as in an address, or
//! with breaks of lines in it.
//!
//! Encoders differ in what they escape, and escape what others have escaped before. So nothing is
//! encoded here: a text is read, and wherever it may mean several things, all of them count.
//!
//! The work is in proportion to the text, whatever is looked for in it: all needles are followed at
//! once, since those that begin alike stand together; from each place only so many characters are
//! read freely and in one way, and what is read beyond them all in all is a small multiple of the text.

use std::sync::Arc;

use super::SHORTEST_SECRET;

/// Backslashes that may stand before one character: each encoder doubles them.
const MOST_BACKSLASHES: usize = 8;
/// A text without a mark at its end is cut only where it is long.
const SHORTEST_CUT: usize = 1024;
/// The longest thing that stands for one character.
const LONGEST_ESCAPE: usize = 2 * (MOST_BACKSLASHES + 5);
/// What cutters put behind the place of the cut, or leave of the character there.
const MARKS_OF_A_CUT: [&str; 2] = ["…", "\u{FFFD}"];
/// Characters that are read from every place where a needle may begin.
const FREE: usize = 64;
/// Characters that are read beyond those, or in yet another way, for each byte of a text, and in any.
const BEYOND_PER_BYTE: usize = 2;
const BEYOND: usize = 4096;
/// Readings of the same characters that are kept in mind: those that end first and those that end
/// last. More there are only of long runs of backslashes, where these lead to all that follows.
const MOST_READINGS: usize = 128;

/// A text in which needles are looked for.
pub(super) struct Written<'t> {
    text: &'t str,
    needles: &'t [Arc<str>],
    may_be_cut: bool,
    /// Characters that may still be read beyond those that are free.
    left: usize,
    /// What was read so far, and what with one character more.
    readings: Vec<Reading>,
    longer: Vec<Reading>,
}

/// Some characters of a text, read in one of the ways that they may be meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reading {
    /// Where they end.
    at: usize,
    /// How many bytes of a needle they are.
    depth: usize,
    /// The needles that begin with them.
    first: usize,
    end: usize,
}

impl<'t> Written<'t> {
    /// Needles have to be in the order of their bytes.
    pub(super) fn new(text: &'t str, needles: &'t [Arc<str>], may_be_cut: bool) -> Self {
        Self {
            text,
            needles,
            may_be_cut,
            left: text.len().saturating_mul(BEYOND_PER_BYTE) + BEYOND,
            readings: Vec::new(),
            longer: Vec::new(),
        }
    }

    /// Where the longest needle ends that begins at a place. One that the text is cut within ends
    /// there. Once too much was read, all that follows counts as one: that only happens where needles
    /// and text repeat themselves over and over.
    pub(super) fn end_from(&mut self, start: usize) -> Option<usize> {
        let mut found = None;
        self.readings.clear();
        self.readings.push(Reading {
            at: start,
            depth: 0,
            first: 0,
            end: self.needles.len(),
        });
        for count in 1_usize.. {
            self.read_on(count);
            if self.readings.is_empty() {
                break;
            }
            for reading in &self.readings {
                let is_whole = self.needles[reading.first].len() == reading.depth;
                let may_be_cut = self.may_be_cut && count >= SHORTEST_SECRET;
                let whole = is_whole.then_some(reading.at);
                let cut = may_be_cut.then(|| cut_at(self.text, reading.at));
                found = found.max(whole).max(cut.flatten());
            }
            let free = usize::from(count <= FREE);
            self.left = self.left.saturating_sub(self.readings.len() - free);
            if self.left == 0 {
                return Some(self.text.len());
            }
        }
        found
    }

    /// Reads one character more.
    fn read_on(&mut self, count: usize) {
        self.longer.clear();
        for reading in &self.readings {
            let next = (count > 1).then(|| line_break(self.text.as_bytes(), reading.at));
            for at in std::iter::once(reading.at).chain(next.flatten()) {
                characters(self.text, at, |character, at| {
                    self.longer
                        .extend(narrowed(self.needles, reading, character, at));
                });
            }
        }
        std::mem::swap(&mut self.readings, &mut self.longer);
        if self.readings.len() > 1 {
            self.readings.sort_unstable();
            self.readings.dedup();
        }
        if self.readings.len() > MOST_READINGS {
            let middle = MOST_READINGS / 2..self.readings.len() - MOST_READINGS / 2;
            self.readings.drain(middle);
        }
    }
}

/// A reading with one character more, if a needle goes on like that.
fn narrowed(
    needles: &[Arc<str>],
    reading: &Reading,
    character: char,
    at: usize,
) -> Option<Reading> {
    let mut buffer = [0; 4];
    let wanted = character.encode_utf8(&mut buffer).as_bytes();
    let goes_on = |needle: &Arc<str>| {
        let rest = &needle.as_bytes()[reading.depth..];
        rest[..rest.len().min(wanted.len())].cmp(wanted)
    };
    let needles = &needles[reading.first..reading.end];
    let (first, end) = if let [only] = needles {
        (0, usize::from(goes_on(only).is_eq()))
    } else {
        let first = needles.partition_point(|needle| goes_on(needle).is_lt());
        let those = &needles[first..];
        let count = those.partition_point(|needle| goes_on(needle).is_eq());
        (first, first + count)
    };
    (first < end).then(|| Reading {
        at,
        depth: reading.depth + wanted.len(),
        first: reading.first + first,
        end: reading.first + end,
    })
}

/// Where a text is cut, if nothing comes between a place and the cut but perhaps half of an escape.
fn cut_at(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    let half = match rest.first() {
        Some(b'%' | b'\\') => {
            let is_of_escape =
                |byte: &&u8| matches!(byte, b'%' | b'\\' | b'u') || byte.is_ascii_hexdigit();
            let escape = rest.iter().take(LONGEST_ESCAPE);
            escape.take_while(is_of_escape).count()
        }
        Some(_) | None => 0,
    };
    let cut = at + half;
    let mut marks = MARKS_OF_A_CUT.iter();
    let is_cut = if cut == text.len() {
        cut >= SHORTEST_CUT
    } else {
        marks.any(|mark| rest[half..].starts_with(mark.as_bytes()))
    };
    is_cut.then_some(cut)
}

/// Tells which characters may be written at a place, and where they end.
fn characters(text: &str, at: usize, mut tell: impl FnMut(char, usize)) {
    let Some(plain) = text.get(at..).and_then(|rest| rest.chars().next()) else {
        return;
    };
    tell(plain, at + plain.len_utf8());
    let rest = &text.as_bytes()[at..];
    match plain {
        '\\' => escaped(rest, |character, length| tell(character, at + length)),
        '%' => {
            if let Some((character, length)) = percent(rest) {
                tell(character, at + length);
            }
        }
        '+' => tell(' ', at + 1),
        _ => {}
    }
}

/// Tells what may stand behind backslashes, and the lengths of it all.
fn escaped(rest: &[u8], mut tell: impl FnMut(char, usize)) {
    let run = backslashes(rest);
    (2..=run).for_each(|length| tell('\\', length));
    let character = match rest.get(run) {
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(mark @ (b'"' | b'\'' | b'/')) => char::from(*mark),
        Some(b'u') => {
            if let Some((character, length)) = numbered(rest) {
                tell(character, length);
            }
            return;
        }
        Some(_) | None => return,
    };
    tell(character, run + 1);
}

/// A character that is written as one number of UTF-16, or as two.
fn numbered(rest: &[u8]) -> Option<(char, usize)> {
    let (first, length) = unit(rest)?;
    let alone = char::decode_utf16([first]).next()?;
    if let Ok(character) = alone {
        return Some((character, length));
    }
    let (second, more) = unit(rest.get(length..)?)?;
    let pair = char::decode_utf16([first, second]).next()?;
    Some((pair.ok()?, length + more))
}

fn unit(rest: &[u8]) -> Option<(u16, usize)> {
    let run = backslashes(rest);
    let is_unit = run > 0 && rest.get(run) == Some(&b'u');
    let digits = rest.get(run + 1..run + 5).filter(|_| is_unit)?;
    Some((number(digits)?, run + 5))
}

fn backslashes(rest: &[u8]) -> usize {
    let run = rest.iter().take(MOST_BACKSLASHES);
    run.take_while(|byte| **byte == b'\\').count()
}

fn number(digits: &[u8]) -> Option<u16> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let number = digits
        .iter()
        .try_fold(0, |sum, byte| Some(sum * 16 + digit(byte)?))?;
    u16::try_from(number).ok()
}

/// The character whose bytes stand at a place, each with its percent sign.
fn percent(rest: &[u8]) -> Option<(char, usize)> {
    let byte = |place: usize| {
        let code = rest.get(place * 3..place * 3 + 3)?;
        let number = number(&code[1..]).filter(|_| code[0] == b'%')?;
        u8::try_from(number).ok()
    };
    let count = match byte(0)? {
        0x00..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    };
    let mut bytes = [0; 4];
    for (place, slot) in bytes.iter_mut().take(count).enumerate() {
        *slot = byte(place)?;
    }
    let character = std::str::from_utf8(&bytes[..count]).ok()?.chars().next()?;
    Some((character, count * 3))
}

/// Where a line begins, if one ends at a place, whether its end is escaped or not.
fn line_break(text: &[u8], at: usize) -> Option<usize> {
    let after = |at: usize, plain: u8, letter: u8| {
        let rest = text.get(at..)?;
        let run = backslashes(rest);
        match (run, rest.get(run)) {
            (0, Some(byte)) if *byte == plain => Some(at + 1),
            (1.., Some(byte)) if *byte == letter => Some(at + run + 1),
            _ => None,
        }
    };
    let at = after(at, b'\r', b'r').unwrap_or(at);
    after(at, b'\n', b'n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_from(needle: &str, text: &str, start: usize) -> Option<usize> {
        Written::new(text, &[needle.into()], true).end_from(start)
    }

    fn end(needle: &str, text: &str) -> Option<usize> {
        end_from(needle, text, 0)
    }

    #[test]
    fn whatever_an_encoder_leaves_alone_may_stand_beside_what_it_escapes() {
        for text in [
            r#"p@ß "1\/"#,
            r#"p@ß \"1\\\/"#,
            r#"p@\u00df \\\"1\\\\\\/"#,
            "p@%C3%9F%20%221%5C/",
            "p%40%c3%9f+%221%5c%2f",
            "p@ß\n \"1\\/",
            r#"p@\u00DF \"\n1\\/"#,
        ] {
            assert_eq!(end("p@ß \"1\\/", text), Some(text.len()), "{text}");
        }
        assert_eq!(end("\u{1F600}!", r"\ud83d\ude00!"), Some(13));
        assert_eq!(end("\u{1F600}!", "%F0%9F%98%80!"), Some(13));
        for text in ["p@ß", "p@ss", "p%4", r"p@\u00d", "P@ß \"1\\/", "\n", ""] {
            assert_eq!(end("p@ß \"1\\/", text), None, "{text}");
        }
    }

    #[test]
    fn readings_do_not_multiply() {
        let text = "\\".repeat(4000);
        assert!(end(&"\\".repeat(400), &text).is_some());
        assert_eq!(end(&format!("{}x", "\\".repeat(20)), &text), None);
    }

    #[test]
    fn where_too_much_would_be_read_all_that_follows_is_hidden() {
        let text = "\\".repeat(4000);
        let secret = format!("{}x", "\\".repeat(400));
        assert_eq!(end(&secret, &text), Some(text.len()));
    }

    #[test]
    fn many_backslashes_are_still_read_whole() {
        let secret = format!("{}x", "\\".repeat(40));
        let text = format!("{}x", "\\".repeat(160));
        assert_eq!(end(&secret, &text), Some(text.len()));
    }

    #[test]
    fn needles_that_begin_alike_are_followed_together() {
        let needles = ["hunt", "hunter", "hunter%22", "hunting"].map(Arc::from);
        let end = |text: &str| Written::new(text, &needles, true).end_from(0);
        for (text, expected) in [
            ("hunter2", Some(6)),
            ("hunter%22", Some(9)),
            ("hunter%2522!", Some(11)),
            ("h%75nting", Some(9)),
            ("hun", None),
        ] {
            assert_eq!(end(text), expected, "{text}");
        }
    }

    #[test]
    fn what_a_long_text_ends_within_is_cut() {
        let long = " ".repeat(SHORTEST_CUT);
        for (rest, is_cut) in [
            ("canary-", true),
            ("canary-…", true),
            ("canary\u{FFFD}", true),
            ("canary%2", true),
            ("canary\\u00", true),
            ("canar", false),
            ("canaryX", false),
        ] {
            let text = format!("{long}{rest}");
            let found = end_from("canary-sings", &text, long.len());
            assert_eq!(found.is_some(), is_cut, "{rest}");
        }
        assert_eq!(end("canary-sings", "canary-"), None);
    }

    #[test]
    fn a_mark_tells_of_a_cut_in_any_text_and_anywhere_in_it() {
        for (text, expected) in [
            ("canary-s…' is no duration", Some(8)),
            ("canary\u{FFFD} and more", Some(6)),
            ("canary%2…", Some(8)),
            ("canar…", None),
            ("canary-s' is no duration…", None),
        ] {
            assert_eq!(end("canary-sings", text), expected, "{text}");
            let needle = [Arc::from("canary-sings")];
            let whole = Written::new(text, &needle, false).end_from(0);
            assert_eq!(whole, None, "{text}");
        }
    }
}
