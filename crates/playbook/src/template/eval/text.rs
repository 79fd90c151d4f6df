//! Filters and methods on texts, and encodings. Each of them charges the size of its result before
//! it creates it.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::digest::sha256 as digest;
use noetl_types::json::parse;

use super::call::CallArgs;
use super::context::RenderContext;
use crate::template::error::{EvalError, EvalResult};
use crate::template::print::IndentedText;

/// Memory of one item of a parsed JSON text, including its share of a growing list.
const JSON_NODE_BYTES: usize = 64;
/// Maximum indent. Wider ones add nothing.
const MAX_INDENT: usize = 16;

const BASE64_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `lower`
pub(super) fn lower(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    args.context.convert_case(text, str::to_ascii_lowercase, char::to_lowercase)
}

/// `upper`
pub(super) fn upper(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    args.context.convert_case(text, str::to_ascii_uppercase, char::to_uppercase)
}

/// `title`: each word with an initial capital followed by lower case.
pub(super) fn title(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    args.context.meter.charge_character_scan(text.len())?;
    args.context.collect_text(|| title_case_chars(text))
}

/// `trim` and `strip`: removes characters from both ends, the given ones or whitespace.
pub(super) fn trim(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let characters = args.text_at(0)?;
    meter.charge_scan(text.len())?;
    let trimmed = match &characters {
        Some(characters) => {
            meter.charge_scan(text.len().saturating_mul(characters.len()))?;
            text.trim_matches(|c| characters.contains(c))
        }
        None => text.trim(),
    };
    meter.charge_text(trimmed.len())?;
    Ok(Json::Str(trimmed.into()))
}

/// `replace`: replaces at most `count` occurrences, or all of them if it is not given.
pub(super) fn replace(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let (old, new) = (args.required_text_at(0)?, args.required_text_at(1)?);
    let count = args.count_at(2)?;
    meter.charge_scan(text.len())?;
    let limit = count.unwrap_or(usize::MAX).min(meter.max_countable());
    let match_count = text.matches(&*old).take(limit).count();
    let kept_len = text.len() - old.len() * match_count;
    let len = new.len().saturating_mul(match_count).saturating_add(kept_len);
    meter.charge_text(len)?;
    meter.charge_fuel(match_count)?;
    let mut replaced = String::with_capacity(len);
    let mut from = 0;
    for (start, part) in text.match_indices(&*old).take(match_count) {
        replaced.push_str(&text[from..start]);
        replaced.push_str(&new);
        from = start + part.len();
    }
    replaced.push_str(&text[from..]);
    Ok(Json::Str(replaced.into()))
}

/// `split`: splits a text at a separator, or at whitespace, at most `maxsplit` times.
pub(super) fn split(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let limit = args.count_at(1)?;
    let separator = args.text_at(0)?;
    meter.charge_scan(text.len())?;
    let limit = limit.unwrap_or(usize::MAX).min(meter.max_countable());
    let collect_parts = |parts: &mut dyn Iterator<Item = &str>, count: usize| {
        meter.charge_text_list(count, text.len())?;
        let mut list = Vec::with_capacity(count);
        list.extend(parts.map(|part| Json::Str(part.into())));
        Ok(Json::from(list))
    };
    match separator.as_deref() {
        Some("") => Err(EvalError::failed("cannot split at an empty text")),
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

/// `startswith`: tests for one prefix, or for several.
pub(super) fn starts_with(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    matches_affix(args, "startswith", |part| text.starts_with(part))
}

/// `endswith`: tests for one suffix, or for several.
pub(super) fn ends_with(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    matches_affix(args, "endswith", |part| text.ends_with(part))
}

fn matches_affix(
    args: &CallArgs<'_>,
    name: &str,
    holds: impl Fn(&str) -> bool,
) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let parts = args.value_at(0)?.unwrap_or_default();
    let parts = parts.as_list().unwrap_or(std::slice::from_ref(&parts));
    meter.charge_fuel(parts.len())?;
    for part in parts {
        let part = part.as_str().ok_or_else(|| EvalError::failed(format!("{name} takes texts")))?;
        meter.charge_scan(part.len())?;
        if holds(part) {
            return Ok(Json::Bool(true));
        }
    }
    Ok(Json::Bool(false))
}

/// `text.join(items)`
pub(super) fn join_with(args: &CallArgs<'_>, separator: &str) -> EvalResult<Json> {
    let items = args.context.to_items(&args.value_at(0)?.unwrap_or_default())?;
    args.context.join_printed(&items, separator)
}

/// `sha256`
pub(super) fn sha256(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    args.context.meter.charge_scan(text.len())?;
    Ok(Json::Str(digest(text.as_bytes()).to_string().into()))
}

/// `tojson`: canonical JSON, or indented JSON with one entry per line.
pub(super) fn tojson(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let Some(indent) = args.count_at(0)? else {
        return Ok(Json::Str(meter.to_canonical_text(value)?.into()));
    };
    let layout = IndentedText::new(value, indent.min(MAX_INDENT), meter.limits.output)
        .ok_or_else(|| meter.output_exceeded())?;
    meter.charge_text(layout.len())?;
    Ok(Json::Str(layout.to_text().into()))
}

/// `fromjson`
pub(super) fn fromjson(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let Json::Str(text) = value else {
        let found = value.type_name();
        return Err(EvalError::failed(format!("fromjson takes a text, not a {found}")));
    };
    let meter = &args.context.meter;
    meter.charge_text(text.len())?;
    let nodes = text.bytes().filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':')).count();
    meter.charge_text_list(0, nodes.saturating_mul(JSON_NODE_BYTES))?;
    parse(text.as_bytes()).map_err(|error| {
        // The parser's reason quotes the text, which may be secret, so it is left out.
        EvalError::failed(format!("not JSON at line {} column {}", error.line, error.column))
    })
}

