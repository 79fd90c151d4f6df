use super::*;
use crate::crypto::EncryptionKey;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::from_bytes(&[byte; 32]).unwrap()
}

#[test]
fn verifies_signatures_of_same_key_and_purpose() {
    let ring = KeyRing::new(key(1), Vec::new());
    let signer = HmacSigner::from_key_ring(&ring, "tokens").unwrap();
    let signature = signer.sign_bytes(b"message");
    assert!(signer.verify_signature(b"message", &signature));
    assert!(!signer.verify_signature(b"massage", &signature));
    assert!(!signer.verify_signature(b"message", &signature[..31]));
    assert!(!signer.verify_signature(b"message", &[]));
    let same = HmacSigner::from_key_ring(&ring, "tokens").unwrap();
    assert!(same.verify_signature(b"message", &signature));
    // A key is valid for one purpose and differs from the keys that encrypt secrets.
    for other in [
        HmacSigner::from_key_ring(&ring, "cursors").unwrap(),
        HmacSigner::from_secret(&[2; 32], "tokens").unwrap(),
    ] {
        assert!(!other.verify_signature(b"message", &signature));
    }
}

#[test]
fn old_keys_verify_until_removed() {
    let before = HmacSigner::from_key_ring(&KeyRing::new(key(1), Vec::new()), "tokens").unwrap();
    let signature = before.sign_bytes(b"message");
    let during = HmacSigner::from_key_ring(&KeyRing::new(key(2), vec![key(1)]), "tokens").unwrap();
    assert!(during.verify_signature(b"message", &signature));
    assert_ne!(during.sign_bytes(b"message"), signature);
    let after = HmacSigner::from_key_ring(&KeyRing::new(key(2), Vec::new()), "tokens").unwrap();
    assert!(!after.verify_signature(b"message", &signature));
}
