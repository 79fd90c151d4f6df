//! How a text may be written: as it is, escaped as in JSON, percent-encoded as in an address, or
//! with breaks of lines in it.
//!
//! Encoders differ in what they escape, and escape what others have escaped before. So nothing is
//! encoded here: a text is read, and wherever it may mean several things, all of them count.

use super::SHORTEST_SECRET;

/// Backslashes that may stand before one character: each encoder doubles them.
const MOST_BACKSLASHES: usize = 8;
/// A text is cut only where it is long.
const SHORTEST_CUT: usize = 1024;
/// The longest thing that stands for one character.
const LONGEST_ESCAPE: usize = 2 * (MOST_BACKSLASHES + 5);
/// What cutters put behind the place of the cut, or leave of the character there.
const MARKS_OF_A_CUT: [char; 2] = ['…', '\u{FFFD}'];

/// A text in which something is looked for.
pub(super) struct Written<'t> {
    text: &'t [u8],
    /// Where it ends, as far as it may have been cut there.
    cut: Option<usize>,
    /// Where the readings of what was looked at so far end, and those with one character more.
    ends: Vec<usize>,
    longer: Vec<usize>,
}

impl<'t> Written<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let whole = text.trim_end_matches(MARKS_OF_A_CUT).len();
        Self {
            text: text.as_bytes(),
            cut: (whole >= SHORTEST_CUT).then_some(whole),
            ends: Vec::new(),
            longer: Vec::new(),
        }
    }

    /// Where a needle ends that begins at a place. One that the text ends within ends with it.
    pub(super) fn end_of(&mut self, needle: &str, start: usize) -> Option<usize> {
        self.ends.clear();
        self.ends.push(start);
        for (count, wanted) in needle.chars().enumerate() {
            self.longer.clear();
            for at in &self.ends {
                readings(self.text, *at, wanted, &mut self.longer);
                if count > 0
                    && let Some(next) = line_break(self.text, *at)
                {
                    readings(self.text, next, wanted, &mut self.longer);
                }
            }
            if self.longer.is_empty() {
                let is_cut =
                    count >= SHORTEST_SECRET && self.ends.iter().any(|at| self.ends_at(*at));
                return is_cut.then_some(self.cut?);
            }
            self.longer.sort_unstable();
            self.longer.dedup();
            std::mem::swap(&mut self.ends, &mut self.longer);
        }
        self.ends.last().copied()
    }

    /// Whether nothing comes at a place but perhaps half of an escape.
    fn ends_at(&self, at: usize) -> bool {
        let rest = self.cut.and_then(|cut| self.text.get(at..cut));
        rest.is_some_and(|rest| match rest {
            [] => true,
            [b'%' | b'\\', ..] => rest.len() < LONGEST_ESCAPE,
            _ => false,
        })
    }
}

/// Notes where a character ends that may be written at a place.
fn readings(text: &[u8], at: usize, wanted: char, ends: &mut Vec<usize>) {
    let Some(rest) = text.get(at..) else { return };
    let mut buffer = [0; 4];
    let plain = wanted.encode_utf8(&mut buffer).as_bytes();
    if rest.starts_with(plain) {
        ends.push(at + plain.len());
    }
    match rest.first() {
        Some(b'\\') => escaped(rest, wanted, |length| ends.push(at + length)),
        Some(b'%') => ends.extend(percent(rest, plain).map(|length| at + length)),
        Some(b'+') if wanted == ' ' => ends.push(at + 1),
        Some(_) | None => {}
    }
}

/// Tells the lengths of what stands for a character behind backslashes.
fn escaped(rest: &[u8], wanted: char, mut tell: impl FnMut(usize)) {
    let run = backslashes(rest);
    if wanted == '\\' {
        (2..=run).for_each(&mut tell);
    }
    let letter = match wanted {
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '"' | '\'' | '/' => wanted as u8,
        _ => b'u',
    };
    if letter != b'u' && rest.get(run) == Some(&letter) {
        tell(run + 1);
    }
    let mut units = [0; 2];
    let units = wanted.encode_utf16(&mut units);
    let mut length = 0;
    for unit in units {
        let Some(rest) = rest.get(length..) else {
            return;
        };
        let run = backslashes(rest);
        let digits = rest.get(run + 1..run + 5);
        if run == 0 || rest.get(run) != Some(&b'u') || digits.and_then(number) != Some(*unit) {
            return;
        }
        length += run + 5;
    }
    tell(length);
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

/// The length of what stands for some bytes, each with its percent sign.
fn percent(rest: &[u8], plain: &[u8]) -> Option<usize> {
    let length = plain.len() * 3;
    let codes = rest.get(..length)?.chunks_exact(3);
    let is_it = |(code, byte): (&[u8], &u8)| {
        code[0] == b'%' && number(&code[1..]) == Some(u16::from(*byte))
    };
    codes.zip(plain).all(is_it).then_some(length)
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

    fn end(needle: &str, text: &str) -> Option<usize> {
        Written::new(text).end_of(needle, 0)
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
        for text in ["p@ß", "p@ss", "p%4", r"p@\u00d", "P@ß \"1\\/", "\n", ""] {
            assert_eq!(end("p@ß \"1\\/", text), None, "{text}");
        }
    }

    #[test]
    fn readings_do_not_multiply() {
        let text = "\\".repeat(4000);
        assert!(end(&"\\".repeat(400), &text).is_some());
        assert_eq!(end(&format!("{}x", "\\".repeat(400)), &text), None);
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
            let found = Written::new(&text).end_of("canary-sings", long.len());
            assert_eq!(found.is_some(), is_cut, "{rest}");
        }
        assert_eq!(end("canary-sings", "canary-"), None);
    }
}
