//! Signatures that only the servers of one installation can create and verify.

use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac;

use super::keys::KeyRing;
use super::wrapped_secret::CryptoError;

/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 32;
/// HKDF salt of all derived keys.
const HKDF_SALT: &[u8] = b"noetl";

/// Derives the root for keys of separate purposes.
pub(super) fn derive_root(secret: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, HKDF_SALT).extract(secret)
}

/// Creates and verifies signatures.
pub(crate) struct HmacSigner {
    current_key: hmac::Key,
    /// Earlier keys, which only verify.
    old_keys: Vec<hmac::Key>,
}

impl HmacSigner {
    /// Creates a signer for one purpose, with keys derived from a key ring.
    pub(crate) fn from_key_ring(ring: &KeyRing, purpose: &str) -> Result<Self, CryptoError> {
        let old =
            ring.all_keys().skip(1).map(|key| derive_signing_key(&key.derivation_root, purpose));
        Ok(Self {
            current_key: derive_signing_key(&ring.current().derivation_root, purpose)?,
            old_keys: old.collect::<Result<_, _>>()?,
        })
    }

    /// Creates a signer for one purpose, with a key derived from a secret.
    pub(crate) fn from_secret(secret: &[u8], purpose: &str) -> Result<Self, CryptoError> {
        Ok(Self {
            current_key: derive_signing_key(&derive_root(secret), purpose)?,
            old_keys: Vec::new(),
        })
    }

    /// Returns the signature of some bytes.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(hmac::sign(&self.current_key, bytes).as_ref());
        signature
    }

    /// True if a signature is valid. The comparison takes constant time.
    pub(crate) fn verify_signature(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let mut keys = std::iter::once(&self.current_key).chain(&self.old_keys);
        keys.any(|key| hmac::verify(key, bytes, signature).is_ok())
    }
}

fn derive_signing_key(root: &Prk, purpose: &str) -> Result<hmac::Key, CryptoError> {
    let info = [purpose.as_bytes()];
    let key = root.expand(&info, hmac::HMAC_SHA256);
    key.map(hmac::Key::from).map_err(|_| CryptoError::EncryptFailed)
}

#[cfg(test)]
mod tests;