/// `b64encode`
pub(super) fn b64encode(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    let bytes = text.as_bytes();
    let len = bytes.len().div_ceil(3).saturating_mul(4);
    args.context.meter.charge_text(len)?;
    let mut encoded = String::with_capacity(len);
    for group in bytes.chunks(3) {
        let byte_at = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte_at(0) << 16 | byte_at(1) << 8 | byte_at(2);
        for digit in 0..4 {
            let used = digit <= group.len();
            let index = (bits >> (18 - 6 * digit) & 0x3f) as usize;
            encoded.push(if used { char::from(BASE64_ALPHABET[index]) } else { '=' });
        }
    }
    Ok(Json::Str(encoded.into()))
}

/// `b64decode`: decodes base64 of either alphabet, with or without padding.
pub(super) fn b64decode(args: &CallArgs<'_>, text: &str) -> EvalResult<Json> {
    let invalid = || EvalError::failed("not the base64 encoding of a text");
    let digits = text.trim().trim_end_matches('=').as_bytes();
    args.context.meter.charge_text(digits.len())?;
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return Err(invalid());
        }
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | base64_digit(*digit).ok_or_else(invalid)?;
        }
        let group_bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(&group_bytes[1..group.len()]);
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid())?;
    Ok(Json::text(text)?)
}

fn base64_digit(byte: u8) -> Option<u32> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(digit.into())
}

/// `urlencode`: percent-encodes a text for a path or query. A map or a list of pairs becomes a
/// whole query.
pub(super) fn urlencode(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let context = args.context;
    let pairs: Vec<(Json, Json)> = match value {
        Json::Map(map) => {
            context.meter.charge_list(2 * map.len())?;
            map.iter().map(|(key, value)| (Json::Str(Arc::clone(key)), value.clone())).collect()
        }
        Json::List(items) => {
            context.meter.charge_list(2 * items.len())?;
            let pairs = items.iter().map(|item| match item.as_list() {
                Some([key, value]) => Ok((key.clone(), value.clone())),
                _ => Err(EvalError::failed("urlencode takes a list of pairs")),
            });
            pairs.collect::<EvalResult<_>>()?
        }
        _ => {
            let text = context.print_value(value)?;
            return Ok(Json::Str(context.percent_encode(&text, b"/")?.into()));
        }
    };
    context.meter.charge_list(pairs.len())?;
    let mut parts = Vec::with_capacity(pairs.len());
    // A key without a value is left out.
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_null()) {
        let key = context.percent_encode(&context.print_value(key)?, b"")?;
        let value = context.percent_encode(&context.print_value(value)?, b"")?;
        context.meter.charge_text(key.len() + value.len() + 1)?;
        parts.push(Json::from(format!("{key}={value}")));
    }
    context.join_printed(&parts, "&")
}

impl RenderContext<'_> {
    /// The text in lower case, for comparisons that ignore case.
    pub(super) fn fold_case(&self, text: &str) -> EvalResult<Json> {
        self.convert_case(text, str::to_ascii_lowercase, char::to_lowercase)
    }

    fn convert_case<I: Iterator<Item = char>>(
        &self,
        text: &str,
        ascii: impl Fn(&str) -> String,
        convert: impl Fn(char) -> I,
    ) -> EvalResult<Json> {
        self.meter.charge_scan(text.len())?;
        if text.is_ascii() {
            self.meter.charge_text(text.len())?;
            return Ok(Json::Str(ascii(text).into()));
        }
        self.meter.charge_character_scan(text.len())?;
        self.collect_text(|| text.chars().flat_map(&convert))
    }

    /// Collects characters into a text whose size is charged first.
    fn collect_text<I: Iterator<Item = char>>(&self, chars: impl Fn() -> I) -> EvalResult<Json> {
        let len = chars().map(char::len_utf8).sum();
        self.meter.charge_text(len)?;
        let mut text = String::with_capacity(len);
        text.extend(chars());
        Ok(Json::Str(text.into()))
    }

    fn percent_encode(&self, text: &str, safe: &[u8]) -> EvalResult<String> {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let is_unreserved = |byte: u8| {
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || safe.contains(&byte)
        };
        let len = text.bytes().map(|byte| if is_unreserved(byte) { 1 } else { 3 }).sum();
        self.meter.charge_text(len)?;
        let mut encoded = String::with_capacity(len);
        for byte in text.bytes() {
            if is_unreserved(byte) {
                encoded.push(char::from(byte));
            } else {
                let digit = |nibble: u8| char::from(HEX[usize::from(nibble)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte & 0xf)]);
            }
        }
        Ok(encoded)
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
