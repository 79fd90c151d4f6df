//! JSON, base64 and URL encoding.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::json::parse;

use super::context::RenderContext;
use crate::template::print::IndentedText;
use crate::template::render_error::{EvalError, EvalResult, RenderLimit};

/// Memory of one item of a parsed JSON text, including its share of a growing list.
const JSON_NODE_BYTES: usize = 64;
/// Maximum indent. Wider ones add nothing.
const MAX_INDENT: usize = 16;

const BASE64_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl RenderContext<'_> {
    /// Canonical JSON, or indented JSON with one entry per line.
    pub(super) fn encode_json(&self, value: &Json, indent: Option<usize>) -> EvalResult<Arc<str>> {
        let Some(indent) = indent else {
            return self.meter.to_canonical_text(value).map(Arc::from);
        };
        let limit = self.meter.limits.output;
        let layout = IndentedText::new(value, indent.min(MAX_INDENT), limit)
            .ok_or_else(|| EvalError::limit_exceeded(RenderLimit::Output, limit))?;
        self.meter.charge_text(layout.len())?;
        Ok(layout.to_text().into())
    }

    /// Parses a JSON text.
    pub(super) fn decode_json(&self, text: &str) -> EvalResult<Json> {
        self.meter.charge_text(text.len())?;
        let nodes = text.bytes().filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':')).count();
        self.meter.charge_text_list(0, nodes.saturating_mul(JSON_NODE_BYTES))?;
        parse(text.as_bytes()).map_err(|error| {
            // The parser's reason quotes the text, which may be secret, so it is left out.
            EvalError::operation_failed(format!(
                "not JSON at line {} column {}",
                error.line, error.column
            ))
        })
    }

    pub(super) fn base64_encode(&self, bytes: &[u8]) -> EvalResult<Arc<str>> {
        let len = bytes.len().div_ceil(3).saturating_mul(4);
        self.meter.charge_text(len)?;
        let mut text = String::with_capacity(len);
        for group in bytes.chunks(3) {
            let byte_at = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
            let bits = byte_at(0) << 16 | byte_at(1) << 8 | byte_at(2);
            for digit in 0..4 {
                let used = digit <= group.len();
                let index = (bits >> (18 - 6 * digit) & 0x3f) as usize;
                text.push(if used { char::from(BASE64_ALPHABET[index]) } else { '=' });
            }
        }
        Ok(text.into())
    }

    /// Decodes base64 of either alphabet, with or without padding.
    pub(super) fn base64_decode(&self, text: &str) -> EvalResult<Json> {
        let invalid = || EvalError::operation_failed("not the base64 encoding of a text");
        let digits = text.trim().trim_end_matches('=').as_bytes();
        self.meter.charge_text(digits.len())?;
        let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
        for group in digits.chunks(4) {
            let mut bits = 0;
            for digit in group {
                bits = bits << 6 | base64_digit(*digit).ok_or_else(invalid)?;
            }
            let [_, first, second, third] = (bits << (6 * (4 - group.len()))).to_be_bytes();
            match group.len() {
                4 => bytes.extend([first, second, third]),
                3 => bytes.extend([first, second]),
                2 => bytes.push(first),
                _ => return Err(invalid()),
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| invalid())?;
        Ok(Json::text(text)?)
    }

    /// Percent-encodes a text for a path or query. A map or a list of pairs becomes a whole query.
    pub(super) fn url_encode(&self, value: &Json) -> EvalResult<Arc<str>> {
        match value {
            Json::Map(map) => {
                self.meter.charge_list(2 * map.len())?;
                let pairs =
                    map.iter().map(|(key, value)| (Json::Str(Arc::clone(key)), value.clone()));
                self.encode_query(pairs.collect())
            }
            Json::List(items) => {
                self.meter.charge_list(2 * items.len())?;
                let pairs = items.iter().map(|item| match item.as_list() {
                    Some([key, value]) => Ok((key.clone(), value.clone())),
                    Some(_) | None => {
                        Err(EvalError::operation_failed("urlencode takes a list of pairs"))
                    }
                });
                self.encode_query(pairs.collect::<EvalResult<_>>()?)
            }
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_) => {
                let text = self.print_value(value)?;
                self.percent_encode(&text, b"/").map(Arc::from)
            }
        }
    }

    fn encode_query(&self, pairs: Vec<(Json, Json)>) -> EvalResult<Arc<str>> {
        self.meter.charge_list(pairs.len())?;
        let mut parts = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            // A key without a value is left out.
            if value.is_null() {
                continue;
            }
            let key = self.percent_encode(&self.print_value(&key)?, b"")?;
            let value = self.percent_encode(&self.print_value(&value)?, b"")?;
            self.meter.charge_text(key.len() + value.len() + 1)?;
            parts.push(Json::from(format!("{key}={value}")));
        }
        self.join_printed(&parts, "&").map(Arc::from)
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
