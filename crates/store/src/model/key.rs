//! Names and keys that rows are found by.

use std::sync::Arc;

use noetl_types::{Text, sha256};

/// A name or a key as rows are found by it.
///
/// A short one stands for itself; any other stands as its digest, so that a key may have any length
/// and an index never meets one that it cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchKey(Text);

impl MatchKey {
    /// Bytes of the longest text that stands for itself.
    pub const MAX_BYTES: usize = 200;

    /// What every digest begins with, and no text that stands for itself.
    const DIGEST: &'static str = "sha256:";

    /// The form in which a text is looked for.
    pub fn of(text: &Text) -> Self {
        if text.len() <= Self::MAX_BYTES && !text.starts_with(Self::DIGEST) {
            return Self(text.clone());
        }
        Self(Text::from(format!(
            "{}{}",
            Self::DIGEST,
            sha256(text.as_str())
        )))
    }

    /// The text that is compared.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// A form that was made before.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn kept(text: Text) -> Self {
        Self(text)
    }
}

/// The first bytes of a text, whole characters only: for people who look at a hashed key.
pub(crate) fn prefix(text: &Text, bytes: usize) -> Text {
    let cut = text.floor_char_boundary(bytes);
    let head = text.get(..cut).unwrap_or_default();
    Text::new(Arc::from(head)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_has_a_short_form_of_its_own() {
        let short = Text::from("order-7");
        assert_eq!(MatchKey::of(&short).as_str(), "order-7");
        let edge = Text::from("x".repeat(MatchKey::MAX_BYTES));
        assert_eq!(MatchKey::of(&edge).as_str(), edge.as_str());
        let long = Text::from("x".repeat(MatchKey::MAX_BYTES + 1));
        let hashed = MatchKey::of(&long);
        assert_eq!(hashed.as_str().len(), 71);
        // Whoever sends the digest itself does not meet the text behind it.
        assert_ne!(MatchKey::of(&Text::from(hashed.as_str())), hashed);
    }

    #[test]
    fn a_prefix_ends_between_characters() {
        assert_eq!(prefix(&Text::from("aüb"), 2), "a");
        assert_eq!(prefix(&Text::from("aüb"), 3), "aü");
        assert_eq!(prefix(&Text::from("ab"), 9), "ab");
    }
}
