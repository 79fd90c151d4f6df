//! Secrets that a worker knows by itself, for the tasks that may read them.
//!
//! A template that reads one makes a secret. Tools get it; nothing else does: a `set` refuses it, and
//! where a tool tells it back, it is blacked out before anybody sees the answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, Text};

use super::call::Answer;
use crate::template::REDACTED;

/// Bytes of the shortest text that is looked for in answers: a shorter one would be found everywhere.
const MIN_BYTES: usize = 6;

/// Secrets, by the names that `keychain` has for them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<BTreeMap<Arc<str>, JsonMap>>);

/// It shows nothing of itself.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// One secret with its fields.
    pub fn of(name: &str, fields: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let fields = fields.into_iter();
        let fields = fields.map(|(field, value)| (field.into(), Json::from(value)));
        let secret = (Arc::from(name), fields.collect());
        Self(Arc::new(BTreeMap::from([secret])))
    }

    /// A secret with its fields.
    pub(super) fn get(&self, name: &str) -> Option<Json> {
        self.0.get(name).cloned().map(Json::from)
    }

    /// An answer without any of them.
    pub(super) fn black_out(&self, answer: Answer) -> Answer {
        let words = self.words();
        if words.is_empty() {
            return answer;
        }
        let error = answer.error.map(|error| TaskError {
            message: Text::from(text(&error.message, &words)),
            details: error.details.map(|details| json(details, &words)),
            ..error
        });
        Answer {
            data: json(answer.data, &words),
            extras: map(&answer.extras, &words),
            error,
            ..answer
        }
    }

    /// What is looked for: each value as it is, in an address, and in JSON.
    fn words(&self) -> Vec<String> {
        let values = self.0.values().flat_map(JsonMap::values);
        let values = values.filter_map(Json::as_str);
        let mut words: Vec<String> = values
            .filter(|value| value.len() >= MIN_BYTES)
            .flat_map(|value| [value.to_owned(), in_address(value), in_json(value)])
            .collect();
        // The longest first, so that no part of one is left by another.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        words
    }
}

fn in_address(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn in_json(value: &str) -> String {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    quoted.trim_matches('"').to_owned()
}

fn text(text: &str, words: &[String]) -> String {
    let mut text = text.to_owned();
    for word in words {
        if text.contains(word.as_str()) {
            text = text.replace(word.as_str(), REDACTED);
        }
    }
    text
}

fn json(value: Json, words: &[String]) -> Json {
    match value {
        Json::Str(found) if words.iter().any(|word| found.contains(word.as_str())) => {
            Json::from(text(&found, words))
        }
        Json::List(list) => Json::list(list.iter().map(|item| json(item.clone(), words))),
        Json::Map(found) => Json::from(map(&found, words)),
        other => other,
    }
}

fn map(found: &JsonMap, words: &[String]) -> JsonMap {
    let pairs = found.iter();
    pairs
        .map(|(key, value)| (Arc::from(text(key, words)), json(value.clone(), words)))
        .collect()
}

#[cfg(test)]
mod tests {
    use noetl_types::TaskErrorKind;

    use super::*;

    #[test]
    fn answers_are_blacked_out_wherever_a_secret_stands() {
        let secrets = Secrets::of("internal", [("token", "open \"sesame\"/1".to_owned())]);
        let said = "seen: open \"sesame\"/1, open%20%22sesame%22%2F1, open \\\"sesame\\\"/1";
        let answer = Answer {
            data: Json::object([(said, Json::list([Json::from(said), Json::from(3)]))]),
            error: Some(TaskError::new(TaskErrorKind::ClientError, said)),
            extras: JsonMap::from_iter([("http".into(), Json::from(said))]),
            ..Answer::default()
        };
        let clean = "seen: [REDACTED], [REDACTED], [REDACTED]";
        let blacked = secrets.black_out(answer);
        let data = Json::object([(clean, Json::list([Json::from(clean), Json::from(3)]))]);
        assert_eq!(blacked.data, data);
        assert_eq!(blacked.error.unwrap().message, clean);
        assert_eq!(blacked.extras.get("http"), Some(&Json::from(clean)));
        assert_eq!(format!("{secrets:?}"), r#"{"internal"}"#);
    }

    #[test]
    fn short_words_are_left_alone() {
        let secrets = Secrets::of("internal", [("user", "noetl".to_owned())]);
        let answer = Answer::ok(Json::from("noetl"));
        assert_eq!(secrets.black_out(answer).data, Json::from("noetl"));
    }
}
