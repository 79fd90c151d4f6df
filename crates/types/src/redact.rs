//! Redaction of secrets in data that leaves a process.
//!
//! A secret is recognized by its value, never by the name of a field: `author` and `token_count`
//! pass, and a password is found anywhere, as plain text, escaped, or in base64.

mod encodings;
mod execution_secrets;
mod numbers;
mod patterns;
mod public_fields;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::{Json, JsonMap, TaskError, Text};
pub use execution_secrets::ExecutionSecretRegistry;
use execution_secrets::ExecutionSecretSet;
use numbers::NumberKey;
use parking_lot::Mutex;
use patterns::SecretPatterns;
pub use public_fields::secret_fields;

/// Replacement for a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Minimum characters of a secret. Shorter values would match everywhere, so they are not redacted.
pub const MIN_SECRET_CHARS: usize = 6;
/// Minimum digits of a number that a template made from a secret.
const MIN_DERIVED_DIGITS: usize = 4;
/// Approximate bytes of overhead per stored secret.
const SECRET_OVERHEAD_BYTES: usize = 64;

/// A set of secret values to redact.
#[derive(Default)]
pub struct SecretSet {
    /// The values, and the single lines of multi-line values.
    texts: Arc<BTreeSet<Arc<str>>>,
    /// The numbers that are secret themselves or that the values can be read as.
    numbers: Arc<BTreeSet<NumberKey>>,
    /// Total bytes of the values.
    bytes: usize,
    /// True if only whole secrets are redacted, not truncated ones.
    only_whole: bool,
    /// Compiled search patterns. They take several times the memory of the values, so they are
    /// built on first use and never cloned.
    patterns: OnceLock<SecretPatterns>,
}

/// A clone may be extended, so it builds its patterns again.
impl Clone for SecretSet {
    fn clone(&self) -> Self {
        Self {
            texts: Arc::clone(&self.texts),
            numbers: Arc::clone(&self.numbers),
            bytes: self.bytes,
            only_whole: self.only_whole,
            patterns: OnceLock::new(),
        }
    }
}

/// Limits of a set.
#[derive(Debug, Clone, Copy)]
struct SecretLimits {
    texts: usize,
    bytes: usize,
}

impl SecretLimits {
    const UNLIMITED: Self = Self { texts: usize::MAX, bytes: usize::MAX };
}

