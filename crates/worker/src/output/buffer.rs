//! Output of one stream of a process that was not sent yet, in bounded memory.

use noetl_types::redact::SecretSet;

/// Maximum bytes of a stream from its start that are kept until they are sent.
const HEAD_BYTES: usize = 256 * 1024;
/// Maximum bytes after them. Of longer output, the last ones are kept.
const TAIL_BYTES: usize = 64 * 1024;
/// Bytes by which the encoding of a secret may be longer than the secret. Rarer encodings have line
/// breaks, at which output that was cut continues anyway.
const MAX_ENCODING_FACTOR: usize = 6;
/// Minimum limit of the text that is held back because it may be the beginning of a secret.
const MAX_HELD_BACK_BYTES: usize = 16 * 1024;

/// A part of the output to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputPart {
    /// Bytes that were dropped before it.
    pub(super) dropped_bytes: u64,
    /// Text without secrets.
    pub(super) text: String,
}

/// Unsent output of a stream. Memory is limited: of output that is written faster than it is sent,
/// the middle is dropped.
#[derive(Debug)]
pub(super) struct StreamBuffer {
    /// Beginning of the text, which may be the beginning of a secret.
    held_back: String,
    bytes: Vec<u8>,
    /// Remaining bytes of the head.
    head_left: usize,
    gap: Option<Gap>,
}

/// Bytes that were dropped.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Position in the bytes.
    at: usize,
    dropped: usize,
}

impl Default for StreamBuffer {
    fn default() -> Self {
        Self { held_back: String::new(), bytes: Vec::new(), head_left: HEAD_BYTES, gap: None }
    }
}

impl StreamBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.held_back.is_empty() && self.bytes.is_empty() && self.gap.is_none()
    }

    /// Returns true if only the latest output is still kept.
    pub(super) fn has_only_tail(&self) -> bool {
        self.head_left == 0
    }

    /// Adds output. More than the tail is kept for a while, so that its beginning is not moved with
    /// every write.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        if self.bytes.len() <= self.head_left + 2 * TAIL_BYTES {
            return;
        }
        let Gap { at, dropped } = self.gap.unwrap_or(Gap { at: self.head_left, dropped: 0 });
        let tail_start = self.bytes.len() - TAIL_BYTES;
        self.bytes.drain(at..tail_start);
        self.gap = Some(Gap { at, dropped: dropped + (tail_start - at) });
    }

    /// Takes the output in parts. The end of a stream that continues is held back if it may be the
    /// beginning of a secret.
    pub(super) fn take_parts(&mut self, secrets: &SecretSet, is_end: bool) -> Vec<OutputPart> {
        let mut parts = Vec::new();
        let mut dropped_bytes = 0_u64;
        if let Some(Gap { at, dropped }) = self.gap.take() {
            let rest = self.bytes.split_off(at);
            let before = self.take_text(secrets, false);
            // A secret may have been cut in half on both sides of the gap.
            let skipped = self.held_back.len() + self.bytes.len();
            (self.held_back, self.bytes) = (String::new(), rest);
            if !before.is_empty() {
                parts.push(OutputPart { dropped_bytes: 0, text: before });
            }
            let resumed = resume_position(&self.bytes, secrets);
            self.bytes.drain(..resumed);
            dropped_bytes = u64::try_from(dropped + skipped + resumed).unwrap_or(u64::MAX);
        }
        let text = self.take_text(secrets, is_end);
        if dropped_bytes > 0 || !text.is_empty() {
            parts.push(OutputPart { dropped_bytes, text });
        }
        parts
    }

    /// Takes the text up to where a secret may begin. With `is_end`, takes all of it.
    fn take_text(&mut self, secrets: &SecretSet, is_end: bool) -> String {
        let complete = if is_end { self.bytes.len() } else { complete_chars_end(&self.bytes) };
        self.head_left = self.head_left.saturating_sub(complete);
        let mut text = std::mem::take(&mut self.held_back);
        text += &String::from_utf8_lossy(&self.bytes[..complete]);
        self.bytes.drain(..complete);
        if text.contains('\0') {
            // A database cannot store it.
            text = text.replace('\0', "\u{fffd}");
        }
        let settled = if is_end { text.len() } else { secrets.settled_end(&text) };
        let longest = secrets.longest_bytes().saturating_mul(MAX_ENCODING_FACTOR);
        if text.len() - settled <= MAX_HELD_BACK_BYTES.max(longest) {
            self.held_back = text.split_off(settled);
        }
        secrets.redact_text(&text).unwrap_or(text)
    }
}

/// Returns the end of the last complete character.
fn complete_chars_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let may_continue = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    bytes.len() - if may_continue { last.len() } else { 0 }
}

/// Returns the position after a gap from which output can be redacted: at a line that no secret
/// reaches from before the gap. Without such a line, all of it is skipped.
fn resume_position(bytes: &[u8], secrets: &SecretSet) -> usize {
    let from = secrets.longest_bytes().saturating_mul(MAX_ENCODING_FACTOR).min(bytes.len());
    let line_break = bytes[from..].iter().position(|byte| *byte == b'\n');
    line_break.map_or(bytes.len(), |line_break| from + line_break + 1)
}

#[cfg(test)]
mod tests;
