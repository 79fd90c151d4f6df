//! Fitting text into columns: widths, line breaks, and texts that a terminal can be trusted with.

use unicode_width::UnicodeWidthStr as _;

/// How many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// A text whose control characters are written out, so that a file's name or content can not move
/// the cursor, change the title of the reader's terminal, or turn the direction of what follows.
pub(crate) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || turns_direction(letter) {
            visible.extend(letter.escape_unicode());
        } else {
            visible.push(letter);
        }
    }
    visible
}

/// The same of a text of several lines, which keeps its tabs.
pub(crate) fn visible_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let bare = part.trim_end_matches(['\r', '\n', '\t']);
        shown.push_str(&visible(bare));
        shown.extend(part.strip_prefix(bare));
    }
    shown
}

fn turns_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text, with `ellipsis` at its end where that is not all of it.
pub(crate) fn shorten(text: &str, width: usize, ellipsis: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(ellipsis));
    format!("{}{ellipsis}", &text[..fitting(text, room)].trim_end())
}

/// A text in lines of at most `width` columns, broken between words where possible; the last of
/// `lines` lines ends in `ellipsis` where the text is longer.
pub(crate) fn wrap(text: &str, width: usize, lines: usize, ellipsis: &str) -> Vec<String> {
    let mut wrapped = Vec::new();
    let mut rest = text.trim();
    while columns(rest) > width && wrapped.len() + 1 < lines {
        let fits = fitting(rest, width).max(rest.chars().next().map_or(0, char::len_utf8));
        // A space right behind the last column that fits is as good as one before it.
        let space = rest[..fits + usize::from(rest[fits..].starts_with(' '))].rfind(' ');
        let at = space.filter(|at| *at > 0).unwrap_or(fits);
        let (line, more) = rest.split_at(at);
        wrapped.push(line.trim_end().to_owned());
        rest = more.trim_start();
    }
    wrapped.push(shorten(rest, width, ellipsis));
    wrapped
}

/// How many bytes of a text fit into this many columns.
///
/// Beginnings are measured whole: the width of a text is not the sum of the widths of its letters,
/// since some change how others look.
fn fitting(text: &str, width: usize) -> usize {
    // Letters without any width could go on for ever.
    let letters = text.char_indices().take(4 * width + 16);
    letters
        .map(|(at, letter)| at + letter.len_utf8())
        .take_while(|end| columns(&text[..*end]) <= width)
        .last()
        .unwrap_or(0)
}

/// A text with blanks behind it, up to this many columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(columns(text));
    format!("{text}{}", " ".repeat(blanks))
}

/// `1 error`, `2 errors`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn breaks_between_words() {
        assert_eq!(wrap("one two three", 7, 9, "…"), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 9, "…"), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4, 9, "…"), ["unbr", "eaka", "ble"]);
        assert_eq!(wrap("one two three four", 7, 2, "…"), ["one two", "three…"]);
        assert_eq!(wrap("日本語", 4, 9, "…"), ["日本", "語"]);
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(visible("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(visible("x\u{202e}gpj.é"), "x\\u{202e}gpj.é");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(text in "\\PC{0,80}", width in 2usize..30, lines in 1usize..5) {
            let wrapped = wrap(&text, width, lines, "…");
            prop_assert!(wrapped.len() <= lines);
            for line in wrapped {
                prop_assert!(columns(&line) <= width, "{line:?} is wider than {width}");
            }
        }

        #[test]
        fn nothing_is_lost_where_there_is_room(text in "[a-z ]{0,60}", width in 2usize..30) {
            let wrapped = wrap(&text, width, usize::MAX, "…").concat();
            prop_assert_eq!(wrapped.replace(' ', ""), text.replace(' ', ""));
        }
    }
}
