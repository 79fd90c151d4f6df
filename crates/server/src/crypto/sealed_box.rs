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
pub(crate) mod tests {
    use ring::aead::{Aad, NONCE_LEN, Nonce};

    use super::*;

    /// Recipient of sealed boxes.
    pub(crate) struct BoxRecipient {
        private: EphemeralPrivateKey,
        public: Vec<u8>,
    }

    impl BoxRecipient {
        pub(crate) fn new() -> Self {
            let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).unwrap();
            let public = private.compute_public_key().unwrap().as_ref().to_vec();
            Self { private, public }
        }

        pub(crate) fn public_key(&self) -> String {
            STANDARD.encode(&self.public)
        }

        /// Decrypts a sealed box as the documentation specifies.
        pub(crate) fn open(self, sealed: &SealedBox, associated_data: &[u8]) -> Option<Vec<u8>> {
            let eph_pub = STANDARD.decode(sealed.eph_pub.as_bytes()).unwrap();
            let bytes = STANDARD.decode(sealed.ciphertext.as_bytes()).unwrap();
            let salt = [eph_pub.as_slice(), &self.public].concat();
            let sender_key = UnparsedPublicKey::new(&X25519, &eph_pub);
            let key = agree_ephemeral(self.private, &sender_key, |shared| {
                let secret = Salt::new(HKDF_SHA256, &salt).extract(shared);
                let info = [b"noetl sealed credential v1".as_slice()];
                let key = secret.expand(&info, &CHACHA20_POLY1305).unwrap();
                LessSafeKey::new(UnboundKey::from(key))
            });
            let (nonce, body) = bytes.split_first_chunk::<NONCE_LEN>().unwrap();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut body = body.to_vec();
            let opened = key.unwrap().open_in_place(nonce, Aad::from(associated_data), &mut body);
            opened.ok().map(|plaintext| plaintext.to_vec())
        }
    }

    fn seal_for_recipient(recipient: &BoxRecipient) -> SealedBox {
        let key = RecipientKey::from_base64(&recipient.public_key()).unwrap();
        key.seal_box(b"record 1", b"hunter22").unwrap().unwrap()
    }

    #[test]
    fn sealed_box_opens_only_for_recipient_and_binding() {
        let recipient = BoxRecipient::new();
        let sealed = seal_for_recipient(&recipient);
        let opened = recipient.open(&sealed, b"record 1");
        assert_eq!(opened.as_deref(), Some(b"hunter22".as_slice()));
        let recipient = BoxRecipient::new();
        let sealed = seal_for_recipient(&recipient);
        assert_eq!(recipient.open(&sealed, b"record 2"), None);
        let recipient = BoxRecipient::new();
        let sealed = seal_for_recipient(&recipient);
        assert_eq!(BoxRecipient::new().open(&sealed, b"record 1"), None);
        // A recipient that only presents another's public key cannot decrypt it either.
        let impostor = BoxRecipient { public: recipient.public, ..BoxRecipient::new() };
        assert_eq!(impostor.open(&sealed, b"record 1"), None);
    }

    #[test]
    fn rejects_invalid_public_keys() {
        for text in ["", "!", "AAAA", &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33])] {
            assert_eq!(RecipientKey::from_base64(text), None, "{text}");
        }
        // The shared secret of this public key is known to everyone.
        let weak_key = RecipientKey::from_base64(&STANDARD.encode([0; 32])).unwrap();
        assert_eq!(weak_key.seal_box(b"", b"hunter22").unwrap(), None);
    }
}
