//! Secrets that are numbers, or that a program can read as numbers.
//!
//! The number that a program makes from `0012-3456` or `1234.50` has another text than the secret.
//! Numbers in data are therefore compared by value. The sign is ignored.

/// Longest text that is read as a number.
const MAX_NUMBER_CHARS: usize = 64;
/// Characters that group the digits of a number.
const GROUPING: [char; 5] = [' ', '-', ',', '_', '\''];
/// Minimum digits of a number with decimal places that is unlikely to occur by chance.
const MIN_DECIMAL_DIGITS: usize = 4;

/// The value of a number: the bits of its magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NumberKey(u64);

impl NumberKey {
    /// True if the number is unlikely to occur in data by chance: it has at least `min_digits`
    /// digits, or [`MIN_DECIMAL_DIGITS`] if it has decimal places. Leading zeros do not count.
    pub(super) fn is_distinctive(self, min_digits: usize) -> bool {
        let text = f64::from_bits(self.0).to_string();
        let min_digits = if text.contains('.') { MIN_DECIMAL_DIGITS } else { min_digits };
        let digits = text.trim_start_matches(['0', '.']).bytes().filter(u8::is_ascii_digit);
        digits.count() >= min_digits
    }
}

/// Returns the numbers that a text can be read as: the number itself, and the one without the
/// characters that group its digits.
pub(super) fn read_numbers(text: &str) -> impl Iterator<Item = NumberKey> {
    let is_number = |text: &&str| {
        let is_number_char =
            |c: char| c.is_ascii_digit() || GROUPING.contains(&c) || ".+eE".contains(c);
        text.len() <= MAX_NUMBER_CHARS
            && text.contains(|c: char| c.is_ascii_digit())
            && text.chars().all(is_number_char)
    };
    let text = Some(text).filter(is_number);
    let whole = text.and_then(parse_number);
    let joined = text.filter(|text| text.contains(GROUPING)).and_then(|text| {
        let digits: String = text.chars().filter(|c| !GROUPING.contains(c)).collect();
        parse_number(&digits)
    });
    [whole, joined].into_iter().flatten()
}

fn parse_number(text: &str) -> Option<NumberKey> {
    let number: f64 = text.parse().ok()?;
    number.is_finite().then(|| NumberKey(number.abs().to_bits()))
}

/// Returns the digits of a decimal number without its leading zeros, and without the zeros at the
/// end of its decimal places. `None` if the text is another one.
pub(super) fn plain_form(text: &str) -> Option<&str> {
    let is_decimal = text.len() <= MAX_NUMBER_CHARS
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && text.matches('.').count() <= 1;
    let plain = Some(text).filter(|_| is_decimal)?.trim_start_matches('0');
    let plain =
        if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { plain };
    (plain.len() < text.len()).then_some(plain)
}

#[cfg(test)]
mod tests;
