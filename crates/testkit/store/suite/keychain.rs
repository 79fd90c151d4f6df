//! Storage of keychain entries.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ExecutionId, Json, KeychainId, TenantId, Timestamp};

use super::StoreFixture;
use crate::model::{KeychainEntry, KeychainFilter, KeychainPut, KeychainScope};

pub(crate) fn keychain_entry(id: i64, tenant: &str, cache_key: &str) -> KeychainEntry {
    KeychainEntry {
        keychain_id: KeychainId::new(id).unwrap(),
        tenant_id: TenantId::new(tenant).unwrap(),
        cache_key: cache_key.into(),
        name: "api".into(),
        catalog_id: CatalogId::new(5).unwrap(),
        scope: KeychainScope::Shared,
        execution_id: ExecutionId::new(9).ok(),
        version: 1,
        sealed: Json::object([("ct", Json::from("x"))]),
        kid: "k1".into(),
        auto_renew: true,
        created_at: Timestamp::from_unix_ms(1_000).unwrap(),
        updated_at: Timestamp::from_unix_ms(2_000).unwrap(),
        expires_at: Timestamp::from_unix_ms(3_000).unwrap(),
    }
}

pub(crate) fn keychain_put(entry: KeychainEntry) -> KeychainPut {
    KeychainPut { entry, replaces: None }
}

pub(crate) async fn keychain_replace_requires_current_version(fixture: &StoreFixture) {
    let store = &fixture.store;
    let first = keychain_entry(7, "default", "api:5:global");
    assert!(store.put_keychain_entry(keychain_put(first.clone())).await.unwrap());
    for conflicting in
        [keychain_entry(8, "default", "api:5:global"), keychain_entry(7, "default", "api:5:local")]
    {
        assert!(!store.put_keychain_entry(keychain_put(conflicting)).await.unwrap());
    }
    let (tenant, other_tenant) = (TenantId::default(), TenantId::new("other").unwrap());
    let find = async |tenant_id: &TenantId| {
        let found = store.find_keychain_entry(tenant_id, "api:5:global").await;
        found.unwrap()
    };
    assert_eq!(find(&tenant).await.as_ref(), Some(&first));
    assert_eq!(find(&other_tenant).await, None);
    let second = KeychainEntry {
        version: 2,
        scope: KeychainScope::Global,
        execution_id: None,
        auto_renew: false,
        kid: "k2".into(),
        expires_at: Timestamp::from_unix_ms(4_000).unwrap(),
        ..first.clone()
    };
    let replace = |replaces| KeychainPut { entry: second.clone(), replaces: Some(replaces) };
    assert!(!store.put_keychain_entry(replace(3)).await.unwrap());
    assert!(store.put_keychain_entry(replace(1)).await.unwrap());
    assert!(!store.put_keychain_entry(replace(1)).await.unwrap());
    assert_eq!(find(&tenant).await, Some(second));
    // The same key of another tenant is a different entry.
    let other_entry = keychain_entry(9, "other", "api:5:global");
    assert!(store.put_keychain_entry(keychain_put(other_entry.clone())).await.unwrap());
    let delete = async |tenant_id: &TenantId| {
        let deleted = store.delete_keychain_entry(tenant_id, "api:5:global").await;
        deleted.unwrap()
    };
    assert!(delete(&tenant).await);
    assert!(!delete(&tenant).await);
    assert_eq!(find(&tenant).await, None);
    assert_eq!(find(&other_tenant).await, Some(other_entry));
}

pub(crate) async fn keychain_entries_are_listed_by_page(fixture: &StoreFixture) {
    let store = &fixture.store;
    let mut other_definition = keychain_entry(3, "default", "api:6:global");
    other_definition.catalog_id = CatalogId::new(6).unwrap();
    other_definition.kid = "k2".into();
    for entry in [
        keychain_entry(1, "default", "api:5:global"),
        keychain_entry(2, "other", "api:5:global"),
        other_definition,
        keychain_entry(4, "default", "api:5:local"),
    ] {
        assert!(store.put_keychain_entry(keychain_put(entry)).await.unwrap());
    }
    let ids = async |filter: KeychainFilter, limit: i64| {
        let limit = PageLimit::clamped(limit);
        let found = store.list_keychain_entries(filter, limit).await.unwrap();
        let ids = found.iter().map(|found| found.keychain_id.get());
        ids.collect::<Vec<_>>()
    };
    let base =
        || KeychainFilter { tenant_id: Some(TenantId::default()), ..KeychainFilter::default() };
    assert_eq!(ids(base(), 10).await, [1, 3, 4]);
    assert_eq!(ids(base(), 2).await, [1, 3]);
    let after = KeychainId::new(3).ok();
    assert_eq!(ids(KeychainFilter { after, ..base() }, 2).await, [4]);
    let catalog_id = CatalogId::new(5).ok();
    let by_definition = KeychainFilter { catalog_id, ..base() };
    assert_eq!(ids(by_definition, 10).await, [1, 4]);
    let all_tenants =
        KeychainFilter { excluded_kid: Some("k2".into()), ..KeychainFilter::default() };
    assert_eq!(ids(all_tenants, 10).await, [1, 2, 4]);
    let counts = store.count_secrets_by_key().await.unwrap();
    let expected = [("k1".into(), 3), ("k2".into(), 1)];
    assert_eq!(counts.keychain, expected.into_iter().collect());
    assert!(counts.credentials.is_empty());
}

pub(crate) async fn key_check_is_stored_once_and_replaced(fixture: &StoreFixture) {
    let store = &fixture.store;
    assert_eq!(store.get_or_init_key_check(None).await.unwrap(), None);
    let first = store.get_or_init_key_check(Some("first".into())).await.unwrap();
    let second = store.get_or_init_key_check(Some("second".into())).await.unwrap();
    assert_eq!((first.as_deref(), second.as_deref()), (Some("first"), Some("first")));
    assert!(!store.replace_key_check("second".into(), "third".into()).await.unwrap());
    assert!(store.replace_key_check("first".into(), "third".into()).await.unwrap());
    assert_eq!(store.get_or_init_key_check(None).await.unwrap().as_deref(), Some("third"));
}
