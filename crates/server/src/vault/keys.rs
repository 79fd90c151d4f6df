//! The keys that wrap the keys of records.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Text, sha256};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::Prk;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use super::sign;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// Hex digits of its digest that name a key.
const NAME_DIGITS: usize = 16;

/// A key that wraps others.
pub struct Key {
    pub(super) kid: Text,
    pub(super) cipher: LessSafeKey,
    /// What keys for other ends are made from, so that none of them is the key itself.
    pub(super) root: Prk,
}

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoChance;

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

    /// A new key as a text, for an operator to keep.
    pub fn text_of_new() -> Result<String, NoChance> {
        let mut bytes = Zeroizing::new([0_u8; KEY_BYTES]);
        let random = SystemRandom::new();
        random.fill(bytes.as_mut_slice()).map_err(|_| NoChance)?;
        Ok(STANDARD.encode(bytes.as_slice()))
    }

    pub(super) fn of(bytes: &[u8]) -> Result<Self, BadKey> {
        let unbound = UnboundKey::new(&AES_256_GCM, bytes);
        let unbound = unbound.map_err(|_| BadKey::Length(bytes.len()))?;
        let mut name = sha256(bytes).to_string();
        name.truncate(NAME_DIGITS);
        Ok(Self {
            kid: name.into(),
            cipher: LessSafeKey::new(unbound),
            root: sign::root_of(bytes),
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

/// Keys do not print; their names do.
impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old = self.old.iter().map(Key::kid);
        formatter
            .debug_list()
            .entry(self.current.kid())
            .entries(old)
            .finish()
    }
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

    /// All keys, the one that seals first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(&self.old)
    }

    pub(super) fn find(&self, kid: &str) -> Option<&Key> {
        self.all().find(|key| key.kid.as_str() == kid)
    }
}
