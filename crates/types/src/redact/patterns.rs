//! Search patterns for secrets: the values and their base64 forms.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::base64_forms::base64_forms;
use super::encodings::PatternMatcher;

/// Bytes that start an escaped character.
const ESCAPE_START_BYTES: [u8; 2] = *b"\\%";

/// Search patterns.
pub(super) struct SecretPatterns {
    /// Sorted by bytes, so that patterns with a common prefix are adjacent.
    sorted: Vec<Arc<str>>,
    /// Bytes that an occurrence of a pattern may begin with, in any encoding.
    first_bytes: ByteSet,
}

impl SecretPatterns {
    /// Builds the patterns of some secrets.
    pub(super) fn from_secrets(secrets: &BTreeSet<Arc<str>>) -> Self {
        let mut first_bytes = ByteSet::default();
        let mut sorted = Vec::with_capacity(secrets.len() * 7);
        for secret in secrets {
            sorted.push(Arc::clone(secret));
            sorted.extend(base64_forms(secret.as_bytes()).map(Arc::from));
        }
        sorted.sort_unstable();
        sorted.dedup();
        let firsts = sorted.iter().filter_map(|pattern| pattern.bytes().next());
        for byte in firsts.chain(ESCAPE_START_BYTES) {
            first_bytes.insert(byte);
        }
        Self { sorted, first_bytes }
    }

    /// Returns the ranges of all matches in order. Overlapping matches are merged, so that no part
    /// of a secret remains next to another.
    pub(super) fn find_in(&self, text: &str, may_be_truncated: bool) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut matcher = PatternMatcher::new(text, &self.sorted, may_be_truncated);
        for (start, byte) in text.bytes().enumerate() {
            if !self.first_bytes.contains(byte) {
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
}

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}
