//! What filters and methods do to texts. Each of them says how large its result is before it
//! makes it.

use std::sync::Arc;

use noetl_types::Json;

use super::run::Run;
use crate::template::error::{Outcome, Stop};

/// Words that count as false where a text decides a condition.
const FALSE_WORDS: [&str; 9] = ["", "false", "0", "no", "none", "null", "off", "{}", "[]"];

/// Whether a text that decides a condition counts as true.
pub(in crate::template) fn truthy_text(text: &str) -> bool {
    let text = text.trim();
    // The longest of the words has five letters.
    text.len() > 5
        || !FALSE_WORDS
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}

impl Run<'_> {
    pub(super) fn lower(&self, text: &str) -> Outcome<Arc<str>> {
        self.cased(text, str::to_ascii_lowercase, char::to_lowercase)
    }

    pub(super) fn upper(&self, text: &str) -> Outcome<Arc<str>> {
        self.cased(text, str::to_ascii_uppercase, char::to_uppercase)
    }

    fn cased<I: Iterator<Item = char>>(
        &self,
        text: &str,
        ascii: impl Fn(&str) -> String,
        convert: impl Fn(char) -> I,
    ) -> Outcome<Arc<str>> {
        self.meter.scan(text.len())?;
        if text.is_ascii() {
            self.meter.text(text.len())?;
            return Ok(ascii(text).into());
        }
        self.meter.scan_characters(text.len())?;
        let len = text.chars().flat_map(&convert).map(char::len_utf8).sum();
        self.meter.text(len)?;
        let mut converted = String::with_capacity(len);
        converted.extend(text.chars().flat_map(&convert));
        Ok(converted.into())
    }

    /// Words start with a capital and go on in small letters.
    pub(super) fn title(&self, text: &str) -> Outcome<Arc<str>> {
        self.meter.scan_characters(text.len())?;
        let len = titled(text).map(char::len_utf8).sum();
        self.meter.text(len)?;
        let mut title = String::with_capacity(len);
        title.extend(titled(text));
        Ok(title.into())
    }

    /// Cuts characters off both ends: the given ones, else blanks.
    pub(super) fn trim(&self, text: &str, characters: Option<&str>) -> Outcome<Arc<str>> {
        self.meter.scan(text.len())?;
        let trimmed = match characters {
            Some(characters) => {
                self.meter
                    .scan(text.len().saturating_mul(characters.len()))?;
                text.trim_matches(|c| characters.contains(c))
            }
            None => text.trim(),
        };
        self.meter.text(trimmed.len())?;
        Ok(trimmed.into())
    }

    /// Replaces at most `count` occurrences, all of them where it is not given.
    pub(super) fn replace(
        &self,
        text: &str,
        [old, new]: [&str; 2],
        count: Option<usize>,
    ) -> Outcome<Arc<str>> {
        self.meter.scan(text.len())?;
        let most = count.unwrap_or(usize::MAX).min(self.meter.countable());
        let found = text.matches(old).take(most).count();
        let len = new
            .len()
            .saturating_mul(found)
            .saturating_add(text.len() - old.len() * found);
        self.meter.text(len)?;
        self.meter.work(found)?;
        let mut replaced = String::with_capacity(len);
        let mut from = 0;
        for (at, part) in text.match_indices(old).take(found) {
            replaced.push_str(&text[from..at]);
            replaced.push_str(new);
            from = at + part.len();
        }
        replaced.push_str(&text[from..]);
        Ok(replaced.into())
    }

    /// Takes a text apart at a separator, or at blanks; at most `most` times.
    pub(super) fn split(
        &self,
        text: &str,
        separator: Option<&str>,
        most: Option<usize>,
    ) -> Outcome<Json> {
        self.meter.scan(text.len())?;
        let most = most.unwrap_or(usize::MAX).min(self.meter.countable());
        let list = |parts: &mut dyn Iterator<Item = &str>, count: usize| {
            self.meter.texts(count, text.len())?;
            let mut list = Vec::with_capacity(count);
            list.extend(parts.map(|part| Json::Str(part.into())));
            Ok(Json::from(list))
        };
        match separator {
            Some("") => Err(Stop::failed("cannot split at an empty text")),
            Some(separator) => {
                let count = text.matches(separator).take(most).count() + 1;
                list(&mut text.splitn(count, separator), count)
            }
            None => {
                let count = Words {
                    rest: text,
                    left: most,
                }
                .count();
                list(
                    &mut Words {
                        rest: text,
                        left: most,
                    },
                    count,
                )
            }
        }
    }
}

fn titled(text: &str) -> impl Iterator<Item = char> {
    let mut starts = true;
    text.chars().flat_map(move |c| {
        let (upper, lower) = if starts {
            (Some(c.to_uppercase()), None)
        } else {
            (None, Some(c.to_lowercase()))
        };
        starts = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
        upper
            .into_iter()
            .flatten()
            .chain(lower.into_iter().flatten())
    })
}

/// Words between blanks; the last one of a limited split keeps its blanks.
struct Words<'t> {
    rest: &'t str,
    left: usize,
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let end = if self.left == 0 {
            None
        } else {
            rest.find(char::is_whitespace)
        };
        self.left = self.left.saturating_sub(1);
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = after;
        Some(word)
    }
}
