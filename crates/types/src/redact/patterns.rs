//! Search patterns for secrets: the values and their base64 forms.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::MIN_SECRET_CHARS;
use super::encodings::PatternMatcher;

/// Bytes that start an escaped character.
const ESCAPE_START_BYTES: [u8; 2] = *b"\\%";

/// Search patterns.
pub(super) struct SecretPatterns {
    /// Sorted by bytes, so that patterns with a common prefix are adjacent.
    sorted: Vec<Arc<str>>,
    /// Bytes that an occurrence of a pattern may begin with, in any encoding.
    first_bytes: [bool; 256],
}

impl SecretPatterns {
    /// Builds the patterns of some secrets.
    pub(super) fn from_secrets(secrets: &BTreeSet<Arc<str>>) -> Self {
        let mut first_bytes = [false; 256];
        let mut sorted = Vec::with_capacity(secrets.len() * 7);
        for secret in secrets {
            sorted.push(Arc::clone(secret));
            sorted.extend(base64_forms(secret.as_bytes()).map(Arc::from));
        }
        sorted.sort_unstable();
        sorted.dedup();
        let firsts = sorted.iter().filter_map(|pattern| pattern.bytes().next());
        for byte in firsts.chain(ESCAPE_START_BYTES) {
            first_bytes[usize::from(byte)] = true;
        }
        Self { sorted, first_bytes }
    }

    /// Returns the ranges of all matches in order. Overlapping matches are merged, so that no part
    /// of a secret remains next to another.
    pub(super) fn find_in(&self, text: &str, may_be_truncated: bool) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut matcher = PatternMatcher::new(text, &self.sorted, may_be_truncated);
        for (start, byte) in text.bytes().enumerate() {
            if !self.first_bytes[usize::from(byte)] {
                continue;
            }
            let Some(end) = matcher.match_end(start) else {
                continue;
            };
            match found.last_mut() {
                Some(last) if start < last.end => last.end = last.end.max(end),
                Some(_) | None => found.push(start..end),
            }
            if end == text.len() {
                break;
            }
        }
        found
    }

    /// Returns the position from which a text may continue as an occurrence of a pattern, or its
    /// end. No match lies across the position.
    pub(super) fn settled_end(&self, text: &str) -> usize {
        let mut last_match = 0..0;
        let mut matcher = PatternMatcher::new(text, &self.sorted, false);
        for (start, byte) in text.bytes().enumerate() {
            if !self.first_bytes[usize::from(byte)] {
                continue;
            }
            let found = matcher.match_end(start);
            if matcher.may_continue() {
                return if start < last_match.end { last_match.start } else { start };
            }
            match found {
                Some(end) if start < last_match.end => last_match.end = last_match.end.max(end),
                Some(end) => last_match = start..end,
                None => {}
            }
        }
        text.len()
    }
}

/// Returns the base64 forms of a secret, alone or inside longer data, in both alphabets. Preceding
/// data shifts the secret by 0, 1 or 2 bytes, and the characters at both edges contain bits of
/// adjacent bytes. The characters in between do not depend on the adjacent data.
fn base64_forms(bytes: &[u8]) -> impl Iterator<Item = String> {
    let shifted = (0..3).map(move |shift| {
        let mut padded = vec![0; shift];
        padded.extend(bytes);
        let first = (shift * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        to_sextets(&padded).take(last).skip(first).collect::<Vec<usize>>()
    });
    let long_enough = shifted.filter(|sextets| sextets.len() >= MIN_SECRET_CHARS);
    long_enough.flat_map(|sextets| {
        ["+/", "-_"].map(|ends| {
            let alphabet: Vec<char> =
                ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(ends.chars()).collect();
            sextets.iter().map(|sextet| alphabet[*sextet]).collect()
        })
    })
}

/// Splits bytes into 6-bit numbers. Missing bits at the end are zero.
pub(super) fn to_sextets(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks(3).flat_map(|chunk| {
        let byte = |index: usize| usize::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| bits >> shift & 63)
    })
}
