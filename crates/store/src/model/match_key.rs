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
mod tests {
    use super::*;

    #[test]
    fn long_key_is_hashed() {
        let short = Text::from("order-7");
        assert_eq!(MatchKey::from_text(&short).as_str(), "order-7");
        let edge = Text::from("x".repeat(MatchKey::MAX_PLAIN_BYTES));
        assert_eq!(MatchKey::from_text(&edge).as_str(), edge.as_str());
        let long = Text::from("x".repeat(MatchKey::MAX_PLAIN_BYTES + 1));
        let hashed = MatchKey::from_text(&long);
        assert_eq!(hashed.as_str().len(), 71);
        // A caller that sends the digest itself does not match the hashed text.
        assert_ne!(MatchKey::from_text(&Text::from(hashed.as_str())), hashed);
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        assert_eq!(truncate_text(&Text::from("aüb"), 2), "a");
        assert_eq!(truncate_text(&Text::from("aüb"), 3), "aü");
        assert_eq!(truncate_text(&Text::from("ab"), 9), "ab");
    }
}