impl SecretSet {
    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty()
    }

    /// Adds every string and number in a value.
    pub fn add(&mut self, value: &Json) {
        self.add_limited(value, SecretLimits::UNLIMITED);
    }

    /// Adds every string and number in a value, up to the limits.
    fn add_limited(&mut self, value: &Json, limits: SecretLimits) {
        match value {
            Json::Str(text) => self.add_text_limited(text, limits),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                let text = value.to_string();
                self.add_number(&text, MIN_SECRET_CHARS, limits);
                self.add_text_limited(&text, limits);
            }
            Json::List(items) => items.iter().for_each(|item| self.add_limited(item, limits)),
            Json::Map(fields) => fields.values().for_each(|field| self.add_limited(field, limits)),
            Json::Null | Json::Bool(_) => {}
        }
    }

    /// Adds what a template made from a secret. Its numbers are added from four digits on.
    fn add_derived(&mut self, value: &Json) {
        match value {
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                let text = value.to_string();
                self.add_number(&text, MIN_DERIVED_DIGITS, SecretLimits::UNLIMITED);
            }
            Json::List(items) => items.iter().for_each(|item| self.add_derived(item)),
            Json::Map(fields) => fields.values().for_each(|field| self.add_derived(field)),
            Json::Null | Json::Bool(_) | Json::Str(_) => {}
        }
        self.add(value);
    }

    fn add_number(&mut self, text: &str, min_digits: usize, limits: SecretLimits) {
        for number in numbers::read_numbers(text) {
            let is_new = number.is_distinctive(min_digits) && !self.numbers.contains(&number);
            if is_new && self.numbers.len() < limits.texts {
                Arc::make_mut(&mut self.numbers).insert(number);
            }
        }
    }

    /// Adds a text. For a text with several lines, such as a private key, each line is added as
    /// well.
    pub fn add_text(&mut self, text: &str) {
        self.add_text_limited(text, SecretLimits::UNLIMITED);
    }

    fn add_text_limited(&mut self, text: &str, limits: SecretLimits) {
        let lines = text.lines().filter(|_| text.contains('\n'));
        for part in std::iter::once(text).chain(lines).map(str::trim) {
            let has_room = self.texts.len() < limits.texts
                && self.bytes.saturating_add(part.len()) <= limits.bytes;
            if has_room && part.chars().nth(MIN_SECRET_CHARS - 1).is_some() {
                self.add_part(Arc::from(part));
                self.add_number(part, MIN_SECRET_CHARS, limits);
            }
        }
        // A program that reads `00123456` or `1234.50` as a number prints it in another form.
        let plain = numbers::plain_form(text.trim());
        if let Some(plain) = plain.filter(|plain| plain.len() >= MIN_SECRET_CHARS)
            && self.texts.len() < limits.texts
        {
            self.add_part(Arc::from(plain));
        }
    }

    fn add_part(&mut self, part: Arc<str>) {
        if self.texts.contains(&part) {
            return;
        }
        self.bytes = self.bytes.saturating_add(part.len());
        Arc::make_mut(&mut self.texts).insert(part);
        self.patterns = OnceLock::new();
    }

    /// Returns the approximate memory of the values in bytes.
    fn memory_bytes(&self) -> usize {
        let entries = self.texts.len().saturating_add(self.numbers.len());
        let overhead = entries.saturating_mul(SECRET_OVERHEAD_BYTES);
        self.bytes.saturating_add(overhead)
    }

    /// Adds all secrets of another set.
    pub fn extend(&mut self, others: &Self) {
        if self.is_empty() {
            self.texts = Arc::clone(&others.texts);
            self.numbers = Arc::clone(&others.numbers);
            self.bytes = others.bytes;
            self.patterns = OnceLock::new();
            return;
        }
        if !others.numbers.is_subset(&self.numbers) {
            Arc::make_mut(&mut self.numbers).extend(&*others.numbers);
        }
        for part in &*others.texts {
            self.add_part(Arc::clone(part));
        }
    }

    /// Redacts only whole secrets: a secret that is truncated at the end of a text stays. For texts
    /// that are known not to be truncated. Otherwise a caller who controls the end of a text could
    /// learn from the redaction how a secret begins.
    #[must_use]
    pub fn only_whole(mut self) -> Self {
        self.only_whole = true;
        self
    }

    /// Returns the redacted text, or `None` if the text contains no secret.
    pub fn redact_text(&self, text: &str) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let mut redacted = String::new();
        let mut copied_end = 0;
        for found in self.patterns().find_in(text, !self.only_whole) {
            redacted.push_str(&text[copied_end..found.start]);
            redacted.push_str(REDACTED);
            copied_end = found.end;
        }
        if copied_end == 0 {
            return None;
        }
        redacted.push_str(&text[copied_end..]);
        Some(redacted)
    }

    /// Returns the end of the part of a text that can be redacted before the text after it is known.
    /// The rest may be the beginning of a secret.
    pub fn settled_end(&self, text: &str) -> usize {
        if self.texts.is_empty() { text.len() } else { self.patterns().settled_end(text) }
    }

    /// Returns the bytes of the longest value.
    pub fn longest_bytes(&self) -> usize {
        self.texts.iter().map(|text| text.len()).max().unwrap_or(0)
    }

    fn patterns(&self) -> &SecretPatterns {
        self.patterns.get_or_init(|| SecretPatterns::from_secrets(&self.texts))
    }

    /// Returns the redacted value.
    #[must_use]
    pub fn redact_json(&self, value: Json) -> Json {
        if self.is_empty() {
            return value;
        }
        match value {
            Json::Str(text) => match self.redact_text(&text) {
                Some(redacted) => Json::from(redacted),
                None => Json::Str(text),
            },
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => self.redact_number(value),
            Json::List(items) => {
                Json::list(items.iter().map(|item| self.redact_json(item.clone())))
            }
            Json::Map(fields) => {
                let field = |(key, value): (&Arc<str>, &Json)| {
                    let redacted = self.redact_text(key);
                    let key = redacted.map_or_else(|| Arc::clone(key), Arc::from);
                    (key, self.redact_json(value.clone()))
                };
                Json::object(fields.iter().map(field))
            }
            Json::Null | Json::Bool(_) => value,
        }
    }

    /// Returns the redacted error.
    #[must_use]
    pub fn redact_error(&self, error: TaskError) -> TaskError {
        if self.is_empty() {
            return error;
        }
        let message = self.redact_text(&error.message);
        TaskError {
            message: message.map_or_else(|| error.message.clone(), Text::from),
            code: error.code.map(|code| self.redact_json(code)),
            details: error.details.map(|details| self.redact_json(details)),
            ..error
        }
    }

    /// Returns the redacted fields. Field names come from the playbook and are not redacted.
    #[must_use]
    pub fn redact_fields(&self, fields: JsonMap) -> JsonMap {
        let fields = fields.into_iter();
        fields.map(|(name, value)| (name, self.redact_json(value))).collect()
    }

    fn redact_number(&self, value: Json) -> Json {
        let text = value.to_string();
        if numbers::read_numbers(&text).any(|number| self.numbers.contains(&number)) {
            return Json::from(REDACTED);
        }
        self.redact_text(&text).map_or(value, Json::from)
    }
}

/// A set of secrets shared by all tasks of a command, linked to the set of its execution.
#[derive(Clone, Default)]
pub struct SharedSecretSet {
    own: Arc<Mutex<SecretSet>>,
    /// Secrets shared by everything that runs for the execution.
    execution: Arc<ExecutionSecretSet>,
}

impl SharedSecretSet {
    /// Adds every string in a value.
    pub fn add(&self, value: &Json) {
        self.own.lock().add(value);
    }

    /// Adds what a template made from a secret.
    pub fn add_derived(&self, value: &Json) {
        self.own.lock().add_derived(value);
    }

    /// Adds the secret fields of a credential, for everything that runs for the execution. The type
    /// of the credential determines which fields are secret. If it is unknown, the field `type` is
    /// used.
    pub fn add_credential(&self, kind: Option<&str>, credential: &Json) {
        let secret = secret_fields(kind, credential);
        self.add(&secret);
        self.execution.add(&secret);
    }

    /// Returns the secrets known so far.
    pub fn current_secrets(&self) -> SecretSet {
        let mut secrets = self.own.lock().clone();
        secrets.extend(&self.execution.current_secrets());
        secrets
    }
}

/// Secrets are never printed.
impl fmt::Debug for SharedSecretSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests;
