//! Secrets taken out of what leaves a process.
//!
//! A secret is known by its value, never by the name of a field: `author` and `token_count` pass,
//! and a password is found wherever it turns up: as it is, escaped, or packed into base64.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Json;

/// What stands for a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Shorter values are not looked for: they would be found everywhere.
pub const SHORTEST_SECRET: usize = 6;

/// Values that must not be seen.
#[derive(Clone, Default)]
pub struct Secrets {
    /// What is looked for, the longest first, so that no part of one is left beside a mark.
    patterns: Vec<Arc<str>>,
}

impl Secrets {
    /// Whether nothing is to be hidden.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Hides every text in a value, wherever it turns up from now on. Numbers count as their digits.
    pub fn add(&mut self, value: &Json) {
        match value {
            Json::Str(text) => self.add_text(text),
            Json::Int(number) => self.add_text(&number.to_string()),
            Json::UInt(number) => self.add_text(&number.to_string()),
            Json::List(items) => items.iter().for_each(|item| self.add(item)),
            Json::Map(fields) => fields.values().for_each(|field| self.add(field)),
            Json::Null | Json::Bool(_) | Json::Float(_) => {}
        }
    }

    /// Hides a text. Of one with several lines, such as a private key, each line counts as well.
    pub fn add_text(&mut self, text: &str) {
        let mut found: BTreeSet<Arc<str>> = self.patterns.drain(..).collect();
        let lines = text.lines().filter(|_| text.contains('\n'));
        for part in std::iter::once(text).chain(lines) {
            if part.trim().chars().count() >= SHORTEST_SECRET {
                found.extend(forms(part).map(Arc::from));
            }
        }
        self.patterns = found.into_iter().collect();
        self.patterns
            .sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
    }

    /// A text without them; nothing where there was nothing to hide.
    pub fn hidden_in(&self, text: &str) -> Option<String> {
        let mut hidden: Option<String> = None;
        for pattern in &self.patterns {
            let current = hidden.as_deref().unwrap_or(text);
            if current.contains(&**pattern) {
                hidden = Some(current.replace(&**pattern, REDACTED));
            }
        }
        hidden
    }

    /// A value without them.
    #[must_use]
    pub fn hide(&self, value: Json) -> Json {
        if self.is_empty() {
            return value;
        }
        match value {
            Json::Str(text) => match self.hidden_in(&text) {
                Some(hidden) => Json::from(hidden),
                None => Json::Str(text),
            },
            Json::Int(number) => self.hide_number(&number.to_string(), Json::Int(number)),
            Json::UInt(number) => self.hide_number(&number.to_string(), Json::UInt(number)),
            Json::List(items) => Json::list(items.iter().map(|item| self.hide(item.clone()))),
            Json::Map(fields) => {
                let field = |(key, value): (&Arc<str>, &Json)| {
                    let hidden = self.hidden_in(key);
                    let key = hidden.map_or_else(|| Arc::clone(key), Arc::from);
                    (key, self.hide(value.clone()))
                };
                Json::object(fields.iter().map(field))
            }
            Json::Null | Json::Bool(_) | Json::Float(_) => value,
        }
    }

    fn hide_number(&self, digits: &str, value: Json) -> Json {
        self.hidden_in(digits).map_or(value, Json::from)
    }
}

/// Values that must not be seen, known to everybody who works on the same.
#[derive(Clone, Default)]
pub struct Hidden(Arc<Mutex<Secrets>>);

impl Hidden {
    /// Hides every text in a value from now on.
    pub fn add(&self, value: &Json) {
        self.secrets().add(value);
    }

