//! The catalog.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, PlaybookPath, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::at;
use crate::{CatalogFilter, CatalogKey, NewCatalogEntry, VersionFilter};

fn path(text: &str) -> PlaybookPath {
    PlaybookPath::new(text).unwrap()
}

fn id(number: i64) -> CatalogId {
    CatalogId::new(number).unwrap()
}

fn entry(number: i64, at_path: &str, content: &str) -> NewCatalogEntry {
    NewCatalogEntry {
        catalog_id: id(number),
        tenant_id: TenantId::default(),
        path: path(at_path),
        kind: Text::from("playbook"),
        content: Text::from(content),
        sha256: sha256(content),
        meta: None,
        now: at("12:00:00"),
    }
}

pub(crate) async fn versions_and_unchanged_content(bench: &Bench) {
    let store = &*bench.store;
    let tenant = TenantId::default();
    let mut versions = Vec::new();
    // Going back to an older text is a new version: the newest is what counts.
    for (number, content) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "a")] {
        let registered = store.register(entry(number, "etl", content)).await.unwrap();
        versions.push((
            registered.entry.version,
            registered.entry.catalog_id.get(),
            registered.is_unchanged,
        ));
    }
    assert_eq!(
        versions,
        [
            (1, 1, false),
            (1, 1, true),
            (2, 3, false),
            (2, 3, true),
            (3, 5, false)
        ]
    );
    let get = |key| store.catalog_entry(&tenant, key);
    let latest = get(CatalogKey::Latest(path("etl"))).await.unwrap().unwrap();
    assert_eq!((latest.version, latest.content.as_str()), (3, "a"));
    let second = get(CatalogKey::Version(path("etl"), 2)).await.unwrap();
    assert_eq!(second.unwrap().content, "b");
    assert_eq!(get(CatalogKey::Id(id(5))).await.unwrap(), Some(latest));
    assert_eq!(
        get(CatalogKey::Version(path("etl"), 4)).await.unwrap(),
        None
    );
    assert_eq!(get(CatalogKey::Latest(path("other"))).await.unwrap(), None);
    let stranger = TenantId::new("acme").unwrap();
    let foreign = store.catalog_entry(&stranger, CatalogKey::Id(id(5))).await;
    assert_eq!(foreign.unwrap(), None);
}

pub(crate) async fn racing_registrations_number_without_gaps(bench: &Bench) {
    let mut racers = JoinSet::new();
    for racer in 1..=16 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let content = format!("content {racer}");
            let new = entry(racer, "etl", &content);
            store.register(new).await.unwrap().entry.version
        });
    }
    let mut versions = racers.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=16).collect::<Vec<u32>>());
}

pub(crate) async fn lists_of_definitions(bench: &Bench) {
    let store = &*bench.store;
    for (number, at_path) in [(1, "b"), (2, "a"), (3, "c"), (4, "d")] {
        store.register(entry(number, at_path, "1")).await.unwrap();
    }
    store.register(entry(5, "a", "2")).await.unwrap();
    let mut subscription = entry(6, "aa", "1");
    subscription.kind = Text::from("subscription");
    store.register(subscription).await.unwrap();
    let mut foreign = entry(7, "b", "1");
    foreign.tenant_id = TenantId::new("acme").unwrap();
    store.register(foreign).await.unwrap();

    let mut filter = CatalogFilter {
        tenant_id: TenantId::default(),
        kind: Some(Text::from("playbook")),
        archived: false,
        after: None,
        limit: PageLimit::new(3).unwrap(),
    };
    let first = store.catalog(filter.clone()).await.unwrap();
    let names: Vec<_> = first
        .iter()
        .map(|entry| (entry.path.as_str(), entry.version))
        .collect();
    assert_eq!(names, [("a", 2), ("b", 1), ("c", 1)]);
    filter.after = first.last().map(|entry| entry.path.clone());
    let second = store.catalog(filter).await.unwrap();
    let names: Vec<_> = second.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["d"]);
}

pub(crate) async fn versions_of_a_path(bench: &Bench) {
    let store = &*bench.store;
    for (number, content) in [(1, "a"), (2, "b"), (3, "c")] {
        store.register(entry(number, "etl", content)).await.unwrap();
    }
    store.register(entry(4, "etl2", "a")).await.unwrap();
    let mut filter = VersionFilter {
        tenant_id: TenantId::default(),
        path: path("etl"),
        before: None,
        limit: PageLimit::new(2).unwrap(),
    };
    let of = |entries: Vec<crate::CatalogEntry>| -> Vec<_> {
        let entries = entries.iter();
        entries
            .map(|it| (it.version, it.content.to_string()))
            .collect()
    };
    let newest = of(store.catalog_versions(filter.clone()).await.unwrap());
    assert_eq!(newest, [(3, "c".to_owned()), (2, "b".to_owned())]);
    filter.before = Some(2);
    let rest = of(store.catalog_versions(filter.clone()).await.unwrap());
    assert_eq!(rest, [(1, "a".to_owned())]);
    filter.path = path("none");
    assert_eq!(store.catalog_versions(filter).await.unwrap(), []);
}

pub(crate) async fn an_archived_path(bench: &Bench) {
    let store = &*bench.store;
    let tenant = TenantId::default();
    for (number, content) in [(1, "a"), (2, "b")] {
        store.register(entry(number, "etl", content)).await.unwrap();
    }
    store.register(entry(3, "kept", "a")).await.unwrap();
    let (etl, since) = (path("etl"), Some(at("13:00:00")));
    assert!(!store.archive(&tenant, &path("none"), since).await.unwrap());
    assert!(store.archive(&tenant, &etl, since).await.unwrap());
    // The first time stays.
    let later = Some(at("14:00:00"));
    assert!(!store.archive(&tenant, &etl, later).await.unwrap());
    for key in [CatalogKey::Id(id(1)), CatalogKey::Latest(etl.clone())] {
        let found = store.catalog_entry(&tenant, key).await.unwrap().unwrap();
        assert_eq!(found.archived_at, since);
    }
    let mut filter = CatalogFilter {
        tenant_id: tenant.clone(),
        kind: None,
        archived: false,
        after: None,
        limit: PageLimit::default(),
    };
    assert_eq!(store.catalog(filter.clone()).await.unwrap().len(), 1);
    filter.archived = true;
    assert_eq!(store.catalog(filter).await.unwrap().len(), 2);
    let counts = store.counts(&tenant).await.unwrap();
    assert_eq!(counts.definitions.get("playbook"), Some(&1));

    assert!(store.archive(&tenant, &etl, None).await.unwrap());
    assert!(!store.archive(&tenant, &etl, None).await.unwrap());
    // Whoever registers at an archived path wants it back.
    assert!(store.archive(&tenant, &etl, since).await.unwrap());
    let same = store.register(entry(4, "etl", "b")).await.unwrap();
    assert!(same.is_unchanged);
    assert_eq!(same.entry.archived_at, None);
    assert!(store.archive(&tenant, &etl, since).await.unwrap());
    let next = store.register(entry(5, "etl", "c")).await.unwrap();
    assert_eq!((next.entry.version, next.entry.archived_at), (3, None));
    let first = CatalogKey::Version(etl, 1);
    let first = store.catalog_entry(&tenant, first).await.unwrap().unwrap();
    assert_eq!(first.archived_at, None);
}
