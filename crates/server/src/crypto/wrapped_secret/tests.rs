use super::*;
use crate::crypto::InvalidKey;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::from_bytes(&[byte; KEY_BYTES]).unwrap()
}

fn binding(tenant_id: &TenantId) -> RecordBinding<'_> {
    RecordBinding { tenant_id, table: "credential", record: 7, columns: None, version: 1 }
}

#[test]
fn wrapped_secret_is_bound_to_its_record() {
    let ring = KeyRing::new(key(1), Vec::new());
    let (mine, theirs) = (TenantId::default(), TenantId::new("other").unwrap());
    let wrapped = ring.wrap_secret(&binding(&mine), b"hunter22").unwrap();
    assert_eq!(ring.unwrap_secret(&binding(&mine), &wrapped).unwrap().as_bytes(), b"hunter22");
    let others = [
        binding(&theirs),
        RecordBinding { record: 8, ..binding(&mine) },
        RecordBinding { version: 2, ..binding(&mine) },
        RecordBinding { table: "keychain", ..binding(&mine) },
        RecordBinding { columns: Some("api:5:global".into()), ..binding(&mine) },
    ];
    for other in others {
        let error = ring.unwrap_secret(&other, &wrapped).err();
        assert_eq!(error, Some(CryptoError::Damaged), "{other:?}");
    }
    let text = serde_json::to_string(&wrapped).unwrap();
    assert!(!text.contains("hunter22") && !text.contains(&STANDARD.encode("hunter22")));
    assert_eq!(serde_json::from_str::<WrappedSecret>(&text).unwrap(), wrapped);
}

#[test]
fn same_secret_is_wrapped_differently_each_time() {
    let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
    let wrap = || ring.wrap_secret(&binding(&tenant), b"same").unwrap();
    assert_ne!(wrap(), wrap());
}

#[test]
fn rejects_mixed_parts_of_two_secrets() {
    let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
    let one = ring.wrap_secret(&binding(&tenant), b"one").unwrap();
    let two = ring.wrap_secret(&binding(&tenant), b"two").unwrap();
    let mixed = WrappedSecret { ct: two.ct, ..one };
    assert_eq!(ring.unwrap_secret(&binding(&tenant), &mixed).err(), Some(CryptoError::Damaged));
}

#[test]
fn rewrapped_secret_does_not_need_old_key() {
    let tenant = TenantId::default();
    let before = KeyRing::new(key(1), Vec::new());
    let wrapped = before.wrap_secret(&binding(&tenant), b"hunter22").unwrap();
    let both = KeyRing::new(key(2), vec![key(1)]);
    assert_eq!(both.unwrap_secret(&binding(&tenant), &wrapped).unwrap().as_bytes(), b"hunter22");
    let rewrapped = both.rewrap_secret(&binding(&tenant), &wrapped).unwrap().unwrap();
    assert_eq!(rewrapped.ct, wrapped.ct);
    assert_eq!(both.rewrap_secret(&binding(&tenant), &rewrapped).unwrap(), None);
    let after = KeyRing::new(key(2), Vec::new());
    assert_eq!(after.unwrap_secret(&binding(&tenant), &rewrapped).unwrap().as_bytes(), b"hunter22");
    let error = after.unwrap_secret(&binding(&tenant), &wrapped).err();
    assert_eq!(error, Some(CryptoError::MissingKey(key(1).kid().clone())));
}

#[test]
fn rejects_damaged_and_unknown_secrets() {
    let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
    let wrapped = ring.wrap_secret(&binding(&tenant), b"hunter22").unwrap();
    for ct in ["", "!", "AAAA", &"A".repeat(64)] {
        let damaged = WrappedSecret { ct: ct.into(), ..wrapped.clone() };
        assert_eq!(
            ring.unwrap_secret(&binding(&tenant), &damaged).err(),
            Some(CryptoError::Damaged)
        );
    }
    let old = WrappedSecret { v: 1, ..wrapped };
    assert_eq!(ring.unwrap_secret(&binding(&tenant), &old).err(), Some(CryptoError::UnknownFormat));
}

#[test]
fn parses_or_rejects_encryption_keys() {
    assert_eq!(EncryptionKey::from_base64("x y").err(), Some(InvalidKey::NotBase64));
    assert_eq!(EncryptionKey::from_base64("AAAA").err(), Some(InvalidKey::Length(3)));
    let text = STANDARD.encode([1; KEY_BYTES]);
    assert_eq!(EncryptionKey::from_base64(&text).unwrap().kid(), key(1).kid());
}
