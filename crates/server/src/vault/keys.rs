//! The keys that wrap the keys of records.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Text, sha256};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use zeroize::Zeroizing;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// Hex digits of its digest that name a key.
const NAME_DIGITS: usize = 16;

/// A key that wraps others.
pub struct Key {
    pub(super) kid: Text,
    pub(super) cipher: LessSafeKey,
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// No base64.
    #[error("an encryption key is base64, such as `openssl rand -base64 32` gives")]
    NotBase64,
    /// Another length.
    #[error("an encryption key has {KEY_BYTES} bytes, not {0}")]
    Length(usize),
}

impl Key {
    /// Reads a key.
    pub fn read(text: &str) -> Result<Self, BadKey> {
        let bytes = Zeroizing::new(
            STANDARD
                .decode(text.trim())
                .map_err(|_| BadKey::NotBase64)?,
        );
        Self::of(&bytes)
    }

    pub(super) fn of(bytes: &[u8]) -> Result<Self, BadKey> {
        let unbound = UnboundKey::new(&AES_256_GCM, bytes);
        let unbound = unbound.map_err(|_| BadKey::Length(bytes.len()))?;
        let mut name = sha256(bytes).to_string();
        name.truncate(NAME_DIGITS);
        Ok(Self {
            kid: name.into(),
            cipher: LessSafeKey::new(unbound),
        })
    }

    /// What names it: a part of its digest, so the same key has the same name everywhere.
    pub const fn kid(&self) -> &Text {
        &self.kid
    }
}

/// The key that seals, and those that still open.
pub struct KeyRing {
    current: Key,
    old: Vec<Key>,
}

impl KeyRing {
    /// A ring of keys.
    pub const fn new(current: Key, old: Vec<Key>) -> Self {
        Self { current, old }
    }

    /// The key that seals.
    pub const fn current(&self) -> &Key {
        &self.current
    }

    pub(super) fn find(&self, kid: &str) -> Option<&Key> {
        let mut keys = std::iter::once(&self.current).chain(&self.old);
        keys.find(|key| key.kid.as_str() == kid)
    }
}
