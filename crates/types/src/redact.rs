//! Secrets taken out of what leaves a process.
//!
//! A secret is known by its value, never by the name of a field: `author` and `token_count` pass,
//! and a password is found wherever it turns up: as it is, escaped, or packed into base64.

mod needles;
mod packed;
mod public;
mod runs;
mod written;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Json, JsonMap, TaskError, Text};
use needles::Needles;
pub use public::secrets_of;
use runs::OfRun;
pub use runs::SecretsOfRuns;

/// What stands for a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Shorter values are not looked for: they would be found everywhere.
pub const SHORTEST_SECRET: usize = 6;
/// About how many bytes it takes to keep a value, besides those that it has.
const BESIDE_A_TEXT: usize = 64;

/// Values that must not be seen.
#[derive(Default)]
pub struct Secrets {
    /// The values, and the lines of those that have several.
    texts: Arc<BTreeSet<Arc<str>>>,
    /// How many bytes they are.
    bytes: usize,
    /// Whether nothing is hidden but what is there from its beginning to its end.
    only_whole: bool,
    /// How they are looked for. It takes several times the room of the values, so it is made where
    /// they are looked for, and only the values are kept.
    needles: OnceLock<Needles>,
}

/// A clone may be added to, and is looked for anew.
impl Clone for Secrets {
    fn clone(&self) -> Self {
        Self {
            texts: Arc::clone(&self.texts),
            bytes: self.bytes,
            only_whole: self.only_whole,
            needles: OnceLock::new(),
        }
    }
}

/// How much is looked for at most.
#[derive(Debug, Clone, Copy)]
struct Most {
    texts: usize,
    bytes: usize,
}

impl Most {
    const ANY: Self = Self {
        texts: usize::MAX,
        bytes: usize::MAX,
    };
}

impl Secrets {
    /// Whether nothing is to be hidden.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Hides every text in a value, wherever it turns up from now on. Numbers count as their digits.
    pub fn add(&mut self, value: &Json) {
        self.add_within(value, Most::ANY);
    }

    /// The same, as far as there is room.
    fn add_within(&mut self, value: &Json, most: Most) {
        match value {
            Json::Str(text) => self.add_text_within(text, most),
            Json::Int(number) => self.add_text_within(&number.to_string(), most),
            Json::UInt(number) => self.add_text_within(&number.to_string(), most),
            Json::List(items) => items.iter().for_each(|item| self.add_within(item, most)),
            Json::Map(fields) => fields
                .values()
                .for_each(|field| self.add_within(field, most)),
            Json::Null | Json::Bool(_) | Json::Float(_) => {}
        }
    }

    /// Hides a text. Of one with several lines, such as a private key, each line counts as well.
    pub fn add_text(&mut self, text: &str) {
        self.add_text_within(text, Most::ANY);
    }

    fn add_text_within(&mut self, text: &str, most: Most) {
        let lines = text.lines().filter(|_| text.contains('\n'));
        for part in std::iter::once(text).chain(lines).map(str::trim) {
            let has_room = self.texts.len() < most.texts
                && self.bytes.saturating_add(part.len()) <= most.bytes;
            if has_room && part.chars().nth(SHORTEST_SECRET - 1).is_some() {
                self.add_part(Arc::from(part));
            }
        }
    }

    fn add_part(&mut self, part: Arc<str>) {
        if self.texts.contains(&part) {
            return;
        }
        self.bytes = self.bytes.saturating_add(part.len());
        Arc::make_mut(&mut self.texts).insert(part);
        self.needles = OnceLock::new();
    }

    /// About how many bytes keeping them takes.
    fn room(&self) -> usize {
        let beside = self.texts.len().saturating_mul(BESIDE_A_TEXT);
        self.bytes.saturating_add(beside)
    }

    /// Hides what others hide, too.
    pub fn extend(&mut self, others: &Self) {
        if self.is_empty() {
            self.texts = Arc::clone(&others.texts);
            self.bytes = others.bytes;
            self.needles = OnceLock::new();
            return;
        }
        for part in &*others.texts {
            self.add_part(Arc::clone(part));
        }
    }

    /// The same, but where a text ends within a secret it is left alone. For texts that nobody has cut:
    /// whoever chooses what they end with would learn from what is hidden how a secret begins.
    #[must_use]
    pub fn only_whole(mut self) -> Self {
        self.only_whole = true;
        self
    }

    /// A text without them; nothing where there was nothing to hide.
    pub fn hidden_in(&self, text: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let needles = self.needles.get_or_init(|| Needles::of(&self.texts));
        let mut hidden = String::new();
        let mut shown = 0;
        for found in needles.found_in(text, !self.only_whole) {
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
    of_run: Arc<OfRun>,
}

impl Hidden {
    /// Hides every text in a value from now on.
    pub fn add(&self, value: &Json) {
        opened(&self.own).add(value);
    }

    /// Hides what is secret of a credential, in all that is done for the run. Its type says what that
    /// is; where nobody knows it, a field of that name does.
    pub fn add_for_run(&self, kind: Option<&str>, credential: &Json) {
        let secret = secrets_of(kind, credential);
        self.add(&secret);
        self.of_run.add(&secret);
    }

    /// What is hidden by now.
    pub fn known(&self) -> Secrets {
        let mut known = opened(&self.own).clone();
        known.extend(&self.of_run.known());
        known
    }
}

fn opened(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    // Secrets are only ever added, so what a panic leaves behind is whole.
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Secrets do not print.
impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests;
