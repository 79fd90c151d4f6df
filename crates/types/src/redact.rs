//! Secrets taken out of what leaves a process.
//!
//! A secret is known by its value, never by the name of a field: `author` and `token_count` pass,
//! and a password is found wherever it turns up: as it is, escaped, or packed into base64.

mod packed;
mod runs;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Json, JsonMap, TaskError, Text};
use packed::packed;
pub use runs::SecretsOfRuns;
use written::Written;

/// What stands for a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Shorter values are not looked for: they would be found everywhere.
pub const SHORTEST_SECRET: usize = 6;
/// How much is looked for in all that is done for a run: a run that resolves ever more secrets
/// looks for the others where they are used.
const MOST_OF_A_RUN: usize = 2_000;
/// What an escaped character begins with.
const ESCAPES: [u8; 2] = *b"\\%";

/// Values that must not be seen.
#[derive(Clone, Default)]
pub struct Secrets {
    /// What is looked for, by the byte that it begins with.
    needles: BTreeMap<u8, BTreeSet<Arc<str>>>,
    /// The bytes that one of them may begin with, however it is written.
    begins: Bytes,
}

impl Secrets {
    /// Whether nothing is to be hidden.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// How much is looked for.
    fn len(&self) -> usize {
        self.needles.values().map(BTreeSet::len).sum()
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
        let lines = text.lines().filter(|_| text.contains('\n'));
        for part in std::iter::once(text).chain(lines).map(str::trim) {
            if part.chars().count() >= SHORTEST_SECRET {
                self.look_for(Arc::from(part));
                packed(part.as_bytes()).for_each(|part| self.look_for(Arc::from(part)));
            }
        }
    }

    /// Hides what others hide, too.
    pub fn extend(&mut self, others: &Self) {
        let needles = others.needles.values().flatten();
        needles.for_each(|needle| self.look_for(Arc::clone(needle)));
    }

    fn look_for(&mut self, needle: Arc<str>) {
        let Some(first) = needle.bytes().next() else {
            return;
        };
        self.begins.insert(first);
        for byte in ESCAPES {
            self.begins.insert(byte);
        }
        self.needles.entry(first).or_default().insert(needle);
    }

    /// A text without them; nothing where there was nothing to hide.
    pub fn hidden_in(&self, text: &str) -> Option<String> {
        let mut hidden = String::new();
        let mut shown = 0;
        for found in self.found_in(text) {
            hidden.push_str(&text[shown..found.start]);
            hidden.push_str(REDACTED);
            shown = found.end;
        }
        if shown == 0 {
            return None;
        }
        hidden.push_str(&text[shown..]);
        Some(hidden)
    }

    /// Where they are in a text, in order. Those that overlap are one, so that no part of one is
    /// left beside another.
    fn found_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut written = Written::new(text);
        for (start, byte) in text.bytes().enumerate() {
            if !self.begins.contains(byte) {
                continue;
            }
            let needles = if ESCAPES.contains(&byte) {
                self.needles.range(..)
            } else {
                self.needles.range(byte..=byte)
            };
            let needles = needles.flat_map(|(_, needles)| needles);
            let ends = needles.filter_map(|needle| written.end_of(needle, start));
            match (ends.max(), found.last_mut()) {
                (None, _) => {}
                (Some(end), Some(last)) if start < last.end => last.end = last.end.max(end),
                (Some(end), _) => found.push(start..end),
            }
        }
        found
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

    /// An error of a task without them.
    #[must_use]
    pub fn hide_error(&self, error: TaskError) -> TaskError {
        if self.is_empty() {
            return error;
        }
        let message = self.hidden_in(&error.message);
        TaskError {
            message: message.map_or_else(|| error.message.clone(), Text::from),
            code: error.code.map(|code| self.hide(code)),
            details: error.details.map(|details| self.hide(details)),
            ..error
        }
    }

    /// Fields without them. Their names are those of a playbook, and stay.
    #[must_use]
    pub fn hide_fields(&self, fields: JsonMap) -> JsonMap {
        let fields = fields.into_iter();
        fields
            .map(|(name, value)| (name, self.hide(value)))
            .collect()
    }

    fn hide_number(&self, digits: &str, value: Json) -> Json {
        self.hidden_in(digits).map_or(value, Json::from)
    }
}

/// Values that must not be seen, known to everybody who works on the same.
#[derive(Clone, Default)]
pub struct Hidden {
    own: Arc<Mutex<Secrets>>,
    /// What everybody has to hide who works for the same run.
    of_run: Arc<Mutex<Secrets>>,
}

impl Hidden {
    /// Hides every text in a value from now on.
    pub fn add(&self, value: &Json) {
        opened(&self.own).add(value);
    }

    /// The same in all that is done for the run.
    pub fn add_for_run(&self, value: &Json) {
        self.add(value);
        let mut of_run = opened(&self.of_run);
        if of_run.len() < MOST_OF_A_RUN {
            of_run.add(value);
        }
    }

    /// What is hidden by now.
    pub fn known(&self) -> Secrets {
        let mut known = opened(&self.own).clone();
        known.extend(&opened(&self.of_run));
        known
    }
}

fn opened(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    // Secrets are only ever added, so what a panic leaves behind is whole.
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// Secrets do not print.
impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::packed::sextets;
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
            "https://h/?p=p@ss%20w%22rd/1",
            r#""{\"password\":\"p@ss w\\\"rd\/1\"}""#,
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
    fn what_overlaps_is_one() {
        let secrets = secrets(&["hunter", "terrier", "unterrie"]);
        assert_eq!(secrets.hidden_in("a hunterrier.").unwrap(), "a [REDACTED].");
    }

    #[test]
    fn space_around_a_secret_is_no_part_of_it() {
        let secrets = secrets(&["  sesame-1\n"]);
        assert_eq!(secrets.hidden_in("(sesame-1)").unwrap(), "([REDACTED])");
    }

    #[test]
    fn lines_that_base64_is_broken_into_are_no_hiding_place() {
        let secret = "a long secret that `base64` breaks into lines of seventy-six characters";
        let packed = "YSBsb25nIHNlY3JldCB0aGF0IGBiYXNlNjRgIGJyZWFrcyBpbnRvIGxpbmVzIG9mIHNldmVudHkt\n\
            c2l4IGNoYXJhY3RlcnM=";
        let hidden = secrets(&[secret]).hidden_in(packed).unwrap();
        // The last character holds bits of what follows, too.
        assert_eq!(hidden, "[REDACTED]M=");
    }

    #[test]
    fn a_secret_that_an_output_was_cut_within_is_hidden() {
        let text = format!("{}sesame-op", "many words ".repeat(100));
        let hidden = secrets(&["sesame-opens-42"]).hidden_in(&text).unwrap();
        assert!(hidden.ends_with("words [REDACTED]"), "{hidden}");
    }

    #[test]
    fn what_one_command_resolves_the_others_of_its_run_hide() {
        let runs = SecretsOfRuns::default();
        let run = crate::ExecutionId::new(7).unwrap();
        let (one, other) = (runs.of(run), runs.of(run));
        one.add(&Json::from("its own"));
        one.add_for_run(&Json::from("of all"));
        assert!(other.known().hidden_in("of all").is_some());
        assert!(other.known().hidden_in("its own").is_none());
        let stranger = runs.of(crate::ExecutionId::new(8).unwrap());
        assert!(stranger.known().is_empty());
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
