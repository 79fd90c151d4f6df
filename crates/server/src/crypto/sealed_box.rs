//! Sealed boxes: data encrypted for the holder of one private key.
//!
//! X25519 with an ephemeral key, HKDF-SHA256 over the shared secret, ChaCha20-Poly1305. The
//! security page of the documentation specifies the format for implementers of a reader.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::Text;
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;

use super::wrapped_secret::{CryptoError, encrypt_to_base64};

/// Algorithm identifier of sealed boxes.
pub const SEALED_BOX_ALGORITHM: &str = "x25519-hkdf-sha256-chacha20-poly1305";
/// Format version of sealed boxes.
pub const SEALED_BOX_VERSION: u32 = 1;
/// HKDF context of the encryption key.
const HKDF_INFO: &[u8] = b"noetl sealed credential v1";
/// Bytes of a public key.
const PUBLIC_KEY_BYTES: usize = 32;

/// Public key of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipientKey([u8; PUBLIC_KEY_BYTES]);

/// Ciphertext and the ephemeral public key that it was encrypted with, both in base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedBox {
    /// Ephemeral public key.
    pub eph_pub: Text,
    /// Nonce, ciphertext and tag.
    pub ciphertext: Text,
}

impl RecipientKey {
    /// Parses a public key: base64 of 32 bytes.
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Encrypts a plaintext for the recipient. Returns `None` for a weak public key, whose shared
    /// secret is known to everyone. Decryption requires the same associated data.
    pub fn seal_box(
        &self,
        associated_data: &[u8],
        plaintext: &[u8],
    ) -> Result<Option<SealedBox>, CryptoError> {
        let random = SystemRandom::new();
        let ephemeral_key = EphemeralPrivateKey::generate(&X25519, &random);
        let ephemeral_key = ephemeral_key.map_err(|_| CryptoError::EncryptFailed)?;
        let eph_pub = ephemeral_key.compute_public_key().map_err(|_| CryptoError::EncryptFailed)?;
        let salt = [eph_pub.as_ref(), &self.0].concat();
        let recipient_key = UnparsedPublicKey::new(&X25519, self.0);
        let key = agree_ephemeral(ephemeral_key, &recipient_key, |shared| {
            let secret = Salt::new(HKDF_SHA256, &salt).extract(shared);
            let key = secret.expand(&[HKDF_INFO], &CHACHA20_POLY1305);
            key.map(UnboundKey::from)
        });
        let Ok(key) = key else {
            return Ok(None);
        };
        let cipher = LessSafeKey::new(key.map_err(|_| CryptoError::EncryptFailed)?);
        Ok(Some(SealedBox {
            eph_pub: STANDARD.encode(eph_pub).into(),
            ciphertext: encrypt_to_base64(&cipher, &random, associated_data, plaintext)?,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests;
