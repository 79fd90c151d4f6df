//! What workers resolved is kept for a while.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ExecutionId, Json, KeychainId, TenantId, Timestamp};

use super::Bench;
use crate::model::{KeychainEntry, KeychainFilter, KeychainPut, KeychainScope};

pub(crate) fn entry(id: i64, tenant: &str, cache_key: &str) -> KeychainEntry {
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

pub(crate) fn new(entry: KeychainEntry) -> KeychainPut {
    KeychainPut {
        entry,
        replaces: None,
    }
}

pub(crate) async fn a_keychain_entry_is_kept_replaced_and_forgotten(bench: &Bench) {
    let store = &bench.store;
    let first = entry(7, "default", "api:5:global");
    assert!(store.put_keychain(new(first.clone())).await.unwrap());
    for taken in [
        entry(8, "default", "api:5:global"),
        entry(7, "default", "api:5:local"),
    ] {
        assert!(!store.put_keychain(new(taken)).await.unwrap());
    }
    let (mine, other) = (TenantId::default(), TenantId::new("other").unwrap());
    let found = async |tenant_id: &TenantId| {
        let found = store.keychain_entry(tenant_id, "api:5:global").await;
        found.unwrap()
    };
    assert_eq!(found(&mine).await.as_ref(), Some(&first));
    assert_eq!(found(&other).await, None);
    let second = KeychainEntry {
        version: 2,
        scope: KeychainScope::Global,
        execution_id: None,
        auto_renew: false,
        kid: "k2".into(),
        expires_at: Timestamp::from_unix_ms(4_000).unwrap(),
        ..first.clone()
    };
    let replace = |replaces| KeychainPut {
        entry: second.clone(),
        replaces: Some(replaces),
    };
    assert!(!store.put_keychain(replace(3)).await.unwrap());
    assert!(store.put_keychain(replace(1)).await.unwrap());
    assert!(!store.put_keychain(replace(1)).await.unwrap());
    assert_eq!(found(&mine).await, Some(second));
    // The same key of another tenant is another entry.
    let theirs = entry(9, "other", "api:5:global");
    assert!(store.put_keychain(new(theirs.clone())).await.unwrap());
    let delete = async |tenant_id: &TenantId| {
        let deleted = store.delete_keychain(tenant_id, "api:5:global").await;
        deleted.unwrap()
    };
    assert!(delete(&mine).await);
    assert!(!delete(&mine).await);
    assert_eq!(found(&mine).await, None);
    assert_eq!(found(&other).await, Some(theirs));
}

pub(crate) async fn keychain_entries_are_listed_by_page(bench: &Bench) {
    let store = &bench.store;
    let mut elsewhere = entry(3, "default", "api:6:global");
    elsewhere.catalog_id = CatalogId::new(6).unwrap();
    elsewhere.kid = "k2".into();
    for kept in [
        entry(1, "default", "api:5:global"),
        entry(2, "other", "api:5:global"),
        elsewhere,
        entry(4, "default", "api:5:local"),
    ] {
        assert!(store.put_keychain(new(kept)).await.unwrap());
    }
    let ids = async |filter: KeychainFilter, limit: i64| {
        let limit = PageLimit::clamped(limit);
        let found = store.keychain_entries(filter, limit).await.unwrap();
        let ids = found.iter().map(|found| found.keychain_id.get());
        ids.collect::<Vec<_>>()
    };
    let mine = || KeychainFilter {
        tenant_id: Some(TenantId::default()),
        ..KeychainFilter::default()
    };
    assert_eq!(ids(mine(), 10).await, [1, 3, 4]);
    assert_eq!(ids(mine(), 2).await, [1, 3]);
    let after = KeychainId::new(3).ok();
    assert_eq!(ids(KeychainFilter { after, ..mine() }, 2).await, [4]);
    let catalog_id = CatalogId::new(5).ok();
    let of_five = KeychainFilter {
        catalog_id,
        ..mine()
    };
    assert_eq!(ids(of_five, 10).await, [1, 4]);
    let anybodys = KeychainFilter {
        not_under: Some("k2".into()),
        ..KeychainFilter::default()
    };
    assert_eq!(ids(anybodys, 10).await, [1, 2, 4]);
    let counts = store.key_counts().await.unwrap();
    let of_keys = [("k1".into(), 3), ("k2".into(), 1)];
    assert_eq!(counts.keychain, of_keys.into_iter().collect());
    assert!(counts.credentials.is_empty());
}
