//! Lookup form of names and keys.

use std::sync::Arc;

use noetl_types::{Text, sha256};

/// A name or a key in the form used for lookups.
///
/// A short text is used as it is. A longer one is replaced by its digest, so that a key may have
/// any length and always fits into an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchKey(Text);

impl MatchKey {
    /// Maximum size of a text that is used as it is.
    pub const MAX_PLAIN_BYTES: usize = 200;

    /// Prefix of every digest, which no text used as it is may have.
    const DIGEST_PREFIX: &'static str = "sha256:";

    /// Converts a text into its lookup form.
    pub fn from_text(text: &Text) -> Self {
        if text.len() <= Self::MAX_PLAIN_BYTES && !text.starts_with(Self::DIGEST_PREFIX) {
            return Self(text.clone());
        }
        Self(Text::from(format!("{}{}", Self::DIGEST_PREFIX, sha256(text.as_str()))))
    }

    /// Returns the lookup form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Wraps a stored lookup form.
    pub(crate) fn from_stored(text: Text) -> Self {
        Self(text)
    }
}

/// Returns the first bytes of a text, at a character boundary, so that a hashed key remains
/// readable.
pub(crate) fn truncate_text(text: &Text, bytes: usize) -> Text {
    let cut = text.floor_char_boundary(bytes);
    let head = text.get(..cut).unwrap_or_default();
    Text::new(Arc::from(head)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
