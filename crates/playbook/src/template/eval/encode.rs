//! JSON, base64 and URL encoding.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::json::parse;

use super::run::Run;
use crate::template::error::{Limit, Outcome, Stop};
use crate::template::print::Indented;

/// What one item of a JSON text may take once it is read, its share of a growing list included.
const NODE: usize = 64;
/// Wider indents help nobody.
const WIDEST_INDENT: usize = 16;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Run<'_> {
    /// Canonical JSON, or the same with one entry a line.
    pub(super) fn to_json(&self, value: &Json, indent: Option<usize>) -> Outcome<Arc<str>> {
        let Some(indent) = indent else {
            return self.meter.canonical(value).map(Arc::from);
        };
        let most = self.meter.limits.output;
        let layout = Indented::new(value, indent.min(WIDEST_INDENT), most)
            .ok_or_else(|| Stop::limit(Limit::Output, most))?;
        self.meter.text(layout.len())?;
        Ok(layout.write().into())
    }

    /// Reads a JSON text.
    pub(super) fn read_json(&self, text: &str) -> Outcome<Json> {
        self.meter.text(text.len())?;
        let nodes = text
            .bytes()
            .filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':'))
            .count();
        self.meter.texts(0, nodes.saturating_mul(NODE))?;
        parse(text.as_bytes()).map_err(|error| {
            // The reason names what was found, which is part of the text.
            Stop::failed(format!(
                "not JSON at line {} column {}",
                error.line, error.column
            ))
        })
    }

    pub(super) fn base64_encode(&self, bytes: &[u8]) -> Outcome<Arc<str>> {
        let len = bytes.len().div_ceil(3).saturating_mul(4);
        self.meter.text(len)?;
        let mut text = String::with_capacity(len);
        for group in bytes.chunks(3) {
            let at = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for digit in 0..4 {
                let used = digit <= group.len();
                let index = (bits >> (18 - 6 * digit) & 0x3f) as usize;
                text.push(if used { char::from(BASE64[index]) } else { '=' });
            }
        }
        Ok(text.into())
    }

    /// Reads base64 of either alphabet, with or without padding.
    pub(super) fn base64_decode(&self, text: &str) -> Outcome<Json> {
        let refused = || Stop::failed("not base64 of a text");
        let digits = text.trim().trim_end_matches('=').as_bytes();
        self.meter.text(digits.len())?;
        let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
        for group in digits.chunks(4) {
            let mut bits = 0;
            for digit in group {
                bits = bits << 6 | base64_digit(*digit).ok_or_else(refused)?;
            }
            let [_, first, second, third] = (bits << (6 * (4 - group.len()))).to_be_bytes();
            match group.len() {
                4 => bytes.extend([first, second, third]),
                3 => bytes.extend([first, second]),
                2 => bytes.push(first),
                _ => return Err(refused()),
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| refused())?;
        Ok(Json::text(text)?)
    }

    /// A text for a path or query; a map or a list of pairs becomes a whole query.
    pub(super) fn url_encode(&self, value: &Json) -> Outcome<Arc<str>> {
        match value {
            Json::Map(map) => {
                self.meter.list(2 * map.len())?;
                let pairs = map
                    .iter()
                    .map(|(key, value)| (Json::Str(Arc::clone(key)), value.clone()));
                self.query(pairs.collect())
            }
            Json::List(items) => {
                self.meter.list(2 * items.len())?;
                let pairs = items.iter().map(|item| match item.as_list() {
                    Some([key, value]) => Ok((key.clone(), value.clone())),
                    Some(_) | None => Err(Stop::failed("urlencode takes pairs")),
                });
                self.query(pairs.collect::<Outcome<_>>()?)
            }
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_) => {
                let text = self.printed(value)?;
                self.percent(&text, b"/").map(Arc::from)
            }
        }
    }

    fn query(&self, pairs: Vec<(Json, Json)>) -> Outcome<Arc<str>> {
        self.meter.list(pairs.len())?;
        let mut parts = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            // A key without a value is left out.
            if value.is_null() {
                continue;
            }
            let key = self.percent(&self.printed(&key)?, b"")?;
            let value = self.percent(&self.printed(&value)?, b"")?;
            self.meter.text(key.len() + value.len() + 1)?;
            parts.push(Json::from(format!("{key}={value}")));
        }
        self.joined(&parts, "&").map(Arc::from)
    }

    fn percent(&self, text: &str, safe: &[u8]) -> Outcome<String> {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let keeps = |byte: u8| {
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || safe.contains(&byte)
        };
        let len = text
            .bytes()
            .map(|byte| if keeps(byte) { 1 } else { 3 })
            .sum();
        self.meter.text(len)?;
        let mut encoded = String::with_capacity(len);
        for byte in text.bytes() {
            if keeps(byte) {
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
