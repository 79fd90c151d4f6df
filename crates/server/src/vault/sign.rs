//! Signatures that all servers of an installation make and know, and nobody else does.

use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac;

use super::envelope::VaultError;
use super::keys::KeyRing;

/// Bytes of a signature.
pub(crate) const TAG_BYTES: usize = 32;
/// What all keys of this house are made with.
const SALT: &[u8] = b"noetl";

/// What keys for an end of their own are made from.
pub(super) fn root_of(secret: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, SALT).extract(secret)
}

/// Signs, and knows what was signed.
pub(crate) struct Signer {
    signing: hmac::Key,
    /// Keys that signed before; what they signed is still known.
    old: Vec<hmac::Key>,
}

impl Signer {
    /// Signs for one end, under keys that follow from those of secrets.
    pub(crate) fn of_ring(ring: &KeyRing, end: &str) -> Result<Self, VaultError> {
        let old = ring.all().skip(1).map(|key| key_for(&key.root, end));
        Ok(Self {
            signing: key_for(&ring.current().root, end)?,
            old: old.collect::<Result<_, _>>()?,
        })
    }

    /// The same under a key that follows from any other secret.
    pub(crate) fn of_secret(secret: &[u8], end: &str) -> Result<Self, VaultError> {
        Ok(Self {
            signing: key_for(&root_of(secret), end)?,
            old: Vec::new(),
        })
    }

    /// The signature of a text.
    pub(crate) fn sign(&self, text: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(hmac::sign(&self.signing, text).as_ref());
        tag
    }

    /// Whether a signature is one of ours. How long it takes says nothing about the right one.
    pub(crate) fn knows(&self, text: &[u8], tag: &[u8]) -> bool {
        let mut keys = std::iter::once(&self.signing).chain(&self.old);
        keys.any(|key| hmac::verify(key, text, tag).is_ok())
    }
}

fn key_for(root: &Prk, end: &str) -> Result<hmac::Key, VaultError> {
    let end = [end.as_bytes()];
    let key = root.expand(&end, hmac::HMAC_SHA256);
    key.map(hmac::Key::from).map_err(|_| VaultError::Cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::Key;

    fn key(byte: u8) -> Key {
        Key::of(&[byte; 32]).unwrap()
    }

    #[test]
    fn what_was_signed_is_known_by_whoever_has_the_key() {
        let ring = KeyRing::new(key(1), Vec::new());
        let signer = Signer::of_ring(&ring, "doors").unwrap();
        let tag = signer.sign(b"come in");
        assert!(signer.knows(b"come in", &tag));
        assert!(!signer.knows(b"come on", &tag));
        assert!(!signer.knows(b"come in", &tag[..31]));
        assert!(!signer.knows(b"come in", &[]));
        let again = Signer::of_ring(&ring, "doors").unwrap();
        assert!(again.knows(b"come in", &tag));
        // A key is for one end, and is not what secrets are sealed under.
        for other in [
            Signer::of_ring(&ring, "windows").unwrap(),
            Signer::of_secret(&[2; 32], "doors").unwrap(),
        ] {
            assert!(!other.knows(b"come in", &tag));
        }
    }

    #[test]
    fn an_earlier_key_is_known_for_as_long_as_it_is_kept() {
        let before = Signer::of_ring(&KeyRing::new(key(1), Vec::new()), "doors").unwrap();
        let tag = before.sign(b"come in");
        let during = Signer::of_ring(&KeyRing::new(key(2), vec![key(1)]), "doors").unwrap();
        assert!(during.knows(b"come in", &tag));
        assert_ne!(during.sign(b"come in"), tag);
        let after = Signer::of_ring(&KeyRing::new(key(2), Vec::new()), "doors").unwrap();
        assert!(!after.knows(b"come in", &tag));
    }
}
