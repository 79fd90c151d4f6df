//! The catalog of definitions.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, PlaybookPath, TenantId, Text, Timestamp, sha256};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::test_time;
use crate::{CatalogFilter, CatalogKey, CatalogVersionFilter, NewCatalogEntry, Store};

fn playbook_path(text: &str) -> PlaybookPath {
    PlaybookPath::new(text).unwrap()
}

fn catalog_id(number: i64) -> CatalogId {
    CatalogId::new(number).unwrap()
}

fn catalog_entry(number: i64, path: &str, content: &str) -> NewCatalogEntry {
    NewCatalogEntry {
        catalog_id: catalog_id(number),
        tenant_id: TenantId::default(),
        path: playbook_path(path),
        kind: Text::from("playbook"),
        content: Text::from(content),
        sha256: sha256(content),
        meta: None,
        now: test_time("12:00:00"),
    }
}

pub(crate) async fn unchanged_content_keeps_its_version(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = TenantId::default();
    let mut versions = Vec::new();
    // Returning to an earlier text is a new version, because only the newest version is compared.
    for (number, content) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "a")] {
        let registered =
            store.register_definition(catalog_entry(number, "etl", content)).await.unwrap();
        versions.push((
            registered.entry.version,
            registered.entry.catalog_id.get(),
            registered.is_unchanged,
        ));
    }
    assert_eq!(versions, [(1, 1, false), (1, 1, true), (2, 3, false), (2, 3, true), (3, 5, false)]);
    let get = |key| store.find_catalog_entry(&tenant, key);
    let latest = get(CatalogKey::Latest(playbook_path("etl"))).await.unwrap().unwrap();
    assert_eq!((latest.version, latest.content.as_str()), (3, "a"));
    let second = get(CatalogKey::Version(playbook_path("etl"), 2)).await.unwrap();
    assert_eq!(second.unwrap().content, "b");
    assert_eq!(get(CatalogKey::Id(catalog_id(5))).await.unwrap(), Some(latest));
    assert_eq!(get(CatalogKey::Version(playbook_path("etl"), 4)).await.unwrap(), None);
    assert_eq!(get(CatalogKey::Latest(playbook_path("other"))).await.unwrap(), None);
    let other_tenant = TenantId::new("acme").unwrap();
    let foreign = store.find_catalog_entry(&other_tenant, CatalogKey::Id(catalog_id(5))).await;
    assert_eq!(foreign.unwrap(), None);
}

pub(crate) async fn racing_registrations_get_contiguous_versions(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let content = format!("content {number}");
            let new = catalog_entry(number, "etl", &content);
            store.register_definition(new).await.unwrap().entry.version
        });
    }
    let mut versions = tasks.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=16).collect::<Vec<u32>>());
}

pub(crate) async fn lists_latest_definitions(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for (number, path) in [(1, "b"), (2, "a"), (3, "c"), (4, "d")] {
        store.register_definition(catalog_entry(number, path, "1")).await.unwrap();
    }
    store.register_definition(catalog_entry(5, "a", "2")).await.unwrap();
    let mut subscription = catalog_entry(6, "aa", "1");
    subscription.kind = Text::from("subscription");
    store.register_definition(subscription).await.unwrap();
    let mut foreign = catalog_entry(7, "b", "1");
    foreign.tenant_id = TenantId::new("acme").unwrap();
    store.register_definition(foreign).await.unwrap();

    let mut filter = CatalogFilter {
        tenant_id: TenantId::default(),
        kind: Some(Text::from("playbook")),
        include_archived: false,
        after: None,
        limit: PageLimit::new(3).unwrap(),
    };
    let first = store.list_catalog(filter.clone()).await.unwrap();
    let names: Vec<_> = first.iter().map(|entry| (entry.path.as_str(), entry.version)).collect();
    assert_eq!(names, [("a", 2), ("b", 1), ("c", 1)]);
    filter.after = first.last().map(|entry| entry.path.clone());
    let second = store.list_catalog(filter).await.unwrap();
    let names: Vec<_> = second.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["d"]);
}

pub(crate) async fn lists_versions_of_path(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for (number, content) in [(1, "a"), (2, "b"), (3, "c")] {
        store.register_definition(catalog_entry(number, "etl", content)).await.unwrap();
    }
    store.register_definition(catalog_entry(4, "etl2", "a")).await.unwrap();
    let mut filter = CatalogVersionFilter {
        tenant_id: TenantId::default(),
        path: playbook_path("etl"),
        before: None,
        limit: PageLimit::new(2).unwrap(),
    };
    let summarize = |entries: Vec<crate::CatalogEntry>| -> Vec<_> {
        let entries = entries.iter();
        entries.map(|it| (it.version, it.content.to_string())).collect()
    };
    let newest = summarize(store.list_catalog_versions(filter.clone()).await.unwrap());
    assert_eq!(newest, [(3, "c".to_owned()), (2, "b".to_owned())]);
    filter.before = Some(2);
    let rest = summarize(store.list_catalog_versions(filter.clone()).await.unwrap());
    assert_eq!(rest, [(1, "a".to_owned())]);
    filter.path = playbook_path("none");
    assert_eq!(store.list_catalog_versions(filter).await.unwrap(), []);
}

async fn set_archived(store: &dyn Store, path: &PlaybookPath, since: Option<Timestamp>) -> bool {
    let tenant = TenantId::default();
    let changed = store.set_definition_archived(&tenant, path, since).await;
    changed.unwrap()
}

pub(crate) async fn archived_path_is_hidden_until_registered(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = TenantId::default();
    for (number, content) in [(1, "a"), (2, "b")] {
        store.register_definition(catalog_entry(number, "etl", content)).await.unwrap();
    }
    store.register_definition(catalog_entry(3, "kept", "a")).await.unwrap();
    let (etl, since) = (playbook_path("etl"), Some(test_time("13:00:00")));
    assert!(!set_archived(store, &playbook_path("none"), since).await);
    assert!(set_archived(store, &etl, since).await);
    // The first archive time is kept.
    let later = Some(test_time("14:00:00"));
    assert!(!set_archived(store, &etl, later).await);
    for key in [CatalogKey::Id(catalog_id(1)), CatalogKey::Latest(etl.clone())] {
        let found = store.find_catalog_entry(&tenant, key).await.unwrap().unwrap();
        assert_eq!(found.archived_at, since);
    }
    let mut filter = CatalogFilter {
        tenant_id: tenant.clone(),
        kind: None,
        include_archived: false,
        after: None,
        limit: PageLimit::default(),
    };
    assert_eq!(store.list_catalog(filter.clone()).await.unwrap().len(), 1);
    filter.include_archived = true;
    assert_eq!(store.list_catalog(filter).await.unwrap().len(), 2);
    let counts = store.tenant_counts(&tenant).await.unwrap();
    assert_eq!(counts.definitions.get("playbook"), Some(&1));

    assert!(set_archived(store, &etl, None).await);
    assert!(!set_archived(store, &etl, None).await);
    // Registering at an archived path restores it.
    assert!(set_archived(store, &etl, since).await);
    let same = store.register_definition(catalog_entry(4, "etl", "b")).await.unwrap();
    assert!(same.is_unchanged);
    assert_eq!(same.entry.archived_at, None);
    assert!(set_archived(store, &etl, since).await);
    let next = store.register_definition(catalog_entry(5, "etl", "c")).await.unwrap();
    assert_eq!((next.entry.version, next.entry.archived_at), (3, None));
    let first = CatalogKey::Version(etl, 1);
    let first = store.find_catalog_entry(&tenant, first).await.unwrap().unwrap();
    assert_eq!(first.archived_at, None);
}
