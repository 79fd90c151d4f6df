//! Keys that wrap the data keys of records.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Text, sha256};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::Prk;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use super::signing;

pub(super) const KEY_BYTES: usize = 32;
/// Hex digits of a key's digest that form its id.
const KEY_ID_DIGITS: usize = 16;

/// A key that wraps data keys.
pub struct EncryptionKey {
    pub(super) kid: Text,
    pub(super) cipher: LessSafeKey,
    /// Root for deriving keys for other purposes, so that none of them equals this key.
    pub(super) derivation_root: Prk,
}

/// The system provides no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random bytes")]
pub struct RandomUnavailable;

/// Reason why a text is not a valid key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The text is not base64.
    #[error("an encryption key must be base64, such as the output of `openssl rand -base64 32`")]
    NotBase64,
    /// The key has the wrong length.
    #[error("an encryption key must have {KEY_BYTES} bytes, not {0}")]
    Length(usize),
}

impl EncryptionKey {
    /// Parses a key from base64.
    pub fn from_base64(text: &str) -> Result<Self, InvalidKey> {
        let bytes =
            Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| InvalidKey::NotBase64)?);
        Self::from_bytes(&bytes)
    }

    /// Generates a key as base64, for an operator to store.
    pub fn generate_base64() -> Result<String, RandomUnavailable> {
        let mut bytes = Zeroizing::new([0_u8; KEY_BYTES]);
        let random = SystemRandom::new();
        random.fill(bytes.as_mut_slice()).map_err(|_| RandomUnavailable)?;
        Ok(STANDARD.encode(bytes.as_slice()))
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        let unbound = UnboundKey::new(&AES_256_GCM, bytes);
        let unbound = unbound.map_err(|_| InvalidKey::Length(bytes.len()))?;
        let mut kid = sha256(bytes).to_string();
        kid.truncate(KEY_ID_DIGITS);
        Ok(Self {
            kid: kid.into(),
            cipher: LessSafeKey::new(unbound),
            derivation_root: signing::derive_root(bytes),
        })
    }

    /// Id of the key: a part of its digest, so the same key has the same id on every server.
    pub const fn kid(&self) -> &Text {
        &self.kid
    }
}

/// The current key, which encrypts, and old keys, which only decrypt.
pub struct KeyRing {
    current: EncryptionKey,
    old: Vec<EncryptionKey>,
}

/// Prints the key ids and never the keys.
impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old = self.old.iter().map(EncryptionKey::kid);
        formatter.debug_list().entry(self.current.kid()).entries(old).finish()
    }
}

impl KeyRing {
    pub const fn new(current: EncryptionKey, old: Vec<EncryptionKey>) -> Self {
        Self { current, old }
    }

    /// The key that encrypts.
    pub const fn current(&self) -> &EncryptionKey {
        &self.current
    }

    /// Returns all keys, the current one first.
    pub(super) fn all_keys(&self) -> impl Iterator<Item = &EncryptionKey> {
        std::iter::once(&self.current).chain(&self.old)
    }

    pub(crate) fn find_key(&self, kid: &str) -> Option<&EncryptionKey> {
        self.all_keys().find(|key| key.kid.as_str() == kid)
    }
}
