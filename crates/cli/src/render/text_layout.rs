//! Text layout: widths, line breaks and escaping for terminals.

use unicode_width::UnicodeWidthStr as _;

/// Width of a text in columns.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// Escapes control characters, so that names and contents of files cannot move the cursor, change
/// the terminal title or the text direction.
pub(crate) fn escape_control(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_direction_mark(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Escapes control characters in a text of several lines, except tabs.
pub(crate) fn escape_control_lines(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let bare = part.trim_end_matches(['\r', '\n', '\t']);
        escaped.push_str(&escape_control(bare));
        escaped.extend(part.strip_prefix(bare));
    }
    escaped
}

/// True for characters that change the direction of the text around them.
pub(super) fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Shortens a text to a width, with `ellipsis` at the end if it is cut.
pub(crate) fn truncate_to_width(text: &str, width: usize, ellipsis: &str) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let available = width.saturating_sub(display_width(ellipsis));
    format!("{}{ellipsis}", &text[..fitting_bytes(text, available)].trim_end())
}

/// Wraps a text to lines of at most `width` columns, between words if possible. The last of
/// `max_lines` lines ends with `ellipsis` if the text is longer.
pub(crate) fn wrap_text(text: &str, width: usize, max_lines: usize, ellipsis: &str) -> Vec<String> {
    let mut wrapped = Vec::new();
    let mut rest = text.trim();
    while display_width(rest) > width && wrapped.len() + 1 < max_lines {
        let fits = fitting_bytes(rest, width).max(rest.chars().next().map_or(0, char::len_utf8));
        // A space directly after the last fitting column can be used for the break.
        let space = rest[..fits + usize::from(rest[fits..].starts_with(' '))].rfind(' ');
        let end = space.filter(|end| *end > 0).unwrap_or(fits);
        let (line, remaining) = rest.split_at(end);
        wrapped.push(line.trim_end().to_owned());
        rest = remaining.trim_start();
    }
    wrapped.push(truncate_to_width(rest, width, ellipsis));
    wrapped
}

/// Number of bytes that fit into a width.
///
/// Measures whole prefixes, since the width of a text is not the sum of the widths of its
/// characters: some characters change the display of others.
fn fitting_bytes(text: &str, width: usize) -> usize {
    // Bounds the work for texts with many zero-width characters.
    let chars = text.char_indices().take(4 * width + 16);
    chars
        .map(|(start, c)| start + c.len_utf8())
        .take_while(|end| display_width(&text[..*end]) <= width)
        .last()
        .unwrap_or(0)
}

/// Pads a text with spaces to a width.
pub(crate) fn pad_to_width(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(display_width(text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Formats a count with a noun: `1 error`, `2 errors`.
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests;
