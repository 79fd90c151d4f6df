//! The catalog.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, PlaybookPath, TenantId, Text, sha256};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::at;
use crate::{CatalogFilter, CatalogKey, NewCatalogEntry};

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
