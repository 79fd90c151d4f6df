//! Filters and methods on texts. Each of them charges the size of its result before it creates it.

use std::sync::Arc;

use noetl_types::Json;

use super::context::RenderContext;
use crate::template::render_error::{EvalError, EvalResult};

/// Texts that count as false in a condition.
const FALSE_TEXTS: [&str; 9] = ["", "false", "0", "no", "none", "null", "off", "{}", "[]"];

/// Returns true if a text counts as true in a condition.
pub(in crate::template) fn is_truthy_text(text: &str) -> bool {
    let text = text.trim();
    // The longest of them has five characters.
    text.len() > 5 || !FALSE_TEXTS.iter().any(|false_text| text.eq_ignore_ascii_case(false_text))
}

impl RenderContext<'_> {
    pub(super) fn lowercase_text(&self, text: &str) -> EvalResult<Arc<str>> {
        self.convert_case(text, str::to_ascii_lowercase, char::to_lowercase)
    }

    pub(super) fn uppercase_text(&self, text: &str) -> EvalResult<Arc<str>> {
        self.convert_case(text, str::to_ascii_uppercase, char::to_uppercase)
    }

    fn convert_case<I: Iterator<Item = char>>(
        &self,
        text: &str,
        ascii: impl Fn(&str) -> String,
        convert: impl Fn(char) -> I,
    ) -> EvalResult<Arc<str>> {
        self.meter.charge_scan(text.len())?;
        if text.is_ascii() {
            self.meter.charge_text(text.len())?;
            return Ok(ascii(text).into());
        }
        self.meter.charge_character_scan(text.len())?;
        let len = text.chars().flat_map(&convert).map(char::len_utf8).sum();
        self.meter.charge_text(len)?;
        let mut converted = String::with_capacity(len);
        converted.extend(text.chars().flat_map(&convert));
        Ok(converted.into())
    }

    /// Converts each word to an initial capital followed by lower case.
    pub(super) fn title_case(&self, text: &str) -> EvalResult<Arc<str>> {
        self.meter.charge_character_scan(text.len())?;
        let len = title_case_chars(text).map(char::len_utf8).sum();
        self.meter.charge_text(len)?;
        let mut title = String::with_capacity(len);
        title.extend(title_case_chars(text));
        Ok(title.into())
    }

    /// Removes characters from both ends: the given ones, or whitespace.
    pub(super) fn trim_text(&self, text: &str, characters: Option<&str>) -> EvalResult<Arc<str>> {
        self.meter.charge_scan(text.len())?;
        let trimmed = match characters {
            Some(characters) => {
                self.meter.charge_scan(text.len().saturating_mul(characters.len()))?;
                text.trim_matches(|c| characters.contains(c))
            }
            None => text.trim(),
        };
        self.meter.charge_text(trimmed.len())?;
        Ok(trimmed.into())
    }

    /// Replaces at most `count` occurrences, or all of them if it is not given.
    pub(super) fn replace_text(
        &self,
        text: &str,
        [old, new]: [&str; 2],
        count: Option<usize>,
    ) -> EvalResult<Arc<str>> {
        self.meter.charge_scan(text.len())?;
        let limit = count.unwrap_or(usize::MAX).min(self.meter.max_countable());
        let match_count = text.matches(old).take(limit).count();
        let len = new
            .len()
            .saturating_mul(match_count)
            .saturating_add(text.len() - old.len() * match_count);
        self.meter.charge_text(len)?;
        self.meter.charge_fuel(match_count)?;
        let mut replaced = String::with_capacity(len);
        let mut from = 0;
        for (start, part) in text.match_indices(old).take(match_count) {
            replaced.push_str(&text[from..start]);
            replaced.push_str(new);
            from = start + part.len();
        }
        replaced.push_str(&text[from..]);
        Ok(replaced.into())
    }

    /// Splits a text at a separator, or at whitespace, at most `limit` times.
    pub(super) fn split_text(
        &self,
        text: &str,
        separator: Option<&str>,
        limit: Option<usize>,
    ) -> EvalResult<Json> {
        self.meter.charge_scan(text.len())?;
        let limit = limit.unwrap_or(usize::MAX).min(self.meter.max_countable());
        let collect_parts = |parts: &mut dyn Iterator<Item = &str>, count: usize| {
            self.meter.charge_text_list(count, text.len())?;
            let mut list = Vec::with_capacity(count);
            list.extend(parts.map(|part| Json::Str(part.into())));
            Ok(Json::from(list))
        };
        match separator {
            Some("") => Err(EvalError::operation_failed("cannot split at an empty text")),
            Some(separator) => {
                let count = text.matches(separator).take(limit).count() + 1;
                collect_parts(&mut text.splitn(count, separator), count)
            }
            None => {
                let count = WordSplit { rest: text, remaining: limit }.count();
                collect_parts(&mut WordSplit { rest: text, remaining: limit }, count)
            }
        }
    }
}

fn title_case_chars(text: &str) -> impl Iterator<Item = char> {
    let mut at_word_start = true;
    text.chars().flat_map(move |c| {
        let (upper, lower) = if at_word_start {
            (Some(c.to_uppercase()), None)
        } else {
            (None, Some(c.to_lowercase()))
        };
        at_word_start = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
        upper.into_iter().flatten().chain(lower.into_iter().flatten())
    })
}

/// Words between whitespace. The last word of a limited split keeps its whitespace.
struct WordSplit<'t> {
    rest: &'t str,
    remaining: usize,
}

impl<'t> Iterator for WordSplit<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let end = if self.remaining == 0 { None } else { rest.find(char::is_whitespace) };
        self.remaining = self.remaining.saturating_sub(1);
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = after;
        Some(word)
    }
}
