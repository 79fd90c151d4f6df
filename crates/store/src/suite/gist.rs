//! What a replay reads of a log.

use noetl_types::record::SchemaVersion;
use noetl_types::replay::Gist;
use noetl_types::{EventId, EventName, Json, Seq, StatusName, StoredEvent, Text, Version, json};

use super::Bench;
use super::fixture::Run;
use crate::{Gists, LogPage, Store};

/// Whatever an event tells a replay, in the order of its fields, without what it was done with.
type Told = (
    (EventId, Seq, EventName, StatusName),
    Vec<Option<String>>,
    Vec<Option<Json>>,
);

fn told(gist: Gist<'_>) -> Told {
    let command_id = gist.command_id.map(|id| id.to_string());
    let texts = [
        gist.node_name,
        gist.stage_id,
        gist.frame_id,
        gist.aggregate_type,
        gist.aggregate_id,
        gist.worker_id,
    ];
    let texts = texts.into_iter().map(|text| text.map(str::to_owned));
    let values = [gist.result, gist.meta, gist.payload_ref];
    (
        (
            gist.event_id,
            gist.seq,
            gist.event_type.clone(),
            gist.status.clone(),
        ),
        [command_id].into_iter().chain(texts).collect(),
        values
            .map(|value| value.map(|value| value.to_json().unwrap()))
            .into(),
    )
}

/// The contexts of a page, for each event.
fn contexts(page: &Gists) -> Vec<Option<Json>> {
    match page {
        Gists::Rows(rows) => rows
            .gists()
            .map(|gist| gist.context.map(|it| it.to_json().unwrap()))
            .collect(),
        Gists::Whole(events) => {
            let events = events.iter();
            events.map(|it| it.record.event.context.clone()).collect()
        }
    }
}

fn shown(page: &Gists) -> Vec<Told> {
    match page {
        Gists::Rows(rows) => rows.gists().map(told).collect(),
        Gists::Whole(events) => {
            let events = events.iter();
            events.map(|it| told(Gist::from(&it.record))).collect()
        }
    }
}

/// A replay reads of a log what its events say.
pub(crate) async fn same_gists(store: &dyn Store, events: &[StoredEvent]) {
    let id = events[0].record.event.execution_id;
    let page = store.gists(id, Version::EMPTY, LogPage::MAX).await.unwrap();
    assert_eq!(shown(&page), shown(&Gists::Whole(events.to_vec())));
    assert_eq!(page.len(), events.len());
    assert_eq!(page.last(), events.last().map(|it| it.record.seq));
}

/// Pages put together are what the events of a log say; gives how many there are.
pub(crate) async fn same_pages(store: &dyn Store, events: &[StoredEvent], page: LogPage) -> usize {
    let id = events[0].record.event.execution_id;
    let (mut after, mut pages, mut found) = (Version::EMPTY, 0, Vec::new());
    while found.len() < events.len() {
        let gists = store.gists(id, after, page).await.unwrap();
        after = gists.last().unwrap().into();
        found.extend(shown(&gists));
        pages += 1;
    }
    assert_eq!(found, shown(&Gists::Whole(events.to_vec())));
    pages
}

pub(crate) async fn pages_of_gists(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    for _ in 0..9 {
        let append = run.step();
        run.write(store, append).await.unwrap();
    }
    let mut after = Version::EMPTY;
    let mut pages = Vec::new();
    loop {
        let page = store.gists(run.id, after, LogPage::clamped(4)).await;
        let page = page.unwrap();
        let Some(last) = page.last() else { break };
        let events = store.events(run.id, after, LogPage::clamped(4)).await;
        assert_eq!(shown(&page), shown(&Gists::Whole(events.unwrap())));
        after = last.into();
        pages.push(page.len());
    }
    assert_eq!(pages, [4, 4, 2]);
    let unknown = store.gists(Run::new(9).id, Version::EMPTY, LogPage::MAX);
    assert!(unknown.await.unwrap().is_empty());
}

/// What an event was done with is read where it may tell of a business object.
pub(crate) async fn contexts_of_business_objects(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let tells = [
        (None, r#"{"business_object":{"type":"a","id":1}}"#),
        (None, r#"{"business_object_type":"a","object_id":"b"}"#),
        (None, r#"{"object_type":"a","business_object_id":"b"}"#),
        (Some("business_object"), r#"{"attempt":1}"#),
    ];
    let context = json::parse(br#"{"patch":{"color":"red"}}"#).unwrap();
    for (kind, meta) in tells {
        let mut append = run.step();
        let event = &mut append.events[0];
        event.aggregate_type = kind.map(Text::from);
        event.aggregate_id = kind.map(|_| Text::from("business_object/a/b"));
        event.meta = Some(json::parse(meta.as_bytes()).unwrap());
        event.context = Some(context.clone());
        run.write(store, append).await.unwrap();
    }
    let page = store.gists(run.id, Version::EMPTY, LogPage::MAX).await;
    let contexts = contexts(&page.unwrap());
    assert_eq!(contexts[1..], vec![Some(context); tells.len()]);
}

/// An event that has to be lifted comes as a whole, and with it those around it.
pub(crate) async fn other_schema_versions_come_as_a_whole(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut append = run.step();
    append.events[0].schema_version = SchemaVersion::new(1_000).unwrap();
    run.write(store, append).await.unwrap();
    let page = store.gists(run.id, Version::EMPTY, LogPage::MAX).await;
    let events = store.events(run.id, Version::EMPTY, LogPage::MAX).await;
    match page.unwrap() {
        Gists::Whole(whole) => assert_eq!(whole, events.unwrap()),
        Gists::Rows(rows) => panic!("{rows:?}"),
    }
}
