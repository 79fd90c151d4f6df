//! What secrets are looked for by: themselves, and their forms in base64.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::packed::packed;
use super::written::Written;

/// What an escaped character begins with.
const ESCAPES: [u8; 2] = *b"\\%";

/// Texts that are looked for.
pub(super) struct Needles {
    /// In the order of their bytes, so that those which begin alike stand together.
    sorted: Vec<Arc<str>>,
    /// The bytes that one of them may begin with, however it is written.
    begins: Bytes,
}

impl Needles {
    /// Those of some secrets.
    pub(super) fn of(secrets: &BTreeSet<Arc<str>>) -> Self {
        let mut begins = Bytes::default();
        let mut sorted = Vec::with_capacity(secrets.len() * 7);
        for secret in secrets {
            sorted.push(Arc::clone(secret));
            sorted.extend(packed(secret.as_bytes()).map(Arc::from));
        }
        sorted.sort_unstable();
        sorted.dedup();
        let firsts = sorted.iter().filter_map(|needle| needle.bytes().next());
        for byte in firsts.chain(ESCAPES) {
            begins.insert(byte);
        }
        Self { sorted, begins }
    }

    /// Where they are in a text, in order. Those that overlap are one, so that no part of one is
    /// left beside another.
    pub(super) fn found_in(&self, text: &str, may_be_cut: bool) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut written = Written::new(text, &self.sorted, may_be_cut);
        for (start, byte) in text.bytes().enumerate() {
            if !self.begins.contains(byte) {
                continue;
            }
            let Some(end) = written.end_from(start) else {
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
struct Bytes([u64; 4]);

impl Bytes {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}
