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
