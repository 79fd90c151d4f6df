use noetl_store::prelude::*;
use noetl_store::{Credential, CredentialPut, SqliteStore};
use noetl_types::{CredentialId, Json, Timestamp};

use super::*;
use crate::crypto::EncryptionKey;

fn new_key() -> String {
    EncryptionKey::generate_base64().unwrap()
}

fn ring(current: &str, old: &[&str]) -> KeyRing {
    let key = |text: &str| EncryptionKey::from_base64(text).unwrap();
    KeyRing::new(key(current), old.iter().map(|text| key(text)).collect())
}

#[tokio::test]
async fn wrong_and_missing_keys_are_refused() {
    let (key, other) = (new_key(), new_key());
    let store = SqliteStore::in_memory().unwrap();
    verify_encryption_key(&store, None).await.unwrap();
    verify_encryption_key(&store, Some(&ring(&key, &[]))).await.unwrap();
    verify_encryption_key(&store, Some(&ring(&key, &[]))).await.unwrap();
    let refused = verify_encryption_key(&store, Some(&ring(&other, &[]))).await.unwrap_err();
    assert!(refused.to_string().contains("NOETL_ENCRYPTION_KEYS_OLD"), "{refused}");
    check_encryption_key(&store, &ring(&key, &[])).await.unwrap();
    check_encryption_key(&store, &ring(&other, &[])).await.unwrap_err();
    let refused = verify_encryption_key(&store, None).await.unwrap_err();
    assert!(refused.to_string().contains("set NOETL_ENCRYPTION_KEY"), "{refused}");
}

#[tokio::test]
async fn rotation_moves_check_to_current_key() {
    let (first, second) = (new_key(), new_key());
    let store = SqliteStore::in_memory().unwrap();
    verify_encryption_key(&store, Some(&ring(&first, &[]))).await.unwrap();
    verify_encryption_key(&store, Some(&ring(&second, &[&first]))).await.unwrap();
    // The earlier key is no longer needed, and no longer sufficient.
    verify_encryption_key(&store, Some(&ring(&second, &[]))).await.unwrap();
    verify_encryption_key(&store, Some(&ring(&first, &[]))).await.unwrap_err();
}

#[tokio::test]
async fn changed_check_is_refused() {
    let key = new_key();
    let store = SqliteStore::in_memory().unwrap();
    store.get_or_init_key_check(Some("{}".into())).await.unwrap();
    verify_encryption_key(&store, Some(&ring(&key, &[]))).await.unwrap_err();
}

/// A database of a release without the key check.
#[tokio::test]
async fn key_check_requires_keys_of_stored_secrets() {
    let (key, other) = (new_key(), new_key());
    let store = SqliteStore::in_memory().unwrap();
    let now = Timestamp::from_unix_ms(0).unwrap();
    let credential = Credential {
        credential_id: CredentialId::new(7).unwrap(),
        tenant_id: TenantId::default(),
        name: "api".into(),
        kind: "bearer".into(),
        version: 1,
        sealed: Json::empty_map(),
        kid: ring(&key, &[]).current().kid().clone(),
        meta: None,
        tags: Json::list(Vec::new()),
        description: None,
        created_at: now,
        updated_at: now,
    };
    store.put_credential(CredentialPut { credential, replaces: None }).await.unwrap();
    let refused = verify_encryption_key(&store, Some(&ring(&other, &[]))).await.unwrap_err();
    assert!(refused.to_string().contains("NOETL_ENCRYPTION_KEYS_OLD"), "{refused}");
    verify_encryption_key(&store, None).await.unwrap_err();
    // The refused process has written no key check.
    verify_encryption_key(&store, Some(&ring(&other, &[&key]))).await.unwrap();
}