    /// What is hidden by now.
    pub fn known(&self) -> Secrets {
        self.secrets().clone()
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        // Secrets are only ever added, so what a panic leaves behind is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Secrets do not print.
impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// A text in every form in which it may turn up.
fn forms(text: &str) -> impl Iterator<Item = String> {
    let escaped = serde_json::to_string(text).unwrap_or_default();
    let inside = 1..escaped.len().saturating_sub(1);
    let escaped = escaped.get(inside).unwrap_or(text).to_owned();
    let (upper, lower) = (percent(text, false), percent(text, true));
    let plain = [
        text.to_owned(),
        escaped,
        upper.replace("%20", "+"),
        upper,
        lower,
    ];
    plain.into_iter().chain(packed(text.as_bytes()))
}

/// Percent-encoded, as in an address.
fn percent(text: &str, is_lower: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else if is_lower {
            encoded.push_str(&format!("%{byte:02x}"));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// In base64, alone or in the middle of something longer, of either alphabet. What comes before
/// shifts the text by none, one or two bytes, and the characters at either edge hold bits of the
/// neighbours: those in between are the same whatever stands around.
fn packed(bytes: &[u8]) -> impl Iterator<Item = String> {
    let shifted = (0..3).map(move |shift| {
        let mut padded = vec![0; shift];
        padded.extend(bytes);
        let first = (shift * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        sextets(&padded)
            .take(last)
            .skip(first)
            .collect::<Vec<usize>>()
    });
    let long_enough = shifted.filter(|sextets| sextets.len() >= SHORTEST_SECRET);
    long_enough.flat_map(|sextets| {
        ["+/", "-_"].map(|ends| {
            let alphabet: Vec<char> = ('A'..='Z')
                .chain('a'..='z')
                .chain('0'..='9')
                .chain(ends.chars())
                .collect();
            sextets.iter().map(|sextet| alphabet[*sextet]).collect()
        })
    })
}

/// A text of bytes as numbers of six bits; bits that are missing at the end are zero.
fn sextets(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks(3).flat_map(|chunk| {
        let byte = |index: usize| usize::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| bits >> shift & 63)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(texts: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        for text in texts {
            secrets.add_text(text);
        }
        secrets
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let secrets = secrets(&["p@ss w\"rd/1"]);
        for text in [
            "p@ss w\"rd/1",
            "{\"password\":\"p@ss w\\\"rd/1\"}",
            "https://h/?p=p%40ss%20w%22rd%2F1&x=1",
            "p=p%40ss+w%22rd%2F1",
            "p%40ss%20w%22rd%2f1",
            // The base64 of `user:p@ss w"rd/1`, as in a header.
            "Basic dXNlcjpwQHNzIHcicmQvMQ==",
        ] {
            let hidden = secrets.hidden_in(text).unwrap_or_else(|| panic!("{text}"));
            assert!(hidden.contains(REDACTED), "{hidden}");
        }
        assert_eq!(secrets.hidden_in("author, token_count, 12345"), None);
    }

    #[test]
    fn short_values_and_names_of_fields_hide_nothing() {
        let secrets = secrets(&["abc12", "     a      "]);
        assert!(secrets.is_empty());
        assert_eq!(secrets.hidden_in("password: abc12"), None);
    }

    #[test]
    fn the_longest_goes_first() {
        let secrets = secrets(&["hunter", "hunter22"]);
        assert_eq!(
            secrets.hidden_in("hunter22 hunter").unwrap(),
            "[REDACTED] [REDACTED]"
        );
    }

    #[test]
    fn lines_of_a_key_are_hidden_too() {
        let secrets = secrets(&["-----BEGIN-----\nMIIEvQIBADAN\n-----END-----"]);
        assert!(secrets.hidden_in("got MIIEvQIBADAN").is_some());
    }

    #[test]
    fn values_are_hidden_at_every_depth() {
        let mut secrets = Secrets::default();
        secrets.add(
            &crate::json::parse(br#"{"user":"ada","pin":[12345678],"key":"sesame-1"}"#).unwrap(),
        );
        let value =
            crate::json::parse(br#"{"a":[{"sesame-1":"x sesame-1 y"}],"n":12345678,"m":1}"#);
        let hidden = secrets.hide(value.unwrap());
        assert_eq!(
            hidden.to_string(),
            r#"{"a":[{"[REDACTED]":"x [REDACTED] y"}],"m":1,"n":"[REDACTED]"}"#
        );
    }

    proptest! {
        #[test]
        fn base64_around_a_secret_hides_it(
            before in "[ -~]{0,9}",
            secret in "[!-~]{8,40}",
            after in "[ -~]{0,9}",
        ) {
            let whole = format!("{before}{secret}{after}");
            let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("+/".chars()).collect();
            let packed: String = sextets(whole.as_bytes()).map(|sextet| alphabet[sextet]).collect();
            prop_assert!(secrets(&[&secret]).hidden_in(&packed).is_some());
        }

        #[test]
        fn nothing_of_a_secret_is_left(secret in "\\PC{6,30}", around in "\\PC{0,20}") {
            prop_assume!(secret.trim().chars().count() >= SHORTEST_SECRET);
            prop_assume!(!REDACTED.contains(&secret));
            let text = format!("{around}{secret}{around}");
            let hidden = secrets(&[&secret]).hidden_in(&text).unwrap();
            prop_assert!(hidden.contains(REDACTED));
        }
    }
}
