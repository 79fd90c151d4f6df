use proptest::prelude::*;

use super::*;

#[test]
fn wraps_between_words() {
    assert_eq!(wrap_text("one two three", 7, 9, "…"), ["one two", "three"]);
    assert_eq!(wrap_text("one two three", 8, 9, "…"), ["one two", "three"]);
    assert_eq!(wrap_text("unbreakable", 4, 9, "…"), ["unbr", "eaka", "ble"]);
    assert_eq!(wrap_text("one two three four", 7, 2, "…"), ["one two", "three…"]);
    assert_eq!(wrap_text("日本語", 4, 9, "…"), ["日本", "語"]);
}

#[test]
fn escapes_control_characters() {
    assert_eq!(escape_control("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\u{a}");
    assert_eq!(escape_control("x\u{202e}gpj.é"), "x\\u{202e}gpj.é");
}

proptest! {
    #[test]
    fn no_line_exceeds_width(text in "\\PC{0,80}", width in 2usize..30, lines in 1usize..5) {
        let wrapped = wrap_text(&text, width, lines, "…");
        prop_assert!(wrapped.len() <= lines);
        for line in wrapped {
            prop_assert!(display_width(&line) <= width, "{line:?} is wider than {width}");
        }
    }

    #[test]
    fn wrapping_keeps_all_letters(text in "[a-z ]{0,60}", width in 2usize..30) {
        let wrapped = wrap_text(&text, width, usize::MAX, "…").concat();
        prop_assert_eq!(wrapped.replace(' ', ""), text.replace(' ', ""));
    }
}
