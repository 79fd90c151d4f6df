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
