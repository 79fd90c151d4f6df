//! A letter: a text sealed for whoever holds a private key, and for nobody else.
//!
//! X25519 with a key that is made for the letter and thrown away, HKDF-SHA256 over what both agree on,
//! ChaCha20-Poly1305. The page on security has it in full, for those who write a reader.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::Text;
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;

use super::envelope::{VaultError, encrypt};

/// How letters are sealed.
pub const LETTER_ALGORITHM: &str = "x25519-hkdf-sha256-chacha20-poly1305";
/// The form of letters.
pub const LETTER_VERSION: u32 = 1;
/// What the key of a letter is for.
const INFO: &[u8] = b"noetl sealed credential v1";
/// Bytes of a public key.
const KEY_BYTES: usize = 32;

/// Whom letters are for: a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressee([u8; KEY_BYTES]);

/// A sealed text, and the public half of the key that was made for it, both in base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The public half.
    pub eph_pub: Text,
    /// Nonce, text and tag.
    pub ciphertext: Text,
}

impl Addressee {
    /// Reads a public key: base64 of 32 bytes.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Seals a text; nothing if the key is one that everybody can agree with. What it is bound to
    /// must be shown to open it.
    pub fn seal(&self, bound: &[u8], text: &[u8]) -> Result<Option<Letter>, VaultError> {
        let random = SystemRandom::new();
        let own = EphemeralPrivateKey::generate(&X25519, &random);
        let own = own.map_err(|_| VaultError::Cannot)?;
        let eph_pub = own.compute_public_key().map_err(|_| VaultError::Cannot)?;
        let salt = [eph_pub.as_ref(), &self.0].concat();
        let theirs = UnparsedPublicKey::new(&X25519, self.0);
        let key = agree_ephemeral(own, &theirs, |shared| {
            let secret = Salt::new(HKDF_SHA256, &salt).extract(shared);
            let key = secret.expand(&[INFO], &CHACHA20_POLY1305);
            key.map(UnboundKey::from)
        });
        let Ok(key) = key else {
            return Ok(None);
        };
        let cipher = LessSafeKey::new(key.map_err(|_| VaultError::Cannot)?);
        Ok(Some(Letter {
            eph_pub: STANDARD.encode(eph_pub).into(),
            ciphertext: encrypt(&cipher, &random, bound, text)?,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ring::aead::{Aad, NONCE_LEN, Nonce};

    use super::*;

    /// Somebody who reads letters.
    pub(crate) struct Reader {
        private: EphemeralPrivateKey,
        public: Vec<u8>,
    }

    impl Reader {
        pub(crate) fn new() -> Self {
            let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).unwrap();
            let public = private.compute_public_key().unwrap().as_ref().to_vec();
            Self { private, public }
        }

        pub(crate) fn public_key(&self) -> String {
            STANDARD.encode(&self.public)
        }

        /// Opens a letter as the documentation says.
        pub(crate) fn open(self, letter: &Letter, bound: &[u8]) -> Option<Vec<u8>> {
            let eph_pub = STANDARD.decode(letter.eph_pub.as_bytes()).unwrap();
            let sealed = STANDARD.decode(letter.ciphertext.as_bytes()).unwrap();
            let salt = [eph_pub.as_slice(), &self.public].concat();
            let theirs = UnparsedPublicKey::new(&X25519, &eph_pub);
            let key = agree_ephemeral(self.private, &theirs, |shared| {
                let secret = Salt::new(HKDF_SHA256, &salt).extract(shared);
                let info = [b"noetl sealed credential v1".as_slice()];
                let key = secret.expand(&info, &CHACHA20_POLY1305).unwrap();
                LessSafeKey::new(UnboundKey::from(key))
            });
            let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>().unwrap();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut body = body.to_vec();
            let opened = key
                .unwrap()
                .open_in_place(nonce, Aad::from(bound), &mut body);
            opened.ok().map(|text| text.to_vec())
        }
    }

    fn letter_to(reader: &Reader) -> Letter {
        let addressee = Addressee::read(&reader.public_key()).unwrap();
        addressee.seal(b"for it", b"hunter22").unwrap().unwrap()
    }

    #[test]
    fn a_letter_opens_for_its_addressee_and_what_it_is_bound_to() {
        let reader = Reader::new();
        let letter = letter_to(&reader);
        let opened = reader.open(&letter, b"for it");
        assert_eq!(opened.as_deref(), Some(b"hunter22".as_slice()));
        let reader = Reader::new();
        let letter = letter_to(&reader);
        assert_eq!(reader.open(&letter, b"for another"), None);
        let reader = Reader::new();
        let letter = letter_to(&reader);
        assert_eq!(Reader::new().open(&letter, b"for it"), None);
        // Not even for one that says it has the key of somebody else.
        let liar = Reader {
            public: reader.public,
            ..Reader::new()
        };
        assert_eq!(liar.open(&letter, b"for it"), None);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "!",
            "AAAA",
            &STANDARD.encode([1; 31]),
            &STANDARD.encode([1; 33]),
        ] {
            assert_eq!(Addressee::read(text), None, "{text}");
        }
        // Whatever is agreed on with this one, everybody knows it.
        let nobody = Addressee::read(&STANDARD.encode([0; 32])).unwrap();
        assert_eq!(nobody.seal(b"", b"hunter22").unwrap(), None);
    }
}
